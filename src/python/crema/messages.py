"""The messages of prototxts, weights and databases, as classes of protobuf.

    from crema import messages
    from google.protobuf import text_format

    net = text_format.Parse(open('net.prototxt').read(), messages.NetParameter())
    net.layer[1].convolution_param.num_output = 32
    crema.Net(net)

There is no generated code here. The classes are made at import from the descriptors that Crema
ships (messages.binpb), by whichever protobuf is installed, so none is too old or too new.
The names are those that protoc would give: each message, Phase, TRAIN and TEST, DESCRIPTOR, and
descriptors such as _NETPARAMETER and _V1LAYERPARAMETER_LAYERTYPE.

The descriptors lie in a pool of their own. Other modules of the process may have messages or files
of the same names.
"""

from __future__ import annotations

import copyreg
import difflib
import operator
import os
import sys
from typing import Any

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
except ImportError as error:
    raise ImportError("the messages of Crema need the package protobuf; install it: "
                      "pip install protobuf") from error


def _read_set() -> bytes:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "messages.binpb")
    with open(path, "rb") as file:
        return file.read()


def _merged(serialised: bytes) -> tuple[Any, list[Any]]:
    """The files of a descriptor set as one file, and those of other packages that it needs."""
    files = descriptor_pb2.FileDescriptorSet.FromString(serialised).file
    package = next(file.package for file in files
                   if any(message.name == "NetParameter" for message in file.message_type))
    others = [file for file in files if file.package != package]
    # Without a syntax it is proto2, as all of these files are.
    merged = descriptor_pb2.FileDescriptorProto(
        name="caffe/proto/caffe.proto", package=package, dependency=[file.name for file in others])
    for file in files:
        if file.package != package:
            continue
        merged.message_type.extend(file.message_type)
        merged.enum_type.extend(file.enum_type)
        merged.extension.extend(file.extension)
    return merged, others


_factory: Any = message_factory
_pool = descriptor_pool.DescriptorPool()
_file, _others = _merged(_read_set())
for _other in _others:
    _pool.AddSerializedFile(_other.SerializeToString())
_pool.AddSerializedFile(_file.SerializeToString())
DESCRIPTOR = _pool.FindFileByName(_file.name)
del _file, _others

if hasattr(_factory, "GetMessageClass"):
    _class_of = _factory.GetMessageClass
else:  # before protobuf 4.22
    _class_of = _factory.MessageFactory(_pool).GetPrototype


def _unpickled(name: str, serialised: bytes) -> Any:
    return operator.attrgetter(name)(sys.modules[__name__]).FromString(serialised)


def _reduced(message: Any) -> tuple[Any, ...]:
    # protobuf itself looks for classes in the common pool.
    return _unpickled, (type(message).__qualname__, message.SerializePartialToString())


def _make(descriptor: Any, outer: str = "") -> Any:
    """The class of a message, with the classes inside it."""
    made = _class_of(descriptor)
    name = f"{outer}.{descriptor.name}" if outer else descriptor.name
    made.__module__ = __name__
    made.__qualname__ = name
    copyreg.pickle(made, _reduced)
    prefix = "_" + name.replace(".", "_").upper()
    globals()[prefix] = descriptor
    for enum in descriptor.enum_types:
        globals()[f"{prefix}_{enum.name.upper()}"] = enum
    for inner in descriptor.nested_types:
        inner_made = _make(inner, name)
        if not hasattr(made, inner.name):
            setattr(made, inner.name, inner_made)
    return made


def _fill() -> list[str]:
    """Makes the names of this module; returns the public ones."""
    names = globals()
    before = set(names)
    for name, descriptor in DESCRIPTOR.message_types_by_name.items():
        names[name] = _make(descriptor)
    for name, enum in DESCRIPTOR.enum_types_by_name.items():
        names["_" + name.upper()] = enum
        names[name] = EnumTypeWrapper(enum)
        for value in enum.values:
            names[value.name] = value.number
    # C++ has another class of this name, so Crema's files call it NetPhase.
    names["Phase"], names["_PHASE"] = names["NetPhase"], names["_NETPHASE"]
    return sorted(name for name in set(names) - before if not name.startswith("_"))


__all__ = ["DESCRIPTOR", *_fill()]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    near = difflib.get_close_matches(name, __all__, 1)
    hint = f"; did you mean {near[0]}?" if near and not name.startswith("__") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
