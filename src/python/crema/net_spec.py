"""Nets written in Python: layers as functions of the blobs that they read.

    from crema import NetSpec, layers as L, params as P

    n = NetSpec()
    n.data = L.Input(shape=dict(dim=[64, 1, 28, 28]))
    n.conv1 = L.Convolution(n.data, num_output=20, kernel_size=5, weight_filler=dict(type='xavier'))
    n.relu1 = L.ReLU(n.conv1, in_place=True)
    n.pool1 = L.Pooling(n.relu1, pool=P.Pooling.MAX, kernel_size=2, stride=2)
    net = crema.Net(n)                             # or: print(n.to_prototxt())

The name that a blob is assigned to is the name of the blob and of the layer that makes it. Settings
are keywords: a name of the layer type's own settings, of LayerParameter (loss_weight, param,
include), or a whole message (convolution_param=dict(...)). A message is a dict, a repeated field a
list or one value, an enum its number or its name. A wrong name is an AttributeError that names the
nearest one, raised where the layer is written.

help(L.Convolution) lists the settings; L. and P. are completed by tab.
"""

from __future__ import annotations

import inspect
import keyword
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Union

from . import _crema, messages  # messages first, as it says what to install
from ._crema import layer_types
from ._fields import assign_proto, check_names, is_repeated, nearest

# Settings that a layer type reads and that do not have its name, in the order in which a parameter
# is looked for. Those that have its name come first: convolution_param of Convolution.
_OTHER_SETTINGS: dict[str, tuple[str, ...]] = {
    "AnnotatedData": ("data_param",),
    "CRFLoss": ("loss_param",),
    "CTCGreedyDecoder": ("ctc_decoder_param",),
    "CTCLoss": ("loss_param",),
    "ConvolutionDepthwise": ("convolution_param",),
    "CtcLoss": ("loss_param",),
    "Deconvolution": ("convolution_param",),
    "DepthwiseConvolution": ("convolution_param",),
    "DetectNetTransformation": ("detectnet_augmentation_param", "detectnet_groundtruth_param",
                                "transform_param"),
    "DiceCoefLoss": ("dice_loss_param",),
    "FocalLoss": ("softmax_param", "loss_param"),
    "GRU": ("recurrent_param",),
    "HingeLoss": ("loss_param",),
    "Im2col": ("convolution_param",),
    "InfogainLoss": ("softmax_param", "loss_param"),
    "LSTM": ("recurrent_param",),
    "LocallyConnected": ("local_param",),
    "MultiBoxLoss": ("loss_param",),
    "MultinomialLogisticLoss": ("loss_param",),
    "Normalize": ("norm_param",),
    "PriorBoxClustered": ("prior_box_param",),
    "RNN": ("recurrent_param",),
    "SigmoidCrossEntropyLoss": ("sigmoid_param", "loss_param"),
    "SmoothL1LossOHEM": ("smooth_l1_loss_param", "loss_param"),
    "SoftmaxWithLoss": ("softmax_param", "loss_param"),
    "SoftmaxWithLossOHEM": ("softmax_param", "loss_param"),
    "SpatialTransformer": ("st_param",),
    "VideoData": ("data_param",),
    "WarpCTCLoss": ("ctc_loss_param", "loss_param"),
}

_LAYER = messages.LayerParameter.DESCRIPTOR
_BY_LETTERS = {field.name[:-len("_param")].replace("_", ""): field.name
               for field in _LAYER.fields
               if field.name.endswith("_param") and field.message_type is not None}


def _settings_of(type_name: str) -> list[str]:
    """The fields of LayerParameter that hold the settings of a layer type."""
    own = _BY_LETTERS.get(type_name.lower())
    others = _OTHER_SETTINGS.get(type_name, ())
    return ([own] if own else []) + [name for name in others if name != own]


def param_name_dict() -> dict[str, str]:
    """The settings of layer types: {'Convolution': 'convolution', 'LSTM': 'recurrent', ...}.

    The value is the name of the field of LayerParameter without '_param'. Types whose settings are
    a message of the same name are there, and those that have the settings of another one.
    """
    end = len("_param")
    names = {}
    for field in _LAYER.fields:
        if field.name.endswith("_param") and field.message_type is not None:
            message = field.message_type.name
            names[message[:-len("Parameter")] if message.endswith("Parameter") else message] = (
                field.name[:-end])
    for type_name in _OTHER_SETTINGS:
        names.setdefault(type_name, _settings_of(type_name)[0][:-end])
    return names


# Parameters.

