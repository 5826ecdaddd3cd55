"""Layer: the base class of layers written in Python.

A net has such a layer as

    layer { name: 'l' type: 'Python' bottom: 'x' top: 'y'
            python_param { module: 'my_layers' layer: 'MyLayer' param_str: '{"scale": 2}' } }
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, overload

from ._crema import Blob


class BlobVec(list[Blob]):
    """The parameters of a layer."""

    def __init__(self, add: Callable[[list[int]], Blob] | None = None):
        super().__init__()
        self._add = add

    @overload
    def __setitem__(self, index: SupportsIndex, value: Blob) -> None: ...

    @overload
    def __setitem__(self, index: slice, value: Iterable[Blob]) -> None: ...

    def __setitem__(self, index: SupportsIndex | slice, value: Any) -> None:
        """Copies the values of another blob of that shape into the parameter.

        Parameters are those of the layer and stay where they are: share_with() of a net makes them
        one with those of another.
        """
        given: list[Any]
        places: Sequence[SupportsIndex]
        if isinstance(index, slice):
            given, places = list(value), range(*index.indices(len(self)))
            if len(given) != len(places):
                raise ValueError(f"a layer keeps its number of parameters: {len(places)} are to be "
                                 f"set, {len(given)} are given")
        else:
            given, places = [value], [index]
        for place, blob in zip(places, given):
            _copy_values(blob, self[place])

    @classmethod
    def of(cls, blobs: list[Blob]) -> BlobVec:
        """Those of a layer that is complete."""
        made = cls()
        made.extend(blobs)
        return made

    @overload
    def __getitem__(self, index: SupportsIndex) -> Blob: ...

    @overload
    def __getitem__(self, index: slice) -> list[Blob]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Blob | list[Blob]:
        try:
            return super().__getitem__(index)
        except IndexError:
            raise IndexError(f"there is no parameter {index}; the layer has {len(self)}: "
                             f"{', '.join(str(blob.shape) for blob in self) or 'none'}") from None

    def add_blob(self, *dims: int) -> Blob:
        """For setup(): a parameter of this shape, of zeros. Its data may be set there."""
        if self._add is None:
            raise RuntimeError("add_blob is for setup() of a layer that a net has made")
        blob = self._add([int(dim) for dim in dims])
        self.append(blob)
        return blob


def _copy_values(source: Any, parameter: Blob) -> None:
    if not isinstance(source, Blob):
        raise TypeError("values are written to the data of a parameter: "
                        f"net.params['conv'][0].data[...] = values; {type(source).__name__} is no "
                        "blob to copy them from")
    if list(source.shape) != list(parameter.shape):
        raise ValueError(f"the parameter is of shape {list(parameter.shape)}, and the blob that is "
                         f"set for it of shape {list(source.shape)}")
    if source is not parameter:
        parameter.data[...] = source.data


class Layer:
    """A layer in Python: derive from it, and define the four methods.

    bottom and top are lists of Blob, which exist while the method runs. Their data and diff are
    numpy arrays on the net's own memory.

    setup(bottom, top)      once: looks at the settings, adds parameters
    reshape(bottom, top)    sets the shapes of the tops: top[0].reshape(*bottom[0].shape)
    forward(bottom, top)    writes the data of the tops
    backward(top, propagate_down, bottom)
                            writes the diff of bottom i if propagate_down[i], and adds to the diffs
                            of self.blobs

    Attributes: name, type, phase (crema.TRAIN or TEST), param_str, blobs (its parameters).

    A layer without bottoms is a source of data. It may give each batch another shape. Where its
    class says `prefetch = N`, reshape and forward run up to N batches ahead, in order, in a thread
    of the layer. An exception comes out of the pass that would use the batch.
    A layer with bottoms may reshape its tops in forward, too: the layers behind it follow. Memory
    for these is planned by what reshape() sets, so it is best to set there what is usual or the
    most. With optimize=True, or in the program, layers behind share less memory therefore, and on
    a GPU they are in no CUDA graph: a class that never does so may say
    `shapes_from_values = False`.
    A layer that defines state() and set_state(state) goes on where it was when a run continues from
    a snapshot. state() returns numbers, strings and arrays, in dicts, lists and tuples: also the
    state of a random generator of numpy or Python. Of a layer that runs ahead, it is the state
    behind the last batch that the net has used.
    On a GPU, data and diff are copies on the host, which go back when the net reads them;
    torch.from_dlpack(bottom[0]) is the memory on the GPU. What a layer queues there has to be done
    when the method returns: torch.cuda.synchronize().
    A layer in place (a top has the name of a bottom) finds the shape and the values of the bottom
    in that top. Of every other top, a method has to set the shape; else an Error names the layer.
    Diffs of bottoms are zero before backward(): a layer without a gradient need not write them.
    An exception stops the net, and comes out of forward() with its traceback.
    """

    name: str = ""
    type: str = "Python"
    phase: int = 1
    param_str: str = ""
    prefetch: int = 0
    shapes_from_values: bool = True
    blobs: BlobVec

    def __init__(self, *_: Any):
        if "blobs" not in self.__dict__:
            self.blobs = BlobVec()

    @property
    def param_str_(self) -> str:
        """param_str, as older layers call it."""
        return self.param_str

    def setup(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Looks at the settings, and adds parameters."""

    def reshape(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Sets the shapes of the tops."""

    def forward(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Writes the data of the tops."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def backward(self, top: Sequence[Blob], propagate_down: Sequence[bool],
                 bottom: Sequence[Blob]) -> None:
        """Writes the diffs of the bottoms."""
        raise NotImplementedError(
            f"{type(self).__name__} has no backward(); add one, or set propagate_down: false")


def make(module: str, name: str, layer: str, param_str: str, phase: int,
         add_blob: Callable[[list[int]], Blob]) -> Any:
    """The object of a layer of type Python. The library calls this."""
    imported = importlib.import_module(module)
    kind = getattr(imported, name, None)
    if kind is None:
        import difflib

        classes = [each for each, value in vars(imported).items() if isinstance(value, type)]
        near = difflib.get_close_matches(name, classes, 1)
        raise AttributeError(f"module {module!r} has no class {name!r}"
                             + (f"; did you mean {near[0]!r}?" if near else ""))
    if getattr(kind, "__init__", None) is object.__init__:
        raise TypeError(f"{module}.{name} is no layer; derive the class from crema.Layer")
    made = kind.__new__(kind)
    made.name = layer
    made.phase = phase
    made.blobs = BlobVec(add_blob)
    made.param_str = param_str
    made.__init__(None)
    return made


def has_reshape(layer: Any) -> bool:
    """Whether the class of the layer defines reshape() itself. The library calls this."""
    return getattr(type(layer), "reshape", Layer.reshape) is not Layer.reshape


# A snapshot holds numbers of 64-bit floating point. Each has 6 bytes, which it keeps exactly.
_BYTES = 6


def encode_state(state: Any) -> bytes:
    """state() as numbers: the structure in JSON, and behind it the bytes of the arrays."""
    import json

    import numpy as np

    arrays: list[bytes] = []
    structure = json.dumps(_plain(state, arrays, "state()")).encode()
    content = b"".join([len(structure).to_bytes(_BYTES, "little"), structure, *arrays])
    size = len(content)
    content = size.to_bytes(_BYTES, "little") + content + bytes(-size % _BYTES)
    places = 256.0 ** np.arange(_BYTES)
    return (np.frombuffer(content, np.uint8).reshape(-1, _BYTES) @ places).tobytes()


def decode_state(numbers: bytes) -> Any:
    """What encode_state() was given."""
    import json

    import numpy as np

    stored = np.frombuffer(numbers, np.float64).astype("<u8").view(np.uint8)
    content = stored.reshape(-1, 8)[:, :_BYTES].tobytes()
    size = int.from_bytes(content[:_BYTES], "little")
    content = content[_BYTES:_BYTES + size]
    begin = _BYTES + int.from_bytes(content[:_BYTES], "little")
    return _restored(json.loads(content[_BYTES:begin]), content[begin:])


def _plain(value: Any, arrays: list[bytes], where: str) -> Any:
    """`value` for JSON. What JSON does not have is a list that begins with the kind."""
    import numpy as np

    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return float(value)
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, *(_plain(item, arrays, f"{where}[{i}]") for i, item in enumerate(value))]
    if isinstance(value, dict):
        return ["dict", *([_plain(key, arrays, where), _plain(item, arrays, f"{where}[{key!r}]")]
                          for key, item in value.items())]
    if isinstance(value, bytes):
        return ["bytes", value.decode("latin1")]
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{where} is a {type(value).__name__}; a layer's state is of numbers, "
                        "strings, arrays of numbers, and lists, tuples and dicts of these")
    offset = sum(map(len, arrays))
    arrays.append(array.tobytes())
    kind = "number" if isinstance(value, np.generic) else "array"
    return [kind, array.dtype.str, list(array.shape), offset]


def _restored(stored: Any, arrays: bytes) -> Any:
    import numpy as np

    if not isinstance(stored, list):
        return stored
    kind, *items = stored
    if kind in ("list", "tuple"):
        values = [_restored(item, arrays) for item in items]
        return values if kind == "list" else tuple(values)
    if kind == "dict":
        return {_restored(key, arrays): _restored(item, arrays) for key, item in items}
    if kind == "bytes":
        return items[0].encode("latin1")
    dtype, shape, offset = items
    count = int(np.prod(shape, dtype=np.int64))
    array = np.frombuffer(arrays, dtype, count, offset).reshape(shape).copy()
    return array[()] if kind == "number" else array
