"""Net: blobs and parameters by name, forward and backward."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _crema
from ._context import TEST, TRAIN
from ._context import context as default_context
from ._crema import Context
from ._display import Blobs, NetDisplay, Params, shape_text
from ._layer import BlobVec
from ._mistakes import OF_NETS, no_attribute, suggests
from ._source import Source, path_of, source_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

    from ._layer import Layer

Hook = Callable[[int], Any]


class NetLayer:
    """A layer of a net: its name, type, names of bottoms and tops, and parameters."""

    def __init__(self, name: str, kind: str, bottoms: list[str], tops: list[str],
                 blobs: BlobVec):
        self.name = name
        self.type = kind
        self.bottoms = bottoms
        self.tops = tops
        self.blobs = blobs

    def __repr__(self) -> str:
        return f"<crema.NetLayer {self.name!r} ({self.type})>"


class Net(NetDisplay):
    """A net that is ready to run.

    source: the path of a prototxt or of a model of ONNX, which brings its weights; the text of a
        prototxt, a NetParameter, or the bytes of one.
    weights: a path of weights (.caffemodel, .h5, .onnx), or several; fillers do not run for what is
        in them.
    phase: TEST (the default) or TRAIN.
    optimize: lets the net fuse layers and share memory between blobs. Then only inputs, outputs
        and the blobs named in `keep` have values after a pass.
    backward: whether backward() can be called. The default is yes for TRAIN, and for nets that
        have a loss or force_backward.
    share_with: a net whose parameters this one uses, by the names of layers.

    level, stages: of the layers' include and exclude rules, as in a NetState.
    context: the device, threads and seed; None for those of context().
    memory_budget: bytes for activations and parameters; backward computes some blobs a second time
        to keep to it. 0 is no bound.

    blobs, params and layers are those of the net: writing into an array changes it at once.
    net.blobs['data'].data is a float32 array, of (N, C, H, W) for images; weights of a Convolution
    are (outputs, inputs / group, kernel height, width), those of an InnerProduct (outputs, inputs).
    A net may be used by one thread at a time; others wait. Nets run without the GIL.

    Error for a prototxt or weights that cannot be read or do not fit, with file, line and layer;
    ValueError for a phase that there is not.
    """

    @suggests
    def __init__(self, source: Source, weights: str | os.PathLike[str] | Sequence[Any] | None = None,
                 phase: int = TEST, *, level: int = 0, stages: Iterable[str] | None = None,
                 context: Context | None = None, optimize: bool = False,
                 backward: bool | None = None, share_with: Net | None = None,
                 keep: Iterable[str] = (), memory_budget: int = 0):
        if phase not in (TRAIN, TEST):
            raise ValueError(f"phase {phase!r} is neither crema.TRAIN (0) nor crema.TEST (1)")
        if hasattr(weights, "keys"):
            raise TypeError(f"weights are files, and this is a {type(weights).__name__}; write its "
                            "arrays into the parameters of the net: "
                            "net.params['conv1'][0].data[...] = array")
        if weights is None:
            files = []
        elif isinstance(weights, (str, os.PathLike)):
            files = [path_of(weights)]
        else:
            files = [path_of(file) for file in weights]
        settings: dict[str, Any] = {
            "level": level, "stages": list(stages or ()), "optimize": optimize,
            "backward": backward, "keep": list(keep), "memory_budget": memory_budget}
        given, kind = source_of(source)
        self._take(_crema.Net(
            context or default_context(), given, kind, train=phase == TRAIN, weights=files,
            share_with=None if share_with is None else _core_of(share_with), **settings), settings)
        self._weights = [given, *files] if kind == "file" else files

    @classmethod
    def _of(cls, core: _crema.Net) -> Net:
        """The net of a solver."""
        net = cls.__new__(cls)
        net._take(core)
        return net

    def _take(self, core: _crema.Net, settings: dict[str, Any] | None = None) -> None:
        self._core = core
        self._settings = settings or {}  # for a net that is made from this one
        self._rows = core.layers()
        self._blob_map: OrderedDict[str, _crema.Blob] = Blobs(
            (name, core.blob(name)) for name in core.blob_names())
        self._output_blobs = [(name, self._blob_map[name]) for name in core.outputs]
        self._layers: list[Any] | None = None
        self._params: OrderedDict[str, BlobVec] | None = None
        self._hooks: dict[str, list[Hook]] = {}
        self._weights = []  # the files that say where the weights come from

    if not TYPE_CHECKING:  # to whom all names would be right

        def __getattr__(self, name):
            raise no_attribute(self, name, OF_NETS)

    # What the net is.

    @property
    def name(self) -> str:
        """The name in the prototxt."""
        return self._core.name

    @property
    def phase(self) -> int:
        """TRAIN or TEST."""
        return TRAIN if self._core.train else TEST

    @property
    def inputs(self) -> list[str]:
        """Names of the blobs that the caller fills."""
        return self._core.inputs

    @property
    def outputs(self) -> list[str]:
        """Names of the blobs that no layer reads."""
        return self._core.outputs

    @property
    def blobs(self) -> OrderedDict[str, _crema.Blob]:
        """The blobs by name, in the order of the net."""
        return self._blob_map

    @property
    def params(self) -> OrderedDict[str, BlobVec]:
        """The parameters of each layer that has any, such as [weights, bias]."""
        if self._params is None:
            self._params = Params(
                (layer.name, layer.blobs) for layer in self._net_layers() if layer.blobs)
        return self._params

    def _net_layers(self) -> list[NetLayer]:
        return [NetLayer(*row, BlobVec.of(self._core.layer_blobs(index)))
                for index, row in enumerate(self._rows)]

    @property
    def layers(self) -> list[NetLayer | Layer]:
        """The layers in order. A layer of type Python is the object that computes it."""
        if self._layers is None:
            objects = [self._core.layer_object(index) for index in range(len(self._rows))]
            self._layers = [layer if made is None else made
                            for layer, made in zip(self._net_layers(), objects)]
        return self._layers

    @property
    def layer_names(self) -> list[str]:
        """The names of the layers in order."""
        return [row[0] for row in self._rows]

    # Running it.

    def _index(self, name: str) -> int:
        for index, row in enumerate(self._rows):
            if row[0] == name:
                return index
        raise ValueError(f"there is no layer {name!r} in net {self.name!r}; its layers are "
                         + ", ".join(self.layer_names))

    def _run_forward(self, first: int, last: int) -> float:
        if not self._hooks.get("before_forward") and not self._hooks.get("after_forward"):
            return self._core.forward_part(first, last)
        loss = 0.0
        for index in range(first, last + 1):
            for hook in self._hooks.get("before_forward", ()):
                hook(index)
            loss += self._core.forward_part(index, index)
            for hook in self._hooks.get("after_forward", ()):
                hook(index)
        return loss

    def _run_backward(self, first: int, last: int) -> None:
        if not self._hooks.get("before_backward") and not self._hooks.get("after_backward"):
            if first == len(self._rows) - 1 and last == 0:
                self._core.backward()
            else:
                self._core.backward_part(first, last)
            return
        for index in range(first, last - 1, -1):
            for hook in self._hooks.get("before_backward", ()):
                hook(index)
            self._core.backward_part(index, index)
            for hook in self._hooks.get("after_backward", ()):
                hook(index)

    def forward(self, blobs: Iterable[str] | None = None, start: str | None = None,
                end: str | None = None, **inputs: Any) -> dict[str, Array]:
        """Runs the layers from `start` to `end`, both included; all without them.

        Inputs may be given by name: net.forward(data=images), arrays of the shape of the blob,
        cast to float32. Returns the outputs, or the tops of `end`, and `blobs` besides: by name, as
        float32 views that the next forward writes. If the shape of an input was changed by
        blob.reshape(), all shapes follow.

        ValueError for a layer or input that there is not, and for arrays of another shape;
        TypeError for `blobs` that is no list of names. Error for shapes that do not fit together,
        and for an `end` before `start`. What a layer in Python raises comes out as it is.
        """
        if not inputs and blobs is None and start is None and end is None and not self._hooks:
            self._core.forward()
            return {name: blob.data for name, blob in self._output_blobs}
        first = 0 if start is None else self._index(start)
        last = len(self._rows) - 1 if end is None else self._index(end)
        if start is not None and end is not None and first > last:
            raise _crema.Error(f"forward cannot start at layer {start!r} and end at {end!r}, which "
                               "is before it")
        names = list(self.outputs if end is None else self._rows[last][3])
        names += [name for name in _names("blobs", blobs, self.inputs) if name not in names]
        if inputs:
            if set(inputs) != set(self.inputs):
                raise ValueError(f"the arguments {sorted(inputs)} are not the inputs of the net, "
                                 f"{self.inputs}")
            for name, values in inputs.items():
                _write(f"input {name!r}", name, self._blob_map[name].data, values)
        self._run_forward(first, last)
        return {name: self._blob_map[name].data for name in names}

    def backward(self, diffs: Iterable[str] | None = None, start: str | None = None,
                 end: str | None = None, **outputs: Any) -> dict[str, Array]:
        """Runs the layers from `start` back to `end`, both included; all without them.

        Gradients of outputs may be given by name: net.backward(prob=gradient). Those of parameters
        add up; clear_param_diffs() begins a new sum. Returns the gradients of the inputs, or of the
        bottoms of `end`, and of the blobs in `diffs`: float32 views of the shapes of the blobs.
        ValueError for a layer or output that there is not, and for gradients of another shape.
        Error if the net was built without backward (Net(..., backward=True) builds one with it).
        """
        first = len(self._rows) - 1 if start is None else self._index(start)
        last = 0 if end is None else self._index(end)
        if start is not None and end is not None and first < last:
            raise _crema.Error(f"backward cannot start at layer {start!r} and end at {end!r}, "
                               "which is behind it")
        names = list(self.inputs if end is None else self._rows[last][2])
        names += [name for name in _names("diffs", diffs, self.outputs) if name not in names]
        if outputs:
            expected = self.outputs if start is None else self._rows[first][3]
            if set(outputs) != set(expected):
                raise ValueError(f"the arguments {sorted(outputs)} are not the outputs {expected}")
            for name, values in outputs.items():
                _write(f"the gradient of {name!r}", None, self._blob_map[name].diff, values)
        self._run_backward(first, last)
        return {name: self._blob_map[name].diff for name in names}

    def set_data(self, images: Any, labels: Any, layer: str | None = None) -> None:
        """Gives the layer of type MemoryData, or the one that is named, its samples: copies.

        images: (N, C, H, W), with C, H and W of the layer's settings; also (N, C * H * W), or
            (N, H, W) where C is 1. labels: N numbers. Both are converted to float32.
        Error for other shapes, and if the net has no such layer.
        """
        import numpy as np

        images = np.ascontiguousarray(images, dtype=np.float32)
        labels = np.ascontiguousarray(labels, dtype=np.float32).reshape(-1)
        _crema.set_memory_data(self._core, self._memory_layer(layer), images, labels)

    def _memory_layer(self, layer: str | None) -> str:
        """The name of the layer of type MemoryData. Error if the net has none, or several."""
        if layer is not None:
            return layer
        names = [row[0] for row in self._rows if row[1] == "MemoryData"]
        if len(names) == 1:
            return names[0]
        if not names:
            raise _crema.Error(
                f"net {self.name!r} has no layer of type MemoryData to feed; give it one in place "
                "of its data layer: layer { name: 'data' type: 'MemoryData' top: 'data' top: "
                "'label' memory_data_param { batch_size: 64 channels: 1 height: 28 width: 28 } }")
        raise _crema.Error(f"net {self.name!r} has several layers of type MemoryData; name one: "
                           f"layer={' or layer='.join(map(repr, names))}")

    def reshape(self) -> None:
        """Computes all shapes from those of the inputs, as forward does by itself."""
        self._core.reshape()

    def clear_param_diffs(self) -> None:
        """Sets the gradients of the parameters to zero."""
        self._core.clear_gradients()

    def before_forward(self, hook: Hook) -> None:
        """Calls hook(index of the layer) before each layer runs."""
        self._hooks.setdefault("before_forward", []).append(hook)

    def after_forward(self, hook: Hook) -> None:
        """Calls hook(index of the layer) behind each layer."""
        self._hooks.setdefault("after_forward", []).append(hook)

    def before_backward(self, hook: Hook) -> None:
        """Calls hook(index of the layer) before each layer runs backward."""
        self._hooks.setdefault("before_backward", []).append(hook)

    def after_backward(self, hook: Hook) -> None:
        """Calls hook(index of the layer) behind the backward pass of each layer."""
        self._hooks.setdefault("after_backward", []).append(hook)

    # Weights.

    def load(self, weights: Source, strict: bool = False) -> _crema.LoadReport:
        """Copies weights by the names of layers, from a file, a NetParameter or its bytes.

        strict: an Error if a layer of the net or of the weights has no counterpart.
        Returns which layers were loaded, missing and unused. Error if a shape differs; nothing is
        copied then.
        """
        source, kind = source_of(weights)
        report = self._core.load(source, is_message=kind == "message", strict=strict)
        if kind == "file":
            self._weights.append(source)
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights: as HDF5 if the name ends in .h5, else as a .caffemodel."""
        self._core.save(os.fsencode(path))

    def save_onnx(self, path: str | os.PathLike[str], opset: int = 17, dynamic_batch: bool = False,
                  fold: bool = False, preprocess: bool = False) -> _crema.OnnxReport:
        """Writes the net of phase TEST as a model of ONNX, of its present shapes and weights.

        opset: the version of ONNX's operators, 13 to 23.
        dynamic_batch: leaves axis 0 of inputs and outputs open.
        fold: BatchNorm, Scale and Bias become part of the weights beside them.
        preprocess: the mean, scale and order of channels of the training become nodes: the first
            input takes pixels from 0 to 255, red first, as (N, 3, H, W).

        Inputs, outputs and blobs keep their names, all values are float32. Names of classes, and
        what becomes of pixels, are those that the files of the net's weights say; they go into the
        metadata of the model. Values above 2 GiB go to `path` + ".data".
        Error that names all layers that cannot be exported, such as layers that read data, and for
        a net of phase TRAIN, another opset, and `preprocess` where no file of weights says it.
        """
        return self._core.save_onnx(os.fsencode(path), opset=opset, dynamic_batch=dynamic_batch,
                                    fold=fold, preprocess=preprocess, weights=self._weights)

    def share_with(self, other: Net) -> None:
        """Uses the parameters of `other` from now on, by the names of layers.

        TypeError for what is no Net, Error for parameters of other shapes.
        """
        self._core.share_with(_core_of(other))
        self._params = self._layers = None

    def to_bytes(self, weights: bool = True) -> bytes:
        """The net as a serialised NetParameter."""
        return self._core.message(weights)

    def to_prototxt(self) -> str:
        """The net as a prototxt."""
        return self._core.prototxt()

    def __reduce__(self) -> tuple[Any, ...]:
        shapes = {name: self._blob_map[name].shape for name in self.inputs}
        # What a class derived from this one, or a script, has added.
        state = {name: value for name, value in self.__dict__.items() if name not in _OWN}
        return (_unpickled, (type(self), self.to_bytes(), self.phase, self._settings, shapes),
                state or None)

    def __repr__(self) -> str:
        phase = "TRAIN" if self._core.train else "TEST"
        return f"<crema.Net {self.name!r}, {len(self._rows)} layers, {phase}>"