def _place_of(type_name: str, name: str, value: Any) -> tuple[str | None, Any]:
    """Where a parameter of a layer goes: (field of LayerParameter, descriptor of that message).

    The field is None for LayerParameter itself.
    """
    layer_field = _LAYER.fields_by_name.get(name)
    if name.endswith("param") and layer_field is not None:
        return None, layer_field
    settings = _settings_of(type_name)
    for holder in settings:
        field = _LAYER.fields_by_name[holder].message_type.fields_by_name.get(name)
        if field is None:
            continue
        # engine='onednn' is Crema's engine by name; engine=P.Convolution.CUDNN is a setting.
        if (isinstance(value, str) and field.enum_type is not None and layer_field is not None
                and value not in field.enum_type.values_by_name):
            continue
        return holder, field
    if layer_field is not None:
        return None, layer_field
    if not settings and type_name not in layer_types():
        raise AttributeError(f"there is no layer type {type_name!r} with a parameter {name!r}"
                             + nearest(type_name, layer_types()))
    own = {each for holder in settings
           for each in _LAYER.fields_by_name[holder].message_type.fields_by_name}
    known = own | set(_LAYER.fields_by_name) | {"ntop", "in_place"}
    raise AttributeError(f"{type_name} has no parameter {name!r}" + nearest(name, known, own))


def _python_name(name: str) -> str:
    """A field's name as a keyword argument: lambda_ of lambda."""
    return name + "_" if keyword.iskeyword(name) else name


def _field_name(name: str) -> str:
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


# Nets.

class Top:
    """A blob: top number `n` of a layer."""

    def __init__(self, fn: Function, n: int):
        self.fn = fn
        self.n = n

    def to_proto(self) -> Any:
        """The NetParameter of the layers that this blob needs, with names made up by type."""
        return to_proto(self)

    def _update(self, params: Mapping[str, Any]) -> None:
        self.fn._update(params)

    def __repr__(self) -> str:
        return f"<top {self.n} of {self.fn!r}>"


class Function:
    """A layer: its type, its bottoms and its parameters. `tops` are the blobs that it makes.

    params: as of LayerParameter and the type's settings; besides, ntop, the number of tops (1), and
        in_place, whether the tops are the bottoms.
    """

    def __init__(self, type_name: str, inputs: Iterable[Top], params: Mapping[str, Any]):
        self.type_name = type_name
        self.inputs = tuple(inputs)
        for index, bottom in enumerate(self.inputs):
            if not isinstance(bottom, Top):
                way = ("; give what a layer returned, not its name" if isinstance(bottom, str)
                       else "")
                raise TypeError(f"{type_name} input {index} is not a Top (type is {type(bottom)})"
                                + way)
        self.params = {_field_name(name): value for name, value in params.items()}
        self.ntop = int(self.params.pop("ntop", 1))
        self.in_place = bool(self.params.pop("in_place", False))
        self._check(self.params)
        if self.in_place and len(self.inputs) < self.ntop and "bottom" not in self.params:
            raise ValueError(f"{type_name} works in place, so it needs {self.ntop} bottoms; it has "
                             f"{len(self.inputs)}")
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def _check(self, params: Mapping[str, Any]) -> None:
        for name, value in params.items():
            _, field = _place_of(self.type_name, name, value)
            if field.message_type is not None:
                check_names(field.message_type, value)

    def _update(self, params: Mapping[str, Any]) -> None:
        params = {_field_name(name): value for name, value in params.items()}
        self._check(params)
        self.params.update(params)

    def to_proto(self) -> Any:
        """The NetParameter of this layer and those that it needs."""
        return to_proto(self)

    def _message(self, bottoms: Iterable[str], tops: Iterable[str], name: str) -> Any:
        layer = messages.LayerParameter()
        layer.type = self.type_name
        layer.bottom.extend(bottoms)
        layer.top.extend(tops)
        layer.name = name
        for key, value in self.params.items():
            holder, _ = _place_of(self.type_name, key, value)
            assign_proto(layer if holder is None else getattr(layer, holder), key, value)
        return layer

    def __repr__(self) -> str:
        return f"<layer {self.type_name}>"


Node = Union[Top, Function]


