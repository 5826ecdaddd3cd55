"""Nets as pictures, by pydot and Graphviz.

    net = caffe_pb2.NetParameter()
    text_format.Merge(open('net.prototxt').read(), net)
    caffe.draw.draw_net_to_file(net, 'net.png', rankdir='TB')

pydot (PyPI) and Graphviz's program dot are needed when a picture is drawn, not before. The program
`crema draw` makes an SVG without them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .proto import caffe_pb2  # first, as it says what to install

# Scripts reach it as google.protobuf.text_format once this module is imported.
from google.protobuf import text_format as text_format  # isort: skip

_BLOB_COLOR = "#e6e6d8"


def _pydot() -> Any:
    try:
        import pydot  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError("drawing needs the package pydot and Graphviz's program dot: "
                          "pip install pydot; the program `crema draw` needs neither") from error
    return pydot


def _quoted(text: str) -> str:
    """A text as a string of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _first(values: Any, default: int) -> str:
    """A setting of each axis as text: '3', or '3x5' where they differ."""
    numbers = list(values) if hasattr(values, "__len__") else [values]
    if not numbers:
        return str(default)
    return str(numbers[0]) if len(set(numbers)) == 1 else "x".join(map(str, numbers))


def _size(settings: Any, square: str, pair: str, default: int) -> str:
    """A setting of a window: from its square name, or from the names with _h and _w."""
    if settings.HasField(pair + "_h") or settings.HasField(pair + "_w"):
        return _first([getattr(settings, pair + "_h"), getattr(settings, pair + "_w")], default)
    return _first(getattr(settings, square), default)


def get_pooling_types_dict() -> dict[int, str]:
    """The names of the methods of pooling by their numbers: {0: 'MAX', 1: 'AVE', ...}."""
    enum = caffe_pb2.PoolingParameter.PoolMethod
    return {number: name for name, number in enum.items()}


def get_edge_label(layer: Any) -> str:
    """What stands at an arrow from a layer: the size of a batch, or the number of outputs."""
    if layer.type == "Data":
        return f"Batch {layer.data_param.batch_size}"
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return ""


def get_layer_lr_mult(layer: Any) -> str:
    """The lr_mult of a layer's parameters, or 'lr mult: 1.0' if it sets none; '' without any."""
    if layer.type not in ("Convolution", "Deconvolution", "InnerProduct"):
        return ""
    factors = [param.lr_mult for param in layer.param] or [1.0]
    return "lr mult: " + ", ".join(str(factor) for factor in factors)


def get_layer_label(layer: Any, rankdir: str, display_lrm: bool = False) -> str:
    """The text in the box of a layer: name, type, and what matters of convolutions and pooling.

    Its parts stand in one line where the net runs from top to bottom, else below each other.
    """
    parts = [f"{layer.name}", f"({layer.type})"]
    if layer.type in ("Convolution", "Deconvolution"):
        settings = layer.convolution_param
        parts += ["kernel size: " + _size(settings, "kernel_size", "kernel", 1),
                  "stride: " + _size(settings, "stride", "stride", 1),
                  "pad: " + _size(settings, "pad", "pad", 0)]
    elif layer.type == "Pooling":
        settings = layer.pooling_param
        parts[1] = f"({get_pooling_types_dict()[settings.pool]} {layer.type})"
        if settings.global_pooling:
            parts.append("global")
        else:
            parts += ["kernel size: " + _size(settings, "kernel_size", "kernel", 1),
                      "stride: " + _size(settings, "stride", "stride", 1),
                      "pad: " + _size(settings, "pad", "pad", 0)]
    if display_lrm and get_layer_lr_mult(layer):
        parts.append(get_layer_lr_mult(layer))
    return (" " if rankdir in ("TB", "BT") else "\n").join(parts)


def choose_color_by_layertype(layertype: str) -> str:
    """The colour of a layer's box, as '#rrggbb'."""
    if "onvolution" in layertype:
        return "#8fb4f0"
    if layertype == "InnerProduct":
        return "#dd9cf0"
    if "Pool" in layertype or layertype == "SPP":
        return "#ffc266"
    if "Loss" in layertype or layertype == "Accuracy":
        return "#f4a6a6"
    if "Data" in layertype or layertype == "Input":
        return "#b8d8a8"
    return "#d8e4f4"


