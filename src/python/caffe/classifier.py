"""Classifier: a net that classifies images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import io
from .pycaffe import TEST, Net

Array = np.ndarray[Any, Any]


def _transformer_of(net: Net, mean: Any, input_scale: float | None, raw_scale: float | None,
                    channel_swap: Sequence[int] | None) -> io.Transformer:
    """The transformer of a net's first input, for images of (height, width, channels)."""
    name = net.inputs[0]
    made = io.Transformer({name: net.blobs[name].shape})
    made.set_transpose(name, (2, 0, 1))
    if mean is not None:
        made.set_mean(name, mean)
    if input_scale is not None:
        made.set_input_scale(name, input_scale)
    if raw_scale is not None:
        made.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        made.set_channel_swap(name, channel_swap)
    return made


def _predict(net: Net, transformer: io.Transformer, images: Iterable[Any]) -> Array:
    """The first output for images of any number, each preprocessed."""
    name = net.inputs[0]
    samples = np.stack([transformer.preprocess(name, image) for image in images])
    made: Array = net.forward_all(**{name: samples})[net.outputs[0]]
    return made


class Classifier(Net):
    """A net whose first input is images and whose first output is scores.

        net = caffe.Classifier('deploy.prototxt', 'net.caffemodel', mean=mean, raw_scale=255,
                               channel_swap=(2, 1, 0), image_dims=(256, 256))
        scores = net.predict([caffe.io.load_image('cat.jpg')])

    model_file: a deploy prototxt. pretrained_file: its weights.
    image_dims: (height, width) that images are resized to before they are cropped to the net's
        input. Default: the size of the input.
    mean, input_scale, raw_scale, channel_swap: as of caffe.io.Transformer, here `transformer`.
    """

    def __init__(self, model_file: str | os.PathLike[str],
                 pretrained_file: str | os.PathLike[str] | None, image_dims: Any = None,
                 mean: Any = None, input_scale: float | None = None,
                 raw_scale: float | None = None, channel_swap: Sequence[int] | None = None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = _transformer_of(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = self.crop_dims if image_dims is None else np.array(image_dims)

    def predict(self, inputs: Iterable[Any], oversample: bool = True) -> Array:
        """Scores of images: (number of images, classes), or of the output's shape.

        inputs: images of (height, width, channels), of any sizes.
        oversample: the mean of ten crops, as of caffe.io.oversample; else the centre alone.
        ValueError for images of other axes, such as a single image that is in no list.
        """
        inputs = list(inputs)
        for image in inputs:
            if np.ndim(image) != 3:
                raise ValueError("predict takes a list of images of (height, width, channels), "
                                 f"such as [image]; one of them has the shape {np.shape(image)}")
        images = np.stack([io.resize_image(image, self.image_dims) for image in inputs])
        if oversample:
            crops = io.oversample(images, self.crop_dims)
            scores = _predict(self, self.transformer, crops)
            mean: Array = scores.reshape(len(images), 10, -1).mean(1)
            return mean
        y, x = (self.image_dims - self.crop_dims) // 2
        rows, columns = self.crop_dims
        return _predict(self, self.transformer, images[:, y:y + rows, x:x + columns])
