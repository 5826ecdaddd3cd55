"""caffe.net_spec: L, P, NetSpec, to_proto."""

import copy
import glob
import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import text_format  # noqa: E402

import caffe  # noqa: E402
import crema  # noqa: E402
from caffe import layers as L  # noqa: E402
from caffe import params as P  # noqa: E402
from caffe.net_spec import assign_proto, param_name_dict, to_proto  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402


def small(n):
    n.data, n.label = L.DummyData(shape=[dict(dim=[4, 1, 8, 8]), dict(dim=[4])], ntop=2,
                                  data_filler=[dict(type="gaussian"), dict(type="constant")])
    n.conv = L.Convolution(n.data, kernel_size=3, num_output=5, weight_filler=dict(type="xavier"))
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, kernel_size=2, stride=2, pool=P.Pooling.AVE)
    n.ip = L.InnerProduct(n.pool, num_output=3, weight_filler=dict(type="xavier"))
    n.loss = L.SoftmaxWithLoss(n.ip, n.label)
    return n


EXPECTED = """
layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'
  dummy_data_param { data_filler { type: 'gaussian' } data_filler { type: 'constant' }
    shape { dim: 4 dim: 1 dim: 8 dim: 8 } shape { dim: 4 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 5 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'
  pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
"""


def test_a_net_by_names():
    net = small(caffe.NetSpec())
    expected = text_format.Parse(EXPECTED, caffe_pb2.NetParameter())
    assert net.to_proto() == expected
    assert text_format.Parse(net.to_prototxt(), caffe_pb2.NetParameter()) == expected


def test_the_net_runs():
    spec = small(caffe.NetSpec())
    for source in (spec, spec.to_proto(), spec.to_prototxt()):
        net = caffe.Net(source, caffe.TEST)
        assert list(net.blobs) == ["data", "label", "conv", "pool", "ip", "loss"]
        assert net.params["conv"][0].data.shape == (5, 1, 3, 3)
        assert net.forward()["loss"] > 0


def test_a_net_without_names():
    data, label = L.DummyData(shape=[dict(dim=[4, 3]), dict(dim=[4])], ntop=2)
    first = L.InnerProduct(data, num_output=2)
    second = L.InnerProduct(L.ReLU(first, in_place=True), num_output=2)
    loss = L.SoftmaxWithLoss(second, label)
    for net in (loss.to_proto(), to_proto(loss, first)):
        assert [layer.name for layer in net.layer] == [
            "DummyData1", "InnerProduct1", "ReLU1", "InnerProduct2", "SoftmaxWithLoss1"]
        assert list(net.layer[0].top) == ["DummyData1", "DummyData2"]
        assert list(net.layer[2].top) == list(net.layer[2].bottom) == ["InnerProduct1"]
        assert list(net.layer[4].bottom) == ["InnerProduct2", "DummyData2"]


def test_layers_without_tops():
    n = caffe.NetSpec()
    n.a, n.b = L.DummyData(shape=dict(dim=3), ntop=2)
    n.silence = L.Silence(n.a, ntop=0)
    n.other = L.Silence(n.b, ntop=0)
    net = n.to_proto()
    assert [(layer.name, list(layer.bottom)) for layer in net.layer[1:]] == [
        ("silence", ["a"]), ("other", ["b"])]
    assert list(net.layer[0].dummy_data_param.shape[0].dim) == [3]
    assert to_proto(L.Silence(n.a, ntop=0)).layer[1].name == "Silence1"


def test_an_input_has_to_be_a_blob():
    data = L.DummyData(ntop=2, shape=dict(dim=3))
    with pytest.raises(TypeError) as caught:
        L.Silence(data, ntop=0)
    assert str(caught.value) == "Silence input 0 is not a Top (type is <class 'tuple'>)"
    L.Silence(*data, ntop=0)
    with pytest.raises(ValueError, match="in place"):
        L.ReLU(in_place=True)


