"""model_libs: the nets of SSD's scripts, compared with models/ssd300_vgg."""

import os

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import text_format  # noqa: E402

import caffe  # noqa: E402
import caffe.model_libs as libs  # noqa: E402
from caffe import layers as L  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def spec_of(*dims):
    net = caffe.NetSpec()
    net.data = L.Input(shape={"dim": list(dims)})
    return net


def ssd300():
    """SSD300 as its authors' script builds it."""
    net = spec_of(1, 3, 300, 300)
    libs.VGGNetBody(net, "data", fully_conv=True, reduced=True, dilated=True, dropout=False)
    below = "fc7"
    for group, few, many, pad, stride in ((6, 256, 512, 1, 2), (7, 128, 256, 1, 2),
                                          (8, 128, 256, 0, 1), (9, 128, 256, 0, 1)):
        for index, channels, window in ((1, few, (1, 0, 1)), (2, many, (3, pad, stride))):
            name = f"conv{group}_{index}"
            libs.ConvBNLayer(net, below, name, False, True, channels, *window)
            below = name
    libs.CreateMultiBoxHead(
        net, num_classes=21, use_batchnorm=False, kernel_size=3, pad=1, clip=False,
        from_layers=["conv4_3", "fc7", "conv6_2", "conv7_2", "conv8_2", "conv9_2"],
        min_sizes=[30.0, 60.0, 111.0, 162.0, 213.0, 264.0],
        max_sizes=[60.0, 111.0, 162.0, 213.0, 264.0, 315.0],
        aspect_ratios=[[2], [2, 3], [2, 3], [2, 3], [2], [2]], steps=[8, 16, 32, 64, 100, 300],
        normalizations=[20, -1, -1, -1, -1, -1], prior_variance=[0.1, 0.1, 0.2, 0.2])
    return net.to_proto()


def without_training(layer):
    """What a layer computes: without fillers and factors, and with defaults left out."""
    kept = caffe_pb2.LayerParameter()
    kept.CopyFrom(layer)
    for field in ("param", "phase", "include"):
        kept.ClearField(field)
    for settings in (kept.convolution_param, kept.norm_param):
        for name in ("weight_filler", "bias_filler", "scale_filler"):
            if name in settings.DESCRIPTOR.fields_by_name:
                settings.ClearField(name)
    convolution = kept.convolution_param
    for name, default in (("pad", 0), ("stride", 1), ("dilation", 1)):
        if list(getattr(convolution, name)) == [default]:
            convolution.ClearField(name)
    for field, value in [(f, v) for f, v in kept.ListFields() if f.message_type is not None]:
        if is_single(field):
            for inner, number in list(value.ListFields()):
                if inner.has_default_value and number == inner.default_value:
                    value.ClearField(inner.name)
            if not value.ListFields():
                kept.ClearField(field.name)
    return text_format.MessageToString(kept)


def is_single(field):
    return not (field.is_repeated if hasattr(field, "is_repeated")
                else field.label == field.LABEL_REPEATED)


def test_ssd300_is_the_net_of_the_model():
    model = caffe_pb2.NetParameter()
    with open(os.path.join(ROOT, "models", "ssd300_vgg", "deploy.prototxt")) as file:
        text_format.Merge(file.read(), model)
    expected = {layer.name: without_training(layer) for layer in model.layer}
    made = {layer.name: without_training(layer) for layer in ssd300().layer}
    del made["data"]
    assert {"fc7", "conv9_2", "mbox_loc", "mbox_conf", "mbox_priorbox"} < set(made)
    assert set(expected) - set(made) == {"data", "mbox_conf_reshape", "mbox_conf_softmax",
                                         "mbox_conf_flatten", "detection_out"}
    for name, text in made.items():
        assert text == expected[name], name


@pytest.mark.parametrize("body,settings,top,shape", [
    (libs.VGGNetBody, {"need_fc": False}, "conv5_3", (1, 512, 4, 4)),
    (libs.VGGNetBody, {"need_fc": False, "nopool": True}, "conv5_3", (1, 512, 4, 4)),
    (libs.VGGNetBody, {"fully_conv": True, "reduced": True}, "fc7", (1, 1024, 2, 2)),
    (libs.VGGNetBody, {"fully_conv": True, "reduced": True, "dilated": True, "dilate_pool4": True},
     "fc7", (1, 1024, 8, 8)),
    (libs.ZFNetBody, {"fully_conv": True, "reduced": True, "need_fc8": True}, "fc8", None),
    (libs.ResNet101Body, {"use_pool5": False, "use_dilation_conv5": True}, "res5c",
     (1, 2048, 4, 4))])
def test_bodies(body, settings, top, shape):
    net = spec_of(1, 3, 64, 64)
    assert body(net, "data", **settings) is net
    shapes = {name: tuple(blob.shape) for name, blob in
              caffe.Net(net.to_proto(), caffe.TEST).blobs.items()}
    assert shapes[top] == shape or shape is None
    assert shapes[top][1] == 1000 or shape is not None


