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


# Names that other packages have, for what blobs have as arrays.
_ELSEWHERE = {
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
    said = f"'Blob' object has no attribute {name!r}"
    if not name.startswith("_"):
        import numpy as np

        if name in _ELSEWHERE:
            said += f"; {_ELSEWHERE[name]}"
        elif hasattr(np.ndarray, name):
            said += f"; that of its values is blob.data.{name}"
    raise AttributeError(said, name=name, obj=blob)


def _no_pickle(blob: _crema.Blob, protocol: int) -> NoReturn:
    raise TypeError("a blob is memory of its net, and is not copied or pickled without it; take "
                    "blob.data.copy(), or the net, which can be pickled")


def teach_blobs() -> None:
    """Gives the class Blob these answers."""
    kind: Any = _crema.Blob
    kind.__getattr__ = _attribute
    kind.__reduce_ex__ = _no_pickle