class _Writer:
    """Layers in the order in which they run."""

    def __init__(self, names: Mapping[Node, str]):
        self.names = dict(names)
        self.layers: OrderedDict[Function, Any] = OrderedDict()
        self._counts: Counter[str] = Counter()

    def _auto(self, node: Node, type_name: str) -> str:
        if node not in self.names:
            self._counts[type_name] += 1
            self.names[node] = f"{type_name}{self._counts[type_name]}"
        return self.names[node]

    def _write(self, fn: Function) -> None:
        bottoms = [self.layers[top.fn].top[top.n] for top in fn.inputs]
        tops = bottoms if fn.in_place else [self._auto(top, fn.type_name) for top in fn.tops]
        if fn not in self.names and fn.tops:
            self.names[fn] = self._auto(fn.tops[0], fn.type_name)
        self.layers[fn] = fn._message(bottoms, tops, self._auto(fn, fn.type_name))

    def add(self, node: Node) -> None:
        """Writes a layer behind all that it needs. Nets may be deeper than Python's stack."""
        first = node.fn if isinstance(node, Top) else node
        if first in self.layers:
            return
        path: list[tuple[Function, Iterator[Top]]] = [(first, iter(first.inputs))]
        while path:
            fn, inputs = path[-1]
            needed = next((top.fn for top in inputs if top.fn not in self.layers), None)
            if needed is None:
                self._write(fn)
                path.pop()
            else:
                path.append((needed, iter(needed.inputs)))

    def net(self) -> Any:
        net = messages.NetParameter()
        net.layer.extend(self.layers.values())
        return net


def to_proto(*tops: Node) -> Any:
    """The NetParameter of the layers that make `tops`; names are types with numbers."""
    writer = _Writer({})
    for top in tops:
        writer.add(top)
    return writer.net()


