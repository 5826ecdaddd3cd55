"""A layer without a net, as forks of pycaffe have it.

    layer = caffe.create_layer(layer_parameter)
    bottom, top = [caffe.Blob((2, 3, 8, 8))], [caffe.Blob()]
    layer.SetUp(bottom, top)
    bottom[0].data[...] = images
    layer.Forward(bottom, top)

It runs in a net of its own, between copies of the blobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import crema

from .proto import caffe_pb2
from .pycaffe import Net


class Blob:
    """Values (data) and gradients (diff) that belong to no net: float32, of zeros at first."""

    def __init__(self, shape: Iterable[int] = ()):
        self._set(tuple(int(dim) for dim in shape))

    def _set(self, shape: tuple[int, ...]) -> None:
        self.data = np.zeros(shape, np.float32)
        self.diff = np.zeros(shape, np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self.data.shape

    @property
    def count(self) -> int:
        """The number of values."""
        return self.data.size

    def reshape(self, *dims: int) -> None:
        """Another shape, with new arrays of zeros, unless it has that shape."""
        if self.shape != dims:
            self._set(dims)

    def __repr__(self) -> str:
        return f"<caffe.Blob of {'x'.join(map(str, self.shape)) or 'scalar'}>"


class LayerParameter:
    """What create_layer takes, of the text of a prototxt or of a message."""

    def __init__(self, text: str = ""):
        from google.protobuf import text_format

        self._message = text_format.Parse(text, caffe_pb2.LayerParameter())

    @classmethod
    def from_python(cls, message: Any) -> LayerParameter:
        """That of a caffe_pb2.LayerParameter."""
        made = cls()
        made._message.CopyFrom(message)
        return made

    def to_python(self) -> Any:
        """The caffe_pb2.LayerParameter."""
        return self._message


class SingleLayer:
    """A layer without a net. bottom and top of its methods are lists of blobs."""

    def __init__(self, param: Any):
        self.layer_param = param
        self.type: str = param.type
        self._net: Net | None = None

    @property
    def blobs(self) -> Any:
        """The parameters, behind SetUp."""
        return self._made().layers[-1].blobs

    def SetUp(self, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Makes the layer for these shapes, fills its parameters and shapes the tops."""
        param = caffe_pb2.NetParameter(name=self.layer_param.name, force_backward=True)
        for i, blob in enumerate(bottom):
            given = param.layer.add(name=f"bottom{i}", type="Input", top=[f"bottom{i}"])
            given.input_param.shape.add(dim=[int(dim) for dim in blob.shape])
        layer = param.layer.add()
        layer.CopyFrom(self.layer_param)
        layer.name = layer.name or "layer"
        layer.bottom[:] = [f"bottom{i}" for i in range(len(bottom))]
        layer.top[:] = [f"top{i}" for i in range(len(top))]
        # Backward begins with the diffs of the tops.
        layer.loss_weight[:] = [0] * len(top)
        phase = layer.phase if layer.HasField("phase") else crema.TRAIN
        layer.ClearField("phase")
        self._net = Net(param, phase)
        self._shape_tops(top)

    def Reshape(self, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Shapes the tops for the shapes of the bottoms."""
        net = self._made()
        for i, blob in enumerate(bottom):
            net.blobs[f"bottom{i}"].reshape(*blob.shape)
        net.reshape()
        self._shape_tops(top)

    def Forward(self, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Writes the data of the tops."""
        net = self._made()
        for i, blob in enumerate(bottom):
            net.blobs[f"bottom{i}"].reshape(*blob.shape)
            net.blobs[f"bottom{i}"].data[...] = blob.data
        net.forward()
        self._shape_tops(top)
        for i, blob in enumerate(top):
            blob.data[...] = net.blobs[f"top{i}"].data

    def Backward(self, top: Sequence[Any], propagate_down: Sequence[bool],
                 bottom: Sequence[Any]) -> None:
        """Writes the diffs of the bottoms, and adds to those of the parameters."""
        net = self._made()
        for i, blob in enumerate(top):
            net.blobs[f"top{i}"].diff[...] = blob.diff
        net.backward()
        for i, blob in enumerate(bottom):
            if propagate_down[i]:
                blob.diff[...] = net.blobs[f"bottom{i}"].diff

    def _made(self) -> Net:
        if self._net is None:
            raise crema.Error(f"the layer of type {self.type} needs SetUp(bottom, top) first")
        return self._net

    def _shape_tops(self, top: Sequence[Any]) -> None:
        for i, blob in enumerate(top):
            blob.reshape(*self._made().blobs[f"top{i}"].shape)


def create_layer(param: Any) -> SingleLayer:
    """The layer of a LayerParameter, without a net. Call SetUp(bottom, top) first."""
    return SingleLayer(param.to_python() if isinstance(param, LayerParameter) else param)


def compile_net(file: Any, phase: int = crema.TEST, engine: str = "") -> str:
    """The prototxt of the net in its present form, with the layers of that phase.

    Fusing layers and choosing engines is what a net does when it is made, so that the text says
    nothing of it; `engine` is not read.
    """
    return Net(file, phase).to_prototxt()