# The attributes that Net._take() sets.
_OWN = frozenset(("_core", "_settings", "_rows", "_blob_map", "_output_blobs", "_layers", "_params",
                  "_hooks", "_weights"))


def _core_of(net: Any) -> _crema.Net:
    """The net of the library. TypeError for what is no Net."""
    if isinstance(net, Net):
        return net._core
    way = "; name its net, solver.net" if hasattr(net, "test_nets") else ""
    raise TypeError(f"share_with takes a crema.Net, not {type(net).__name__}{way}")


def _names(argument: str, names: Any, arrays: list[str]) -> list[str]:
    """The names of blobs that a pass returns besides. TypeError for what is no list of names.

    arrays: the blobs whose arrays the same call takes by name.
    """
    if names is None:
        return []
    if isinstance(names, str):
        raise TypeError(f"{argument} is a list of names: {argument}=[{names!r}]")
    if hasattr(names, "keys"):
        raise TypeError(f"{argument} is a list of names, and this is a {type(names).__name__}; "
                        "arrays are given by name, **{'name': array}")
    if hasattr(names, "shape"):
        name = arrays[0] if arrays else "name"
        raise TypeError(f"arrays are given by the names of blobs, such as {name}=array; "
                        f"{argument} is a list of names")
    return list(names)


