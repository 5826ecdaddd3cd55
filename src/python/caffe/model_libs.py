"""Bodies and heads of detectors, by the names that SSD's scripts import: caffe.model_libs.

    from caffe.model_libs import *

    net = caffe.NetSpec()
    net.data, net.label = CreateAnnotatedDataLayer(source='lmdb', batch_size=8, ...)
    VGGNetBody(net, from_layer='data', fully_conv=True, reduced=True, dilated=True, dropout=False)
    net.mbox_loss = L.MultiBoxLoss(*CreateMultiBoxHead(net, num_classes=21, ...), net.label, ...)

Each function adds layers to a NetSpec. Layers have the names of the published weights. A layer is
named by a text: from_layer='fc7' is net['fc7'].
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import caffe  # noqa: F401  scripts get it by `import *`

from .net_spec import NetSpec, Top
from .net_spec import layers as L
from .net_spec import params as P
from .proto import caffe_pb2

Settings = dict[str, Any]

#: How a layer of a body learns: weights, and biases at twice the rate without decay.
_LEARNED: Settings = {
    "param": [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}],
    "weight_filler": {"type": "xavier"},
    "bias_filler": {"type": "constant", "value": 0},
}
_FROZEN: Settings = {"param": [{"lr_mult": 0, "decay_mult": 0}] * 2}


def check_if_exist(path: str) -> bool:
    """Whether there is a file or folder of that name."""
    return os.path.exists(path)


def make_if_not_exist(path: str) -> None:
    """Makes a folder, and those above it, unless it is there."""
    os.makedirs(path, exist_ok=True)


def UnpackVariable(var: Any, num: int) -> list[Any]:
    """A value for each of `num` axes: those of a list, or one value for all.

    ValueError for a list of another length.
    """
    values = list(var) if isinstance(var, (list, tuple)) else [var]
    if len(values) == 1:
        values *= num
    if len(values) != num:
        raise ValueError(f"{var!r} has {len(values)} values; give one, or {num}")
    return values


def _known(net: NetSpec, name: str) -> Any:
    if name not in net:
        raise ValueError(f"there is no layer {name!r} in the net; there are {', '.join(net)}")
    return net[name]


# Parts.

def ConvBNLayer(net: NetSpec, from_layer: str, out_layer: str, use_bn: bool, use_relu: bool,
                num_output: int, kernel_size: Any, pad: Any, stride: Any, dilation: int = 1,
                use_scale: bool = True, lr_mult: float = 1, conv_prefix: str = "",
                conv_postfix: str = "", bn_prefix: str = "", bn_postfix: str = "_bn",
                scale_prefix: str = "", scale_postfix: str = "_scale", bias_prefix: str = "",
                bias_postfix: str = "_bias", **bn_params: Any) -> None:
    """Adds a convolution, and in place behind it BatchNorm with Scale or Bias, and ReLU.

    Its name is conv_prefix + out_layer + conv_postfix; the others are named alike, and ReLU by the
    convolution and '_relu'. Without BatchNorm the convolution has a bias.
    kernel_size, pad, stride: a number, or [of height, of width].
    use_scale: Scale behind BatchNorm; else Bias. bn_params: eps (0.001),
        moving_average_fraction (0.999) and use_global_stats. With the latter, neither BatchNorm
        nor Scale learns.
    """
    if use_bn:
        learned: Settings = {"param": [{"lr_mult": lr_mult, "decay_mult": 1}], "bias_term": False,
                             "weight_filler": {"type": "gaussian", "std": 0.01}}
    else:
        learned = {**_LEARNED, "param": [{"lr_mult": lr_mult, "decay_mult": 1},
                                         {"lr_mult": 2 * lr_mult, "decay_mult": 0}]}
    if dilation > 1:
        learned["dilation"] = dilation
    windows: Settings = {}
    for key, value in (("kernel", kernel_size), ("pad", pad), ("stride", stride)):
        windows[key + "_h"], windows[key + "_w"] = UnpackVariable(value, 2)
    if windows["kernel_h"] == windows["kernel_w"]:
        windows = {"kernel_size": windows["kernel_h"], "pad": windows["pad_h"],
                   "stride": windows["stride_h"]}
    conv = f"{conv_prefix}{out_layer}{conv_postfix}"
    net[conv] = L.Convolution(_known(net, from_layer), num_output=num_output, **windows, **learned)
    if use_bn:
        fixed = bool(bn_params.get("use_global_stats", False))
        statistics: Settings = {"eps": bn_params.get("eps", 0.001),
                                "param": [{"lr_mult": 0, "decay_mult": 0}] * 3}
        if fixed:
            statistics["use_global_stats"] = True
        else:
            statistics["moving_average_fraction"] = bn_params.get("moving_average_fraction", 0.999)
        net[f"{bn_prefix}{out_layer}{bn_postfix}"] = L.BatchNorm(
            net[conv], in_place=True, **statistics)
        rate = {"lr_mult": 0 if fixed else lr_mult, "decay_mult": 0}
        if use_scale:
            net[f"{scale_prefix}{out_layer}{scale_postfix}"] = L.Scale(
                net[conv], in_place=True, bias_term=True, param=[rate, rate],
                filler={"type": "constant", "value": 1.0},
                bias_filler={"type": "constant", "value": 0.0})
        else:
            net[f"{bias_prefix}{out_layer}{bias_postfix}"] = L.Bias(
                net[conv], in_place=True, param=[rate], filler={"type": "constant", "value": 0.0})
    if use_relu:
        net[f"{conv}_relu"] = L.ReLU(net[conv], in_place=True)


def ResBody(net: NetSpec, from_layer: str, block_name: str, out2a: int, out2b: int, out2c: int,
            stride: int, use_branch1: bool, dilation: int = 1, **bn_param: Any) -> None:
    """Adds a residual block: 1x1, 3x3 and 1x1 convolutions of out2a, out2b and out2c channels.

    The block's name is 'res' + block_name. use_branch1: a convolution beside the block, for another
    number of channels or stride. dilation: of the 3x3 convolution.
    """
    def add(branch: str, below: str, channels: int, kernel: int, step: int, **more: Any) -> str:
        prefix = f"res{block_name}_"
        ConvBNLayer(net, below, branch, use_bn=True, num_output=channels, kernel_size=kernel,
                    stride=step, conv_prefix=prefix, bn_prefix=f"bn{block_name}_", bn_postfix="",
                    scale_prefix=f"scale{block_name}_", scale_postfix="", **more, **bn_param)
        return prefix + branch

    beside = from_layer
    if use_branch1:
        beside = add("branch1", from_layer, out2c, 1, stride, pad=0, use_relu=False)
    made = add("branch2a", from_layer, out2a, 1, stride, pad=0, use_relu=True)
    made = add("branch2b", made, out2b, 3, 1, pad=dilation, dilation=dilation, use_relu=True)
    made = add("branch2c", made, out2c, 1, 1, pad=0, use_relu=False)
    name = f"res{block_name}"
    net[name] = L.Eltwise(net[beside], net[made])
    net[f"{name}_relu"] = L.ReLU(net[name], in_place=True)


def InceptionTower(net: NetSpec, from_layer: str, tower_name: str,
                   layer_params: Iterable[Settings], **bn_param: Any) -> Top:
    """Adds layers in a row, named tower_name + '/' + name; returns the last one's top.

    layer_params: settings of each with its name: of a Pooling where the name has 'pool', else of
    ConvBNLayer.
    """
    for settings in layer_params:
        settings = dict(settings)
        layer = f"{tower_name}/{settings.pop('name')}"
        if "pool" in layer:
            net[layer] = L.Pooling(_known(net, from_layer), **settings)
        else:
            ConvBNLayer(net, from_layer, layer, use_bn=True, use_relu=True, use_scale=False,
                        **{**settings, **bn_param})
        from_layer = layer
    made: Top = net[from_layer]
    return made


def CreateAnnotatedDataLayer(source: str, batch_size: int = 32, backend: int = P.Data.LMDB,
                             output_label: bool = True, train: bool = True,
                             label_map_file: str = "", anno_type: int | None = None,
                             transform_param: Settings | None = None,
                             batch_sampler: Sequence[Settings] = ({},)) -> Any:
    """The tops (data, label) of a database of images with boxes, or data alone.

    source: an LMDB of AnnotatedDatum. train: whether the layer is of TRAIN, else of TEST.
    transform_param, batch_sampler: dicts as the messages TransformationParameter, BatchSampler.
    """
    annotated: Settings = {"label_map_file": label_map_file, "batch_sampler": list(batch_sampler)}
    if anno_type is not None:
        annotated["anno_type"] = anno_type
    phase = caffe_pb2.Phase.Value("TRAIN" if train else "TEST")
    return L.AnnotatedData(
        name="data", ntop=2 if output_label else 1, annotated_data_param=annotated,
        data_param={"batch_size": batch_size, "backend": backend, "source": source},
        include={"phase": phase}, transform_param=transform_param or {})


# Bodies.

def _convolved(net: NetSpec, below: str, name: str, relu: str | None, **settings: Any) -> str:
    """Adds a convolution that learns as bodies do, and a ReLU in place; returns its name."""
    net[name] = L.Convolution(net[below], **settings, **_LEARNED)
    if relu is not None:
        net[relu] = L.ReLU(net[name], in_place=True)
    return name


def _add_fc(net: NetSpec, below: str, fully_conv: bool, dropout: bool, channels: int,
            window: Settings) -> str:
    """Adds fc6 and fc7: convolutions, the first one with this window, or inner products."""
    for index, settings in ((6, window), (7, {"kernel_size": 1})):
        name = f"fc{index}"
        if fully_conv:
            net[name] = L.Convolution(net[below], num_output=channels, **settings, **_LEARNED)
        else:
            net[name] = L.InnerProduct(net[below], num_output=4096)
        net[f"relu{index}"] = L.ReLU(net[name], in_place=True)
        if dropout:
            net[f"drop{index}"] = L.Dropout(net[name], dropout_ratio=0.5, in_place=True)
        below = name
    return below


def _freeze(net: NetSpec, names: Iterable[str]) -> None:
    for name in names:
        if name in net:
            net.update(name, _FROZEN)


def VGGNetBody(net: NetSpec, from_layer: str, need_fc: bool = True, fully_conv: bool = False,
               reduced: bool = False, dilated: bool = False, nopool: bool = False,
               dropout: bool = True, freeze_layers: Iterable[str] = (),
               dilate_pool4: bool = False) -> NetSpec:
    """Adds VGG-16: conv1_1 to conv5_3, and fc6 and fc7 with need_fc.

    fully_conv: fc6 and fc7 are convolutions; reduced: of 1024 channels and a 3x3 window with holes,
    else of 4096 and 7x7. dilated: pool5 has stride 1, and fc6 larger holes. dilate_pool4: the same
    of pool4 and conv5. nopool: convolutions of stride 2 instead of pooling.
    freeze_layers: those that do not learn.
    """
    _known(net, from_layer)
    dilation = 1
    for group, (channels, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        window: Settings = {"kernel_size": 3, "pad": dilation}
        if group == 5:
            window["dilation"] = dilation
        for index in range(1, depth + 1):
            from_layer = _convolved(net, from_layer, f"conv{group}_{index}",
                                    f"relu{group}_{index}", num_output=channels, **window)
        if group == 5 and not need_fc:
            break
        keeps_size = group == 5 and dilated
        if nopool:
            from_layer = _convolved(net, from_layer, f"conv{group}_{depth + 1}", None,
                                    num_output=channels, kernel_size=3, pad=1,
                                    stride=1 if keeps_size else 2)
            continue
        if group == 4 and dilate_pool4:
            keeps_size, dilation = True, 2
        window = ({"kernel_size": 3, "stride": 1, "pad": 1} if keeps_size
                  else {"kernel_size": 2, "stride": 2})
        name = f"pool{group}"
        net[name] = L.Pooling(net[from_layer], pool=P.Pooling.MAX, **window)
        from_layer = name
    if need_fc:
        kernel = 3 if reduced else 7
        dilation *= {(True, True): 6, (True, False): 2, (False, True): 3}.get((dilated, reduced), 1)
        window = {"kernel_size": kernel, "dilation": dilation, "pad": (kernel - 1) * dilation // 2}
        _add_fc(net, from_layer, fully_conv, dropout, 1024 if reduced else 4096, window)
    _freeze(net, freeze_layers)
    return net


def ZFNetBody(net: NetSpec, from_layer: str, need_fc: bool = True, fully_conv: bool = False,
              reduced: bool = False, dilated: bool = False, dropout: bool = True,
              need_fc8: bool = False, freeze_layers: Iterable[str] = ()) -> NetSpec:
    """Adds the net of M. Zeiler and R. Fergus: conv1 to conv5, and fc6 and fc7 with need_fc.

    need_fc8: fc8 of 1000 classes and prob besides. The others are as of VGGNetBody.
    """
    _known(net, from_layer)
    for index, (channels, kernel) in enumerate(((96, 7), (256, 5)), 1):
        from_layer = _convolved(net, from_layer, f"conv{index}", f"relu{index}", pad=kernel // 2,
                                num_output=channels, kernel_size=kernel, stride=2)
        net[f"norm{index}"] = L.LRN(net[from_layer], local_size=3, alpha=0.00005, beta=0.75,
                                    norm_region=P.LRN.WITHIN_CHANNEL, engine=P.LRN.CAFFE)
        net[f"pool{index}"] = L.Pooling(net[f"norm{index}"], pool=P.Pooling.MAX, pad=1,
                                        kernel_size=3, stride=2)
        from_layer = f"pool{index}"
    for index, channels in ((3, 384), (4, 384), (5, 256)):
        from_layer = _convolved(net, from_layer, f"conv{index}", f"relu{index}", pad=1,
                                num_output=channels, kernel_size=3)
    if need_fc:
        net.pool5 = L.Pooling(net[from_layer], pool=P.Pooling.MAX, pad=1, kernel_size=3,
                              stride=1 if dilated else 2)
        window: Settings = {"pad": 5 if dilated else 2, "kernel_size": 3 if reduced else 6}
        if dilated or reduced:
            window["dilation"] = 5 if dilated and reduced else 2
        from_layer = _add_fc(net, "pool5", fully_conv, dropout, 1024 if reduced else 4096, window)
    if need_fc8:
        if fully_conv:
            net.fc8 = L.Convolution(net[from_layer], num_output=1000, kernel_size=1, **_LEARNED)
        else:
            net.fc8 = L.InnerProduct(net[from_layer], num_output=1000)
        net.prob = L.Softmax(net.fc8)
    _freeze(net, freeze_layers)
    return net


def _add_resnet(net: NetSpec, from_layer: str, blocks: tuple[int, int], use_pool5: bool,
                use_dilation_conv5: bool, bn_param: Settings) -> NetSpec:
    """Adds a ResNet with bottlenecks. blocks: the numbers of groups 3 and 4."""
    ConvBNLayer(net, from_layer, "conv1", use_bn=True, use_relu=True, num_output=64, kernel_size=7,
                pad=3, stride=2, bn_prefix="bn_", bn_postfix="", scale_prefix="scale_",
                scale_postfix="", **bn_param)
    net.pool1 = L.Pooling(net.conv1, pool=P.Pooling.MAX, kernel_size=3, stride=2)
    names = {2: "abc", 3: ["a", *(f"b{i}" for i in range(1, blocks[0]))],
             4: ["a", *(f"b{i}" for i in range(1, blocks[1]))], 5: "abc"}
    below = "pool1"
    for group, letters in names.items():
        channels = 16 << group
        has_holes = group == 5 and use_dilation_conv5
        for letter in letters:
            is_first = letter == "a"
            stride = 2 if is_first and group > 2 and not has_holes else 1
            ResBody(net, below, f"{group}{letter}", channels, channels, 4 * channels, stride,
                    use_branch1=is_first, dilation=2 if has_holes else 1, **bn_param)
            below = f"res{group}{letter}"
    if use_pool5:
        net.pool5 = L.Pooling(net[below], pool=P.Pooling.AVE, global_pooling=True)
    return net


def ResNet101Body(net: NetSpec, from_layer: str, use_pool5: bool = True,
                  use_dilation_conv5: bool = False, **bn_param: Any) -> NetSpec:
    """Adds ResNet-101, from conv1 to res5c, and the mean over its map with use_pool5.

    use_dilation_conv5: group 5 keeps the size of its map, and has holes in its 3x3 windows.
    bn_param: as of ConvBNLayer.
    """
    return _add_resnet(net, from_layer, (4, 23), use_pool5, use_dilation_conv5, bn_param)


def ResNet152Body(net: NetSpec, from_layer: str, use_pool5: bool = True,
                  use_dilation_conv5: bool = False, **bn_param: Any) -> NetSpec:
    """Adds ResNet-152; the rest is as of ResNet101Body."""
    return _add_resnet(net, from_layer, (8, 36), use_pool5, use_dilation_conv5, bn_param)


def _part(name: str, value: int, kernel: Any = 3, stride: int = 1) -> Settings:
    """Settings of InceptionTower: of channels, or of a method of pooling. Stride 1 keeps sizes."""
    pads = [size // 2 if stride == 1 else 0 for size in UnpackVariable(kernel, 2)]
    return {"name": name, "pool" if "pool" in name else "num_output": value, "stride": stride,
            "kernel_size": kernel, "pad": pads if isinstance(kernel, list) else pads[0]}


def _add_mixed(net: NetSpec, from_layer: str, name: str, towers: Iterable[tuple[str, Any]],
               bn_param: Settings) -> str:
    """Adds towers, (what follows the name, parts of the tower), and the concatenation of them.

    The last part of a tower may be a list: parts side by side, which '/mixed' concatenates.
    """
    tops = []
    for suffix, parts in towers:
        tower = name + suffix
        row = [part for part in parts if isinstance(part, dict)]
        top = InceptionTower(net, from_layer, tower, row, **bn_param)
        if not isinstance(parts[-1], dict):
            inner, below = f"{tower}/mixed", f"{tower}/{row[-1]['name']}"
            net[inner] = L.Concat(*(InceptionTower(net, below, inner, [part], **bn_param)
                                    for part in parts[-1]), axis=1)
            top = net[inner]
        tops.append(top)
    net[f"{name}/join"] = L.Concat(*tops, axis=1)
    return f"{name}/join"


def InceptionV3Body(net: NetSpec, from_layer: str, output_pred: bool = False,
                    **bn_param: Any) -> NetSpec:
    """Adds Inception-v3, from conv to mixed_10/join; with output_pred its 1008 classes.

    Convolutions have BatchNorm and Bias; bn_param: as of ConvBNLayer.
    """
    average, most = P.Pooling.AVE, P.Pooling.MAX
    for name, channels, kernel, pad, stride in (
            ("conv", 32, 3, 0, 2), ("conv_1", 32, 3, 0, 1), ("conv_2", 64, 3, 1, 1),
            ("pool", 0, 3, 0, 2), ("conv_3", 80, 1, 0, 1), ("conv_4", 192, 3, 0, 1),
            ("pool_1", 0, 3, 0, 2)):
        if name.startswith("pool"):
            net[name] = L.Pooling(net[from_layer], pool=most, kernel_size=kernel, stride=stride,
                                  pad=pad)
        else:
            ConvBNLayer(net, from_layer, name, use_bn=True, use_relu=True, num_output=channels,
                        kernel_size=kernel, pad=pad, stride=stride, use_scale=False, **bn_param)
        from_layer = name
    for index, channels in enumerate((32, 64, 64)):
        from_layer = _add_mixed(net, from_layer, f"mixed_{index}" if index else "mixed", (
            ("", [_part("conv", 64, 1)]),
            ("/tower", [_part("conv", 48, 1), _part("conv_1", 64, 5)]),
            ("/tower_1", [_part("conv", 64, 1), _part("conv_1", 96), _part("conv_2", 96)]),
            ("/tower_2", [_part("pool", average), _part("conv", channels, 1)])), bn_param)
    from_layer = _add_mixed(net, from_layer, "mixed_3", (
        ("", [_part("conv", 384, 3, 2)]),
        ("/tower", [_part("conv", 64, 1), _part("conv_1", 96), _part("conv_2", 96, 3, 2)]),
        ("", [_part("pool", most, 3, 2)])), bn_param)
    row, column = [1, 7], [7, 1]
    for index, few in ((4, 128), (5, 160), (6, 160), (7, 192)):
        from_layer = _add_mixed(net, from_layer, f"mixed_{index}", (
            ("", [_part("conv", 192, 1)]),
            ("/tower", [_part("conv", few, 1), _part("conv_1", few, row),
                        _part("conv_2", 192, column)]),
            ("/tower_1", [_part("conv", few, 1), _part("conv_1", few, column),
                          _part("conv_2", few, row), _part("conv_3", few, column),
                          _part("conv_4", 192, row)]),
            ("/tower_2", [_part("pool", average), _part("conv", 192, 1)])), bn_param)
    from_layer = _add_mixed(net, from_layer, "mixed_8", (
        ("/tower", [_part("conv", 192, 1), _part("conv_1", 320, 3, 2)]),
        ("/tower_1", [_part("conv", 192, 1), _part("conv_1", 192, row),
                      _part("conv_2", 192, column), _part("conv_3", 192, 3, 2)]),
        ("", [_part("pool", most, 3, 2)])), bn_param)
    both = [_part("conv", 384, [1, 3]), _part("conv_1", 384, [3, 1])]
    for index, method in ((9, average), (10, most)):
        from_layer = _add_mixed(net, from_layer, f"mixed_{index}", (
            ("", [_part("conv", 320, 1)]),
            ("/tower", [_part("conv", 384, 1), both]),
            ("/tower_1", [_part("conv", 448, 1), _part("conv_1", 384), both]),
            ("/tower_2", [_part("pool", method), _part("conv", 192, 1)])), bn_param)
    if output_pred:
        net.pool_3 = L.Pooling(net[from_layer], pool=average, kernel_size=8, pad=0, stride=1)
        net.softmax = L.InnerProduct(net.pool_3, num_output=1008)
        net.softmax_prob = L.Softmax(net.softmax)
    return net


# Heads.

def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _add_prediction(net: NetSpec, from_layer: str, name: str, channels: int,
                    settings: Settings) -> Top:
    """A convolution whose values come place by place, as a row for each image."""
    ConvBNLayer(net, from_layer, name, use_relu=False, num_output=channels, stride=1, **settings)
    net[f"{name}_perm"] = L.Permute(net[name], order=[0, 2, 3, 1])
    net[f"{name}_flat"] = L.Flatten(net[f"{name}_perm"], axis=1)
    made: Top = net[f"{name}_flat"]
    return made


def CreateMultiBoxHead(net: NetSpec, data_layer: str = "data", num_classes: Any = None,
                       from_layers: Sequence[str] = (), use_objectness: bool = False,
                       normalizations: Sequence[float] = (), use_batchnorm: bool = True,
                       lr_mult: float = 1, use_scale: bool = True, min_sizes: Sequence[Any] = (),
                       max_sizes: Sequence[Any] = (), prior_variance: Sequence[float] = (0.1,),
                       aspect_ratios: Sequence[Any] = (), steps: Sequence[Any] = (),
                       img_height: int = 0, img_width: int = 0, share_location: bool = True,
                       flip: bool = True, clip: bool = True, offset: float = 0.5,
                       inter_layer_depth: Sequence[int] = (), kernel_size: Any = 1, pad: Any = 0,
                       conf_postfix: str = "", loc_postfix: str = "",
                       **bn_param: Any) -> list[Top]:
    """Adds SSD's predictions on from_layers; returns [mbox_loc, mbox_conf, mbox_priorbox].

    num_classes: with the background. use_objectness: mbox_objectness is the fourth.
    normalizations: the first scale of a Normalize on each layer; -1 for none.
    min_sizes, max_sizes, aspect_ratios, steps: of each layer's PriorBox: numbers, or lists of them.
    inter_layer_depth: channels of a convolution in front of the predictions; 0 for none.
    share_location: a box for all classes, else one for each. ValueError if a list does not have a
    value for each of from_layers.
    """
    if not num_classes or num_classes < 0:
        raise ValueError("num_classes is missing: the number of classes with the background")
    for name, values in (("min_sizes", min_sizes), ("max_sizes", max_sizes), ("steps", steps),
                         ("aspect_ratios", aspect_ratios), ("normalizations", normalizations),
                         ("inter_layer_depth", inter_layer_depth)):
        if len(values) != len(from_layers) and (values or name == "min_sizes"):
            raise ValueError(f"{name} has {len(values)} values for {len(from_layers)} from_layers")
    data = _known(net, data_layer)
    settings = {"use_bn": use_batchnorm, "lr_mult": lr_mult, "kernel_size": kernel_size,
                "pad": pad, **bn_param}
    found: dict[str, list[Top]] = {"mbox_loc": [], "mbox_conf": [], "mbox_priorbox": []}
    for i, layer in enumerate(from_layers):
        if normalizations and normalizations[i] != -1:
            net[f"{layer}_norm"] = L.Normalize(
                _known(net, layer), across_spatial=False, channel_shared=False,
                scale_filler={"type": "constant", "value": normalizations[i]})
            layer = f"{layer}_norm"
        if inter_layer_depth and inter_layer_depth[i] > 0:
            ConvBNLayer(net, layer, f"{layer}_inter", use_bn=use_batchnorm, use_relu=True,
                        lr_mult=lr_mult, num_output=inter_layer_depth[i], kernel_size=3, pad=1,
                        stride=1, **bn_param)
            layer = f"{layer}_inter"
        smallest = _as_list(min_sizes[i])
        largest = _as_list(max_sizes[i]) if max_sizes else []
        ratios = _as_list(aspect_ratios[i]) if aspect_ratios else []
        if largest and len(largest) != len(smallest):
            raise ValueError(f"max_sizes and min_sizes of layer {from_layers[i]!r} have "
                             f"{len(largest)} and {len(smallest)} values")
        # A square, one between two sizes, and each ratio, also of height to width with flip.
        priors = len(smallest) * (1 + bool(largest) + (2 if flip else 1) * len(ratios))
        of_each = [("mbox_loc", loc_postfix, 4 * (1 if share_location else num_classes)),
                   ("mbox_conf", conf_postfix, num_classes)]
        for kind, postfix, channels in of_each:
            found[kind].append(_add_prediction(net, layer, f"{layer}_{kind}{postfix}",
                                               priors * channels, settings))
        boxes: Settings = {"min_size": smallest, "clip": clip, "variance": list(prior_variance),
                           "offset": offset}
        if largest:
            boxes["max_size"] = largest
        if ratios:
            boxes.update(aspect_ratio=ratios, flip=flip)
        if steps and steps[i]:
            boxes["step"] = steps[i]
        if img_height and img_width:
            boxes.update({"img_size": img_height} if img_height == img_width
                         else {"img_h": img_height, "img_w": img_width})
        net[f"{layer}_mbox_priorbox"] = L.PriorBox(net[layer], data, **boxes)
        found["mbox_priorbox"].append(net[f"{layer}_mbox_priorbox"])
        if use_objectness:
            found.setdefault("mbox_objectness", []).append(_add_prediction(
                net, layer, f"{layer}_mbox_objectness", 2 * priors, settings))
    for kind, tops in found.items():
        net[kind] = L.Concat(*tops, axis=2 if kind == "mbox_priorbox" else 1)
    return [net[kind] for kind in found]


__all__ = [
    "ConvBNLayer", "CreateAnnotatedDataLayer", "CreateMultiBoxHead", "InceptionTower",
    "InceptionV3Body", "L", "P", "ResBody", "ResNet101Body", "ResNet152Body", "UnpackVariable",
    "VGGNetBody", "ZFNetBody", "caffe", "caffe_pb2", "check_if_exist", "make_if_not_exist", "os",
]