class MissingTop(AttributeError, KeyError):
    """A NetSpec has no blob of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class NetSpec:
    """A net that is written down: blobs by name, by attribute or by item.

        n = NetSpec()
        n.data, n.label = L.Data(source='lmdb', batch_size=64, ntop=2)
        n['conv/1x1'] = L.Convolution(n.data, num_output=8, kernel_size=1)

    A layer without tops (ntop=0) is assigned in the same way. Layers come in the order in which
    they were assigned, each behind those that it reads.
    """

    tops: OrderedDict[str, Node]

    def __init__(self) -> None:
        object.__setattr__(self, "tops", OrderedDict())

    def __setitem__(self, name: str, value: Node) -> None:
        if not isinstance(value, (Top, Function)):
            hint = (f"; the layer has {len(value)} tops, so assign each: n.a, n.b = L..."
                    if isinstance(value, tuple) else "")
            raise TypeError(f"{name!r} is a {type(value).__name__}, not what a layer returns{hint}")
        self.tops[name] = value

    def __getitem__(self, name: str) -> Any:
        try:
            return self.tops[name]
        except KeyError:
            raise MissingTop(f"there is no blob {name!r}" + nearest(name, self.tops)) from None

    def __delitem__(self, name: str) -> None:
        self[name]
        del self.tops[name]

    def __setattr__(self, name: str, value: Node) -> None:
        self[name] = value

    def __getattr__(self, name: str) -> Any:
        # copy, pickle and Jupyter ask for these.
        if name.startswith(("__", "_repr_", "_ipython_")) or name == "tops":
            raise AttributeError(name)
        return self[name]

    def __delattr__(self, name: str) -> None:
        del self[name]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        object.__setattr__(self, "tops", state["tops"])

    def __contains__(self, name: object) -> bool:
        return name in self.tops

    def __iter__(self) -> Iterator[str]:
        return iter(self.tops)

    def __len__(self) -> int:
        return len(self.tops)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *(name for name in self.tops if name.isidentifier())]

    def keys(self) -> list[str]:
        """The names."""
        return list(self.tops)

    def vals(self) -> list[Any]:
        """What the names were assigned."""
        return list(self.tops.values())

    def update(self, name: str, params: Mapping[str, Any]) -> None:
        """Changes parameters of the layer that makes blob `name`."""
        self[name]._update(params)

    def to_proto(self) -> Any:
        """The net as a NetParameter."""
        writer = _Writer({node: name for name, node in self.tops.items()})
        for node in self.tops.values():
            writer.add(node)
        return writer.net()

    def to_prototxt(self) -> str:
        """The net as a prototxt."""
        from google.protobuf import text_format

        return str(text_format.MessageToString(self.to_proto()))

    def to_svg(self, expand: bool = False) -> str:
        """A picture of the net as the text of an SVG: as Net.to_svg(), without shapes."""
        return _crema.draw_message(self.to_proto().SerializeToString(), "message", expand=expand,
                                   dot=False)

    def _repr_html_(self) -> str:
        return self.to_svg() if self.tops else repr(self)

    def __repr__(self) -> str:
        return f"<NetSpec of {', '.join(self.tops) or 'nothing'}>"


# L and P.

def _default(field: Any) -> Any:
    if is_repeated(field) or field.message_type is not None or not field.has_default_value:
        return None
    if field.enum_type is not None:
        return field.enum_type.values_by_number[field.default_value].name
    return field.default_value


def _kind(field: Any) -> str:
    if field.message_type is not None:
        kind = f"dict ({field.message_type.name})"
    elif field.enum_type is not None:
        kind = " | ".join(value.name for value in field.enum_type.values)
    else:
        from google.protobuf.descriptor import FieldDescriptor as kinds

        kind = {kinds.CPPTYPE_FLOAT: "float", kinds.CPPTYPE_DOUBLE: "float",
                kinds.CPPTYPE_BOOL: "bool", kinds.CPPTYPE_STRING: "str"}.get(field.cpp_type, "int")
    return f"list of {kind}" if is_repeated(field) else kind


def _describe(function: Any, type_name: str) -> None:
    """Gives a function of L the signature and the manual of its layer type."""
    named = inspect.Parameter.KEYWORD_ONLY
    shown = [inspect.Parameter("bottoms", inspect.Parameter.VAR_POSITIONAL),
             inspect.Parameter("name", named, default=None),
             inspect.Parameter("ntop", named, default=1),
             inspect.Parameter("in_place", named, default=False)]
    lines = [f"A layer of type {type_name}. Returns its top; several as a tuple; the layer if "
             "ntop=0.", "",
             "name: the layer's, if not the blob's. ntop: the number of tops.",
             "in_place: whether it writes into its bottoms."]
    seen = {"name", "ntop", "in_place"}

    def add(fields: Iterable[Any]) -> None:
        for field in fields:
            if field.name not in seen:
                seen.add(field.name)
                default = _default(field)
                lines.append(f"{field.name}: {_kind(field)}"
                             + ("" if default is None else f" (default {default!r})"))
                shown.append(inspect.Parameter(_python_name(field.name), named, default=default))

    for holder in _settings_of(type_name):
        lines += ["", f"{holder}:"]
        add(_LAYER.fields_by_name[holder].message_type.fields)
    lines += ["", "Of every layer:"]
    common = ("loss_weight", "param", "phase", "include", "exclude", "propagate_down", "engine",
              "recompute", "transform_param", "loss_param")
    add(_LAYER.fields_by_name[name] for name in common)
    shown.append(inspect.Parameter("params", inspect.Parameter.VAR_KEYWORD))
    function.__signature__ = inspect.Signature(shown)
    function.__doc__ = "\n".join(lines)


class Layers:
    """A function for each layer type: L.Convolution(bottom, num_output=20, kernel_size=5).

    Each name is taken as a layer type, those of plug-ins too; a net says when it has none of them.
    """

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(f"there is no layer type {name!r}")

        def layer(*bottoms: Top, **params: Any) -> Any:
            made = Function(name, bottoms, params)
            if made.ntop == 0:
                return made
            return made.tops[0] if made.ntop == 1 else made.tops

        layer.__name__ = layer.__qualname__ = name
        layer.__module__ = "crema.layers"
        _describe(layer, name)
        self._functions[name] = layer
        setattr(self, name, layer)
        return layer

    def __dir__(self) -> list[str]:
        return sorted(set(layer_types()) | set(self._functions))


class _Values:
    """The values of the enums of one message."""

    def __init__(self, message: Any):
        self._message = message
        self._numbers = {value.name: int(value.number)
                         for enum in message.DESCRIPTOR.enum_types for value in enum.values}
        self.__doc__ = f"Values of {message.DESCRIPTOR.name}: {', '.join(self._numbers)}."

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._numbers:
            return self._numbers[name]
        if hasattr(self._message, name):  # such as the enum itself
            return getattr(self._message, name)
        raise AttributeError(f"{self._message.DESCRIPTOR.name} has no value {name!r}"
                             + nearest(name, self._numbers))

    def __dir__(self) -> list[str]:
        return list(self._numbers)


class Parameters:
    """The enums of settings: P.Pooling.MAX is PoolingParameter.MAX."""

    def __getattr__(self, name: str) -> _Values:
        if name.startswith("_"):
            raise AttributeError(name)
        message = getattr(messages, name + "Parameter", None)
        if message is None:
            raise AttributeError(f"there is no message {name}Parameter"
                                 + nearest(name, dir(self)))
        values = _Values(message)
        setattr(self, name, values)
        return values

    def __dir__(self) -> list[str]:
        end = "Parameter"
        return [name[:-len(end)] for name in messages.__all__ if name.endswith(end)
                and getattr(messages, name).DESCRIPTOR.enum_types]


layers = Layers()
params = Parameters()

__all__ = ["Function", "Layers", "MissingTop", "NetSpec", "Parameters", "Top", "assign_proto",
           "layers", "param_name_dict", "params", "to_proto"]