def test_bottoms_and_tops_as_parameters():
    made = L.Convolution(name="c", bottom="x", top=["y"], num_output=2, kernel_size=1, ntop=0)
    layer = to_proto(made).layer[0]
    assert (layer.name, list(layer.bottom), list(layer.top)) == ("c", ["x"], ["y"])


def test_a_layer_may_have_a_name_of_its_own():
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 2]))
    n["fc/1"] = L.InnerProduct(n.data, name="fc", num_output=2)
    layer = n.to_proto().layer[1]
    assert (layer.name, list(layer.top)) == ("fc", ["fc/1"])


def layer_of(top):
    return to_proto(top).layer[-1]


def test_where_parameters_go():
    x = L.Input(shape=dict(dim=[1, 3, 8, 8]))
    conv = layer_of(L.Convolution(
        x, num_output=2, kernel_size=[3, 5], loss_weight=2, engine=P.Convolution.CUDNN,
        param=[dict(lr_mult=1), dict(lr_mult=2, decay_mult=0)],
        include=dict(phase=caffe.TEST, stage="a")))
    assert list(conv.convolution_param.kernel_size) == [3, 5] and list(conv.loss_weight) == [2]
    assert [param.lr_mult for param in conv.param] == [1, 2]
    assert conv.include[0].phase == caffe.TEST and list(conv.include[0].stage) == ["a"]
    assert conv.convolution_param.engine == caffe_pb2.ConvolutionParameter.CUDNN
    assert layer_of(L.Convolution(x, engine="onednn", num_output=1)).engine == "onednn"
    python = layer_of(L.Python(x, module="m", layer="Loss", param_str="{}"))
    assert python.python_param.layer == "Loss"
    loss = layer_of(L.SoftmaxWithLoss(x, x, ignore_label=255, axis=1,
                                      loss_param=dict(normalize=True)))
    assert (loss.loss_param.ignore_label, loss.softmax_param.axis) == (255, 1)
    assert loss.loss_param.normalize
    assert layer_of(L.LSTM(x, x, num_output=7)).recurrent_param.num_output == 7
    assert layer_of(L.Deconvolution(x, num_output=7)).convolution_param.num_output == 7
    both = layer_of(L.Deconvolution(x, convolution_param=dict(num_output=7)))
    assert both.convolution_param.num_output == 7
    data = layer_of(L.Data(source="lmdb", backend=P.Data.LMDB, batch_size=2,
                           transform_param=dict(mean_value=[1, 2], mirror=True)))
    assert data.data_param.backend == caffe_pb2.DataParameter.LMDB
    assert list(data.transform_param.mean_value) == [1, 2]


def test_values_of_many_kinds():
    x = L.Input(shape=dict(dim=np.array([1, 3])))
    assert list(layer_of(x).input_param.shape[0].dim) == [1, 3]
    pool = layer_of(L.Pooling(x, pool="AVE", kernel_size=np.int64(3), stride=8 / 4, pad=None))
    assert (pool.pooling_param.pool, pool.pooling_param.kernel_size) == (1, 3)
    assert pool.pooling_param.stride == 2 and not pool.pooling_param.HasField("pad")
    assert layer_of(L.ELU(x, lambda_=2)).elu_param == layer_of(L.ELU(x, **{"lambda": 2})).elu_param
    filler = caffe_pb2.FillerParameter(type="msra")
    ip = layer_of(L.InnerProduct(x, num_output=1, weight_filler=filler, param=(dict(lr_mult=3),)))
    assert ip.inner_product_param.weight_filler.type == "msra" and ip.param[0].lr_mult == 3


def test_assign_proto():
    layer = caffe_pb2.LayerParameter()
    assign_proto(layer, "bottom", "x")
    assign_proto(layer, "bottom", ["y", "z"])
    assign_proto(layer, "slice_param", {"slice_point": (1, 2)})
    assert list(layer.bottom) == ["x", "y", "z"]
    assert list(layer.slice_param.slice_point) == [1, 2]