def _write(said: str, blob: str | None, array: Array, values: Any) -> None:
    """Writes the values that a call was given. ValueError, with both shapes, if they do not fit.

    blob: the name of the blob if its shape may be set.
    """
    shape = tuple(array.shape)
    try:
        if not shape or len(values) == shape[0]:
            array[...] = values
            return
    except (TypeError, ValueError):
        if _shape_of(values) in (None, shape):
            raise
    given = _shape_of(values) or ()
    way = "give an array of the same shape"
    if len(given) == len(shape) == 4 and given[1:] == (*shape[2:], shape[1]) != shape[1:]:
        way = "its axes are (N, C, H, W): give array.transpose(0, 3, 1, 2)"
    elif blob is not None and given[1:] == shape[1:]:
        way = f"call net.blobs[{blob!r}].reshape({', '.join(map(str, given))}) first"
    elif blob is not None:
        way += f", or call net.blobs[{blob!r}].reshape() with that of the array first"
    raise ValueError(f"{said} has the shape {shape_text(given)}, and the blob "
                     f"{shape_text(shape)}; {way}")


def _shape_of(values: Any) -> tuple[int, ...] | None:
    """None for what is no array, such as lists of different lengths."""
    import numpy as np

    try:
        return tuple(np.shape(values))
    except ValueError:
        return None


def _unpickled(kind: type[Net], message: bytes, phase: int, settings: dict[str, Any],
               shapes: dict[str, tuple[int, ...]]) -> Net:
    """A net with the weights of another one, and with the shapes of its inputs."""
    net = kind.__new__(kind)
    net._take(Net(message, phase=phase, **settings)._core, settings)
    for name, shape in shapes.items():
        net.blobs[name].reshape(*shape)
    net.reshape()
    return net