def test_resnets_have_their_depth():
    for body, depth in ((libs.ResNet101Body, 101), (libs.ResNet152Body, 152)):
        net = body(spec_of(1, 3, 64, 64), "data").to_proto()
        names = [layer.name for layer in net.layer if layer.type == "Convolution"]
        assert len([name for name in names if "branch1" not in name]) == depth - 1
        strides = {layer.name: list(layer.convolution_param.stride) for layer in net.layer}
        assert [strides[f"res{group}a_branch2a"] for group in (2, 3, 4, 5)] == [[1], [2], [2], [2]]
        assert net.layer[-1].name == "pool5" and net.layer[-1].pooling_param.global_pooling


def test_inception_v3():
    net = libs.InceptionV3Body(spec_of(1, 3, 299, 299), "data", output_pred=True)
    blobs = caffe.Net(net.to_proto(), caffe.TEST, optimize=True,
                      keep=["mixed_2/join", "mixed_7/join", "mixed_10/join"]).blobs
    assert tuple(blobs["mixed_2/join"].shape) == (1, 288, 35, 35)
    assert tuple(blobs["mixed_7/join"].shape) == (1, 768, 17, 17)
    assert tuple(blobs["mixed_10/join"].shape) == (1, 2048, 8, 8)
    assert tuple(blobs["softmax_prob"].shape) == (1, 1008)


def test_convolution_with_batch_norm():
    net = spec_of(1, 3, 8, 8)
    libs.ConvBNLayer(net, "data", "c", use_bn=True, use_relu=True, num_output=4,
                     kernel_size=[1, 7], pad=[0, 3], stride=1, dilation=2, lr_mult=0.5)
    assert list(net) == ["data", "c", "c_bn", "c_scale", "c_relu"]
    convolution, norm, scale, relu = net.to_proto().layer[1:]
    settings = convolution.convolution_param
    assert (settings.kernel_h, settings.kernel_w, settings.pad_w, list(settings.dilation)) == (
        1, 7, 3, [2])
    assert not settings.bias_term and [p.lr_mult for p in convolution.param] == [0.5]
    assert [p.lr_mult for p in norm.param] == [0, 0, 0]
    assert [p.lr_mult for p in scale.param] == [0.5, 0.5]
    assert relu.top == relu.bottom == norm.top == ["c"]
    libs.ConvBNLayer(net, "c", "d", use_bn=True, use_relu=False, num_output=4, kernel_size=1,
                     pad=0, stride=1, use_scale=False, use_global_stats=True)
    norm, bias = net.to_proto().layer[-2:]
    assert norm.batch_norm_param.use_global_stats and bias.type == "Bias"
    assert [p.lr_mult for p in bias.param] == [0]


def test_frozen_layers_do_not_learn():
    net = libs.VGGNetBody(spec_of(1, 3, 32, 32), "data", need_fc=False,
                          freeze_layers=["conv1_1", "not there"])
    factors = {layer.name: [p.lr_mult for p in layer.param] for layer in net.to_proto().layer}
    assert factors["conv1_1"] == [0, 0] and factors["conv1_2"] == [1, 2]


def test_data_layer_of_boxes():
    net = caffe.NetSpec()
    net.data, net.label = libs.CreateAnnotatedDataLayer(
        "lmdb", batch_size=4, train=False, label_map_file="map", transform_param={"mirror": True},
        batch_sampler=[{"max_trials": 2}])
    (layer,) = net.to_proto().layer
    assert layer.type == "AnnotatedData" and list(layer.top) == ["data", "label"]
    assert layer.include[0].phase == caffe.TEST and layer.transform_param.mirror
    assert layer.annotated_data_param.batch_sampler[0].max_trials == 2
    assert layer.data_param.source == "lmdb" and layer.data_param.batch_size == 4


def test_wrong_settings_are_named():
    net = spec_of(1, 3, 32, 32)
    with pytest.raises(ValueError, match="num_classes"):
        libs.CreateMultiBoxHead(net, from_layers=["data"], min_sizes=[1.0])
    with pytest.raises(ValueError, match="steps has 2 values for 1 from_layers"):
        libs.CreateMultiBoxHead(net, num_classes=2, from_layers=["data"], min_sizes=[1.0],
                                steps=[1, 2])
    with pytest.raises(ValueError, match="no layer 'fc7'"):
        libs.VGGNetBody(net, "fc7")
    with pytest.raises(ValueError, match="give one, or 2"):
        libs.UnpackVariable([1, 2, 3], 2)


def test_star_import_gives_what_scripts_use():
    names = {}
    exec("from caffe.model_libs import *", names)
    assert {"L", "P", "os", "caffe", "caffe_pb2", "VGGNetBody", "CreateMultiBoxHead",
            "make_if_not_exist", "check_if_exist"} <= set(names)