def test_wrong_names_are_answered_by_the_nearest():
    x = L.Input(shape=dict(dim=[1, 3]))
    for wrong, near in ((dict(num_ouput=3), "num_output"), (dict(kernelsize=3), "kernel_size"),
                        (dict(weight_filler=dict(typ="xavier")), "type"),
                        (dict(convolution_params=dict()), "convolution_param"),
                        (dict(param=[dict(lrmult=1)]), "lr_mult"),
                        (dict(inplace=True), "in_place")):
        with pytest.raises(AttributeError, match=f"did you mean {near}"):
            L.Convolution(x, **wrong)
    with pytest.raises(AttributeError, match="there are .*negative_slope"):
        L.ReLU(x, zzzzzz=1)
    with pytest.raises(AttributeError, match="did you mean MAX"):
        P.Pooling.MAXX  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean Pooling"):
        P.Poolin  # noqa: B018
    with pytest.raises(ValueError, match="did you mean AVE"):
        to_proto(L.Pooling(x, pool="AVG"))
    with pytest.raises(TypeError, match="num_output"):
        to_proto(L.Convolution(x, num_output="many"))
    with pytest.raises(TypeError, match="dict"):
        to_proto(L.Convolution(x, weight_filler="xavier"))


def test_netspec_as_a_mapping():
    n = small(caffe.NetSpec())
    assert n.keys() == ["data", "label", "conv", "relu", "pool", "ip", "loss"] == list(n)
    assert n.vals()[2] is n.conv is n["conv"] and "conv" in n and len(n) == 7
    n.update("ip", dict(num_output=9))
    assert n.to_proto().layer[4].inner_product_param.num_output == 9
    with pytest.raises(AttributeError, match="num_output"):
        n.update("ip", dict(num_outpu=9))
    del n["loss"]
    del n.label
    assert "loss" not in n and len(n.to_proto().layer) == 5
    for read in (lambda: n.los, lambda: n["los"]):
        with pytest.raises(KeyError):
            read()
    with pytest.raises(AttributeError, match="did you mean pool"):
        n.pol  # noqa: B018
    assert not hasattr(n, "nothing") and "conv" in dir(n)
    with pytest.raises(TypeError, match="2 tops"):
        n.both = L.DummyData(ntop=2)


def test_netspec_is_copied_and_pickled():
    n = small(caffe.NetSpec())
    for other in (copy.deepcopy(n), pickle.loads(pickle.dumps(n))):
        assert other.to_proto() == n.to_proto()


def test_a_net_deeper_than_the_stack():
    top = L.Input(shape=dict(dim=[1, 2]))
    for _ in range(3000):
        top = L.ReLU(top)
    assert len(top.to_proto().layer) == 3001


def test_enums_by_message():
    assert P.Pooling.MAX == 0 and P.Data.LMDB == 1 and P.Solver.GPU == 1 and P.Loss.VALID == 1
    assert P.PriorBox.CENTER_SIZE == 2 and P.Resize.WARP == 1 and P.Eltwise.SUM == 1
    assert "MAX" in dir(P.Pooling) and "Pooling" in dir(P)


def test_names_of_settings():
    names = param_name_dict()
    assert names["Convolution"] == names["Deconvolution"] == "convolution"
    assert names["LSTM"] == "recurrent" and names["InnerProduct"] == "inner_product"


def test_functions_have_a_signature_and_a_manual():
    assert L.Convolution is L.Convolution and L.Convolution.__name__ == "Convolution"
    parameters = inspect.signature(L.Pooling).parameters
    assert parameters["pool"].default == "MAX" and "ntop" in parameters
    assert "num_output: int" in L.InnerProduct.__doc__
    assert "pool: MAX | AVE | STOCHASTIC (default 'MAX')" in L.Pooling.__doc__
    assert "normalization: " in L.SoftmaxWithLoss.__doc__
    with pytest.raises(AttributeError):
        L._repr_html_  # noqa: B018


def test_every_layer_type():
    types = caffe.layer_type_list()
    assert set(types) <= set(dir(L))
    for name in types:
        made = getattr(L, name)(ntop=0)
        assert to_proto(made).layer[0].type == name


