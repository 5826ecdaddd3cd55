"""The messages of prototxts, weights and databases, as pycaffe's caffe_pb2 has them.

    from caffe.proto import caffe_pb2
    from google.protobuf import text_format

    net = caffe_pb2.NetParameter()
    text_format.Merge(open('net.prototxt').read(), net)

The names are those of crema.messages.
"""

from __future__ import annotations

from typing import Any

from crema import messages
from crema.messages import *  # noqa: F403
from crema.messages import __all__  # noqa: F401


def __getattr__(name: str) -> Any:
    # Descriptors such as _NETPARAMETER too.
    try:
        return getattr(messages, name)
    except AttributeError as error:
        raise AttributeError(str(error).replace("crema.messages", __name__)) from None
