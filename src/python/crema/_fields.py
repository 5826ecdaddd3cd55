"""Values of Python as fields of messages, for net_spec."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor


def is_repeated(field: Any) -> bool:
    """Whether a field holds a list."""
    known = getattr(field, "is_repeated", None)  # the newer name
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if known is None else known)


def nearest(name: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """'; did you mean ...?', or where no name is near, those that are `listed`: else all."""
    lower = {each.lower(): each for each in sorted(known, reverse=True)}
    near = difflib.get_close_matches(str(name).lower(), lower, 1)
    if near:
        return f"; did you mean {lower[near[0]]}?"
    names = sorted(lower.values() if listed is None else listed)
    return f"; there are {', '.join(names)}" if 0 < len(names) <= 60 else ""


def field_of(descriptor: Any, name: str) -> Any:
    """The field of a message. AttributeError, with the nearest name, if there is none."""
    field = descriptor.fields_by_name.get(name)
    if field is None:
        raise AttributeError(f"{descriptor.name} has no parameter {name!r}"
                             + nearest(name, descriptor.fields_by_name))
    return field


def _enum_number(field: Any, name: str) -> int:
    value = field.enum_type.values_by_name.get(name)
    if value is None:
        raise ValueError(f"{field.name} has no value {name!r}"
                         + nearest(name, field.enum_type.values_by_name))
    return int(value.number)


def _scalar(field: Any, value: Any) -> Any:
    """A value as protobuf takes it."""
    if hasattr(value, "dtype") and getattr(value, "size", 0) == 1:
        value = value.item()  # of numpy
    if field.enum_type is not None and isinstance(value, str):
        return _enum_number(field, value)
    # 512 / 2 is 256.0 in Python 3.
    # Of the class: descriptors themselves have no constants in some versions of protobuf.
    kinds = FieldDescriptor
    is_whole = field.cpp_type in (kinds.CPPTYPE_INT32, kinds.CPPTYPE_INT64, kinds.CPPTYPE_UINT32,
                                  kinds.CPPTYPE_UINT64, kinds.CPPTYPE_ENUM)
    if is_whole and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _items(value: Any) -> list[Any]:
    """The values of a repeated field."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes, Mapping)) or hasattr(value, "SerializeToString"):
        return [value]
    return list(value) if isinstance(value, Iterable) else [value]


def _fill(message: Any, value: Any, name: str) -> None:
    if hasattr(value, "SerializeToString"):
        # Of any class that has these fields, such as that of another protobuf module.
        message.MergeFromString(value.SerializeToString())
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a {message.DESCRIPTOR.name}: give a dict of its fields, "
                        f"not {value!r}")
    for key, part in value.items():
        assign_proto(message, key, part)


def assign_proto(proto: Any, name: str, val: Any) -> None:
    """Sets the field `name` of a message.

    val: a number, text or enum (its number or name); for a message a dict or a message; for a
        repeated field a list, tuple or array of those, or one of them. None leaves it as it is.

    Values are added to those that a repeated field has. AttributeError for a field that the message
    does not have, TypeError and ValueError for a value that the field cannot hold.
    """
    field = field_of(proto.DESCRIPTOR, name)
    if val is None:
        return
    if is_repeated(field):
        if field.message_type is not None:
            for item in _items(val):
                _fill(getattr(proto, name).add(), item, name)
            return
        values = [_scalar(field, item) for item in _items(val)]
    elif field.message_type is not None:
        _fill(getattr(proto, name), val, name)
        return
    else:
        values = _scalar(field, val)
    try:
        if is_repeated(field):
            getattr(proto, name).extend(values)
        else:
            setattr(proto, name, values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{proto.DESCRIPTOR.name}.{name} cannot be {val!r}: {error}") from None


def check_names(descriptor: Any, value: Any) -> None:
    """AttributeError if dicts have keys that are no fields."""
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, Mapping):
            for key, part in item.items():
                field = field_of(descriptor, key)
                if field.message_type is not None:
                    check_names(field.message_type, part)
