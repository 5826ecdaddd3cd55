"""What names a net or a solver: a path, a message, its bytes, or the text of a prototxt."""

from __future__ import annotations

import os
from typing import Any, Protocol, Union


class Message(Protocol):
    """A message of protocol buffers, of any version of its package."""

    def SerializeToString(self) -> bytes: ...


class Spec(Protocol):
    """What makes a message, such as a NetSpec."""

    def to_proto(self) -> Any: ...


Source = Union[str, "os.PathLike[str]", bytes, Message, Spec]


def source_of(source: Any) -> tuple[bytes, str]:
    """(bytes, kind) as _crema takes them.

    A str is a path, or the text of a prototxt where it has a line break or a brace.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), "message"
    if isinstance(source, str):
        is_text = "\n" in source or "{" in source
        return (source.encode(), "text") if is_text else (os.fsencode(source), "file")
    if hasattr(source, "SerializeToString"):
        return source.SerializeToString(), "message"
    if hasattr(source, "to_proto"):  # a NetSpec
        return source.to_proto().SerializeToString(), "message"
    if not isinstance(source, os.PathLike):
        raise TypeError(f"a {type(source).__name__} is no file and no message; give a path, the "
                        "text of a prototxt, a message, its bytes, or a NetSpec")
    return os.fsencode(source), "file"


def path_of(path: str | bytes | os.PathLike[str]) -> bytes:
    """A path as the library takes it."""
    return os.fsencode(path)
