"""What scripts ask for that is not there, answered by what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

from . import _crema

Call = TypeVar("Call", bound=Callable[..., Any])


def suggests(call: Call) -> Call:
    """Answers a keyword that the function does not take by the nearest that it takes."""
    code: Any = getattr(call, "__code__")
    known = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(call)
    def checked(*args: Any, **settings: Any) -> Any:
        for name in settings:
            if name not in known:
                raise TypeError(_no_keyword(call, name, [each for each in known if each != "self"]))
        return call(*args, **settings)

    return cast(Call, checked)


def _no_keyword(call: Any, name: str, known: list[str]) -> str:
    import difflib

    owner = call.__qualname__.removesuffix(".__init__")
    near = difflib.get_close_matches(name.lower(), known, 1)
    way = f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(known)
    return f"{owner} takes no argument {name!r}; {way}"


def no_attribute(thing: Any, name: str, ways: dict[str, str]) -> AttributeError:
    """For an attribute that is not there; `ways` has what to write in place of some."""
    kind = type(thing).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    if name in ways:
        said += f"; {ways[name]}"
    return AttributeError(said, name=name, obj=thing)


# What nets, solvers and blobs of other packages have.
_PHASE = "the phase is of the net from the start: crema.Net(..., phase=crema.TRAIN) or crema.TEST"
_PARAMS = "parameters are net.params['conv1'][0].data and .diff; net.save(path) writes all"
_DEVICE = "the device is of the net from the start: crema.Net(..., context=crema.Context(0))"
_TRAIN = "crema.train(solver) trains, or solver.solve(); crema.feed(solver, images, labels) gives data"
OF_NETS = {
    "predict": "net.forward(data=array) computes the outputs of arrays, caffe.Classifier those of "
               "images, and crema.Estimator is a classifier of scikit-learn",
    "fit": "crema.train(solver) trains the net of a solver, and crema.Estimator has fit",
    "train": _PHASE, "eval": _PHASE,
    "parameters": _PARAMS, "state_dict": _PARAMS, "weights": _PARAMS,
    "load_state_dict": "net.load(path) reads weights",
    "to": _DEVICE, "cuda": _DEVICE, "cpu": _DEVICE, "gpu": _DEVICE,
    "zero_grad": "net.clear_param_diffs() begins a new sum of gradients",
}
OF_SOLVERS = {
    "train": _TRAIN, "fit": _TRAIN, "run": _TRAIN,
    "iterations": "solver.iteration is the number of iterations done",
    "losses": "solver.history.loss has all losses", "loss": "solver.history.loss has all losses",
    "save": "solver.snapshot() writes weights and state, and solver.net.save(path) weights",
    "load": "solver.restore(path) goes on from a snapshot, and solver.net.load(path) reads weights",
}
_OF_BLOBS = {
    "save": "numpy.save(path, blob.data) writes its values, and net.save(path) all weights",
    "grad": "its gradient is blob.diff",
    "value": "its values are blob.data",
    "values": "its values are blob.data",
    "numpy": "its values are blob.data, an array of numpy",
    "detach": "its values are blob.data, an array of numpy; blob.data.copy() is one of its own",
    "cpu": "its values are blob.data, an array of numpy",
}


def _attribute(blob: _crema.Blob, name: str) -> Any:
    """For an attribute that blobs do not have."""
    ways = _OF_BLOBS
    if not name.startswith("_") and name not in ways:
        import numpy as np

        if hasattr(np.ndarray, name):
            ways = {name: f"that of its values is blob.data.{name}"}
    raise no_attribute(blob, name, ways)


def _assign(blob: _crema.Blob, name: str, value: Any) -> None:
    """blob.data += 1 assigns the array that it has changed; no other one can take its place."""
    if name in ("data", "diff"):
        import numpy as np

        array = getattr(blob, name)
        if (isinstance(value, np.ndarray) and value.shape == array.shape
                and value.ctypes.data == array.ctypes.data):
            return
        raise AttributeError(f"the {name} of a blob is memory of its net, and is written, not "
                             f"replaced: blob.{name}[...] = array", name=name, obj=blob)
    object.__setattr__(blob, name, value)


def _no_pickle(blob: _crema.Blob, protocol: int) -> NoReturn:
    raise TypeError("a blob is memory of its net, and is not copied or pickled without it; take "
                    "blob.data.copy(), or the net, which can be pickled")


def teach_blobs() -> None:
    """Gives the class Blob these answers."""
    kind: Any = _crema.Blob
    kind.__getattr__ = _attribute
    kind.__setattr__ = _assign
    kind.__reduce_ex__ = _no_pickle
