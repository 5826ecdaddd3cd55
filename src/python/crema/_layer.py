"""Layer: the base class of layers written in Python.

A net has such a layer as

    layer { name: 'l' type: 'Python' bottom: 'x' top: 'y'
            python_param { module: 'my_layers' layer: 'MyLayer' param_str: '{"scale": 2}' } }
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._crema import Blob


class BlobVec(list[Blob]):
    """The parameters of a layer."""

    def __init__(self, add: Callable[[list[int]], Blob] | None = None):
        super().__init__()
        self._add = add

    def add_blob(self, *dims: int) -> Blob:
        """For setup(): a parameter of this shape, of zeros. Its data may be set there."""
        if self._add is None:
            raise RuntimeError("add_blob is for setup() of a layer that a net has made")
        blob = self._add([int(dim) for dim in dims])
        self.append(blob)
        return blob


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

    A layer without bottoms is a source of data. It may give each batch another shape.
    A layer with bottoms whose tops become smaller in forward says `shapes_from_values = True`, and
    reshape() sets the most that they may have.
    A layer that defines state() and set_state(state) goes on where it was when a run continues from
    a snapshot: state() returns a dict of numbers and arrays.
    An exception stops the net, and comes out of forward() with its traceback.
    """

    name: str = ""
    type: str = "Python"
    phase: int = 1
    param_str: str = ""
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
    kind = getattr(importlib.import_module(module), name)
    made = kind.__new__(kind)
    made.name = layer
    made.phase = phase
    made.blobs = BlobVec(add_blob)
    made.param_str = param_str
    made.__init__(None)
    return made


def encode_state(state: dict[str, Any]) -> list[list[float]]:
    """state() as lists of numbers, of which the first is the names and shapes in JSON."""
    import numpy as np

    if not isinstance(state, dict):
        raise TypeError(f"state() of a layer returns a dict of numbers and arrays, "
                        f"not {type(state).__name__}")
    arrays = {key: np.asarray(value) for key, value in state.items()}
    for key, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"state()[{key!r}] is no number and no array of numbers")
    names = [[key, list(array.shape), array.dtype.str] for key, array in arrays.items()]
    header = [float(byte) for byte in json.dumps(names).encode()]
    return [header, *([float(value) for value in array.ravel()] for array in arrays.values())]


def decode_state(stored: Iterable[Iterable[float]]) -> dict[str, Any]:
    """The dict that encode_state() was given."""
    import numpy as np

    header, *values = stored
    names = json.loads(bytes(int(byte) for byte in header))
    state: dict[str, Any] = {}
    for (key, shape, dtype), numbers in zip(names, values):
        array = np.array(list(numbers), dtype=np.float64).astype(dtype).reshape(shape)
        state[key] = array if shape else array[()].item()
    return state
