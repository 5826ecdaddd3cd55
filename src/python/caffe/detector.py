"""Detector: a net that classifies windows of images."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import io
from .classifier import _predict, _transformer_of
from .pycaffe import TEST, Net

Array = np.ndarray[Any, Any]


class Detector(Net):
    """A net that scores windows of images, as R-CNN does.

    model_file: a deploy prototxt. pretrained_file: its weights.
    mean, input_scale, raw_scale, channel_swap: as of caffe.io.Transformer, here `transformer`.
    context_pad: pixels of the image around a window, at the size of the net's input, on each side.
        What lies outside of the image is filled with the mean. None or 0: the window alone.
    """

    def __init__(self, model_file: str | os.PathLike[str],
                 pretrained_file: str | os.PathLike[str] | None, mean: Any = None,
                 input_scale: float | None = None, raw_scale: float | None = None,
                 channel_swap: Sequence[int] | None = None, context_pad: int | None = None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        self.transformer = _transformer_of(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def configure_crop(self, context_pad: int | None) -> None:
        """Sets context_pad, and crop_mean: the mean in an image's own axes, order and scale."""
        name = self.inputs[0]
        channels, rows, columns = self.blobs[name].shape[1:]
        self.context_pad = context_pad
        self.crop_dims = np.array([rows, columns, channels])
        mean = self.transformer.mean.get(name)
        if mean is None:
            self.crop_mean = np.zeros((rows, columns, channels), np.float32)
            return
        swap = self.transformer.channel_swap.get(name)
        image = mean if swap is None else mean[np.argsort(swap)]
        image = image.reshape(channels, *image.shape[-2:]).transpose(1, 2, 0)
        image = image / self.transformer.raw_scale.get(name, 1)
        self.crop_mean = np.broadcast_to(image, (rows, columns, channels)).astype(np.float32)

    def detect_windows(self, images_windows: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
        """Scores windows.

        images_windows: pairs of an image's file and its windows, (ymin, xmin, ymax, xmax) in
            pixels, where ymax and xmax are outside.
        Returns a dict for each window: 'window', 'prediction' (the scores) and 'filename'.
        """
        crops: list[Array] = []
        found: list[dict[str, Any]] = []
        for file, windows in images_windows:
            image = io.load_image(file)
            for window in windows:
                crops.append(self.crop(image, window))
                found.append({"window": window, "filename": file})
        if crops:
            for each, scores in zip(found, _predict(self, self.transformer, crops)):
                each["prediction"] = scores
        return found

    def detect_selective_search(self, image_fnames: Sequence[str]) -> list[dict[str, Any]]:
        """Scores windows that selective search finds, by the module that R-CNN uses for it.

        ImportError without the module selective_search_ijcv_with_python, which needs MATLAB.
        """
        search = importlib.import_module("selective_search_ijcv_with_python")
        windows: Any = search.get_windows([os.path.abspath(name) for name in image_fnames],
                                          cmd="selective_search_rcnn")
        return self.detect_windows(zip(image_fnames, windows))

    def crop(self, im: Array, window: Sequence[float]) -> Array:
        """The part of an image in a window, with context if context_pad is set."""
        top, left, bottom, right = (int(value) for value in window)
        if not self.context_pad:
            if bottom <= top or right <= left:
                raise ValueError(f"window {tuple(window)} has no pixels")
            return im[max(top, 0):bottom, max(left, 0):right]
        rows, columns = (int(size) for size in self.crop_dims[:2])
        made = self.crop_mean.copy()
        y = _part_with_context(top, bottom, im.shape[0], rows, self.context_pad)
        x = _part_with_context(left, right, im.shape[1], columns, self.context_pad)
        if y is None or x is None:
            raise ValueError(f"window {tuple(window)} is outside of the image of "
                             f"{im.shape[0]} x {im.shape[1]}")
        part = im[y[0]:y[1], x[0]:x[1]]
        made[y[2]:y[2] + y[3], x[2]:x[2] + x[3]] = io.resize_image(part, (y[3], x[3]))
        return made


def _part_with_context(begin: int, end: int, size: int, crop_size: int,
                       context_pad: int) -> tuple[int, int, int, int] | None:
    """Along one axis: (begin, end) of the part of the image, (place, size) of it in the crop.

    The window grows around its middle until it fills the crop with context_pad pixels on each side;
    the sides of a window are numbers of its first and last pixel. None: the part is empty.
    """
    growth = crop_size / (crop_size - 2.0 * context_pad)
    half = (end - begin + 1) / 2.0
    middle = begin + half
    low, high = (float(np.round(middle + side * growth * half)) for side in (-1, 1))
    scale = crop_size / (high - low + 1)
    place = int(np.round(max(0.0, -low) * scale))
    low, high = (int(np.clip(value, 0, size)) for value in (low, high))
    if high <= low:
        return None
    # At least a pixel stays for the image.
    place = min(place, crop_size - 1)
    length = min(max(int(np.round((high - low + 1) * scale)), 1), crop_size - place)
    return low, high, place, length