def plain(value):
    if hasattr(value, "ListFields"):
        return {field.name: plain(part) for field, part in value.ListFields()}
    return [plain(item) for item in value] if hasattr(value, "append") else value


def test_nets_of_the_models_are_written_again():
    """Each layer of models/, called as a function, gives the layer that it was made of."""
    root = os.path.join(os.path.dirname(__file__), "..", "..", "models")
    files = sorted(glob.glob(os.path.join(root, "*", "*.prototxt")))
    if not files:
        pytest.skip("the sources are not there")
    types = set()
    for file in files:
        net = caffe_pb2.NetParameter()
        try:
            text_format.Merge(open(file, encoding="utf-8").read(), net)
        except text_format.ParseError:
            continue  # a solver, or settings of a plug-in
        for layer in net.layer:
            types.add(layer.type)
            made = getattr(L, layer.type)(ntop=0, **{
                name: value for name, value in plain(layer).items() if name != "type"})
            assert made._message([], [], "") == layer, (file, layer.name)
    assert len(types) > 20


def test_settings_are_those_of_the_list_of_published_types():
    """layers/published_types.txt says which settings a type reads besides those of its name."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "layers", "published_types.txt")
    if not os.path.exists(path):
        pytest.skip("the sources are not there")
    from crema.net_spec import _settings_of

    for line in open(path):
        if line.startswith("#") or not line.strip():
            continue
        name, *settings = line.split()
        known = _settings_of(name)
        assert set(settings) <= set(known), name
        own = name.lower() + "param"
        assert all(each in settings or each.replace("_", "") == own for each in known), name


# The same under crema's own name.

def test_crema_has_them_without_caffe():
    script = """
import sys
sys.modules['caffe'] = None
import crema
assert 'google.protobuf' not in sys.modules  # until it is needed
from crema import NetSpec, layers as L, params as P, messages
n = NetSpec()
n.data = L.Input(shape=dict(dim=[2, 1, 8, 8]))
n.pool = L.Pooling(n.data, pool=P.Pooling.MAX, kernel_size=2, stride=2)
net = crema.Net(n)
assert net.blobs['pool'].shape == (2, 1, 4, 4)
assert isinstance(n.to_proto(), messages.NetParameter)
for text in (n.to_prototxt(), net.to_prototxt()):
    assert crema.Net(text).blobs['pool'].shape == (2, 1, 4, 4)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_caffes_names_are_cremas():
    assert caffe.NetSpec is crema.NetSpec and caffe.layers is crema.layers
    assert caffe.params is crema.params and caffe.to_proto is crema.to_proto
    assert crema.messages.NetParameter is caffe_pb2.NetParameter


def test_completion_by_tab():
    assert {"Convolution", "ReLU", "Python"} <= set(dir(crema.layers))
    assert "Pooling" in dir(crema.params) and "AVE" in dir(crema.params.Pooling)
    spec = small(crema.NetSpec())
    assert {"conv", "to_prototxt", "to_svg"} <= set(dir(spec))
    assert {"NetSpec", "layers", "params", "messages", "train"} <= set(dir(crema))


def test_a_wrong_layer_type_is_answered_by_the_nearest():
    x = L.Input(shape=dict(dim=[1, 3, 8, 8]))
    with pytest.raises(AttributeError, match="did you mean Convolution"):
        L.Convolutoin(x, num_output=3)
    with pytest.raises(AttributeError, match="Convolution has no parameter.*did you mean num_output"):
        L.Convolution(x, num_outputs=3)
    with pytest.raises(AttributeError, match="FillerParameter.*did you mean type"):
        L.Convolution(x, num_output=3, weight_filler=dict(typ="xavier"))
    plugged = L.MyOwnLayer(x, name="mine", loss_weight=2)  # of a plug-in
    assert to_proto(plugged).layer[1].type == "MyOwnLayer"


def test_jupyter_shows_a_picture():
    page = small(crema.NetSpec())._repr_html_()
    assert page.startswith("<svg") and "Convolution 3x3" in page and "ip" in page
    assert "<svg" not in crema.NetSpec()._repr_html_()
