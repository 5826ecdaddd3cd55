"""Messages of Caffe: caffe.proto.caffe_pb2."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    # protobuf is imported by those who use messages.
    if name == "caffe_pb2":
        import importlib

        return importlib.import_module(".caffe_pb2", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