def _is_drawn(layer: Any, phase: int | None) -> bool:
    """Whether a layer is in the net of that phase, as far as its rules name phases."""
    if phase is None:
        return True
    if layer.include:
        return any(not rule.HasField("phase") or rule.phase == phase for rule in layer.include)
    return not any(rule.HasField("phase") and rule.phase == phase and not rule.stage
                   and not rule.not_stage for rule in layer.exclude)


def get_pydot_graph(caffe_net: Any, rankdir: str, label_edges: bool = True,
                    phase: int | None = None, display_lrm: bool = False) -> Any:
    """The graph of a net as a pydot.Dot: a box for each layer, an octagon for each blob.

    caffe_net: a NetParameter. rankdir: TB, BT, LR or RL, the direction from inputs to outputs.
    label_edges: whether arrows have their label. phase: caffe.TRAIN or TEST to draw the layers of
    one phase; None for all. display_lrm: whether boxes have lr_mult.
    A layer in place stands at its blob, without an arrow back. ValueError for a net of the old
    format, whose layers are the field `layers`.
    """
    if caffe_net.layers:
        raise ValueError("the net has `layers`, of the old format; upgrade it: "
                         "crema upgrade-net-proto-text")
    pydot = _pydot()
    graph = pydot.Dot(_quoted(caffe_net.name or "Net"), graph_type="digraph", rankdir=rankdir)
    blobs: dict[str, str] = {}

    def blob_node(name: str) -> str:
        if name not in blobs:
            blobs[name] = f"blob{len(blobs)}"
            graph.add_node(pydot.Node(blobs[name], label=_quoted(name), shape="octagon",
                                      style="filled", fillcolor=_quoted(_BLOB_COLOR)))
        return blobs[name]

    for name in caffe_net.input:
        blob_node(name)
    for index, layer in enumerate(caffe_net.layer):
        if not _is_drawn(layer, phase):
            continue
        node = f"layer{index}"
        in_place = bool(layer.bottom) and list(layer.top) == list(layer.bottom)
        graph.add_node(pydot.Node(
            node, label=_quoted(get_layer_label(layer, rankdir, display_lrm)), shape="box",
            style=_quoted("filled,rounded" if in_place else "filled"),
            fillcolor=_quoted(choose_color_by_layertype(layer.type))))
        for bottom in layer.bottom:
            graph.add_edge(pydot.Edge(blob_node(bottom), node,
                                      **({"dir": "none"} if in_place else {})))
        for top in () if in_place else layer.top:
            label = get_edge_label(layer) if label_edges else ""
            graph.add_edge(pydot.Edge(node, blob_node(top),
                                      **({"label": _quoted(label)} if label else {})))
    return graph


def draw_net(caffe_net: Any, rankdir: str, ext: str = "png", phase: int | None = None,
             display_lrm: bool = False) -> bytes:
    """The picture of a net in a format of Graphviz: png, svg, pdf, ...

    The other arguments are those of get_pydot_graph.
    """
    made: bytes = get_pydot_graph(caffe_net, rankdir, phase=phase,
                                  display_lrm=display_lrm).create(format=ext)
    return made


def draw_net_to_file(caffe_net: Any, filename: str | os.PathLike[str], rankdir: str = "LR",
                     phase: int | None = None, display_lrm: bool = False) -> None:
    """Writes the picture of a net; the name's extension is the format."""
    ext = os.path.splitext(os.fspath(filename))[1][1:] or "png"
    picture = draw_net(caffe_net, rankdir, ext, phase, display_lrm)
    with open(filename, "wb") as file:
        file.write(picture)


__all__: Sequence[str] = [
    "choose_color_by_layertype", "draw_net", "draw_net_to_file", "get_edge_label",
    "get_layer_label", "get_layer_lr_mult", "get_pooling_types_dict", "get_pydot_graph",
]
