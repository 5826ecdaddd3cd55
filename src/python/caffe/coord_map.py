"""How coordinates of one blob map to those of another, and the Crop layer that aligns both.

A map is (axis, a, b): coordinate i of one blob lies at a * i + b of the other. That of a layer goes
from its bottom to its top; what a window reads belongs to the window's middle. a and b are numbers,
or arrays with one value for each axis behind `axis`, which is that of the channels; `axis` is None
where all coordinates stay.

    n.score = coord_map.crop(n.upscore, n.data)       # of a NetSpec
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

import numpy as np

from .net_spec import Function, Top
from .net_spec import layers as L

Number = Any  # int, float or an array of them
CoordMap = tuple[Union[int, None], Number, Number]

#: Types whose tops have the coordinates of their bottoms.
PASS_THROUGH_LAYERS = [
    "AbsVal", "BN", "BNLL", "BatchNorm", "Bias", "Clip", "Dropout", "ELU", "Eltwise", "Exp", "GELU",
    "GroupNorm", "HardSigmoid", "HardSwish", "InstanceNorm", "LRN", "Log", "MVN", "Mish", "Noise",
    "Normalize", "PReLU", "Power", "ReLU", "ReLU6", "Scale", "Sigmoid", "Softmax", "SpatialDropout",
    "Split", "Swish", "TanH", "Threshold",
]
_WINDOWS = ("Convolution", "ConvolutionDepthwise", "DeformableConvolution", "DepthwiseConvolution",
            "Im2col", "Pooling")


class UndefinedMapException(Exception):
    """A layer whose tops do not have coordinates of its bottoms."""


class AxisMismatchException(Exception):
    """Two layers whose spatial axes begin at different ones."""


class _CropError(AssertionError, ValueError):
    """Two blobs that a crop cannot align."""


def _settings(fn: Function, holder: str) -> Mapping[str, Any]:
    """The settings of a layer, whether they are keywords or in a dict."""
    settings: Mapping[str, Any] = fn.params.get(holder, fn.params)
    return settings


def _sizes(params: Mapping[str, Any], square: str, pair: str, default: int | None) -> Any:
    """A setting as an array: of its name, or of its two names with _h and _w."""
    height, width = params.get(pair + "_h"), params.get(pair + "_w")
    if height is None and width is None:
        if default is None and square not in params:
            raise UndefinedMapException(f"the layer has no {square}")
        return np.array(params.get(square, default), ndmin=1)
    missing = 0 if default is None else default
    return np.array([missing if value is None else value for value in (height, width)])


def conv_params(fn: Function) -> tuple[int, Any, Any, Any]:
    """(axis, stride, kernel size with dilation, pad) of a layer with windows."""
    params = _settings(fn, "pooling_param" if fn.type_name == "Pooling" else "convolution_param")
    if params.get("global_pooling"):
        raise UndefinedMapException("global pooling leaves no coordinates")
    kernel = _sizes(params, "kernel_size", "kernel", None)
    dilation = np.array(params.get("dilation", 1), ndmin=1)
    return (params.get("axis", 1), _sizes(params, "stride", "stride", 1),
            (kernel - 1) * dilation + 1, _sizes(params, "pad", "pad", 0))


def crop_params(fn: Function) -> tuple[int, Any]:
    """(axis, offset) of a Crop layer; the offset is an array."""
    params = _settings(fn, "crop_param")
    return params.get("axis", 2), np.array(params.get("offset", 0), ndmin=1)


def coord_map(fn: Function) -> CoordMap:
    """The map of a layer. UndefinedMapException if it has none, such as InnerProduct."""
    if fn.type_name in _WINDOWS:
        axis, stride, kernel, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (kernel - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, kernel, pad = conv_params(fn)
        return axis, stride, (kernel - 1) / 2 - pad
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset  # its axis is the first spatial one
    if fn.type_name in PASS_THROUGH_LAYERS:
        return None, 1, 0
    raise UndefinedMapException(f"coordinates do not pass through a layer of type {fn.type_name}")


def compose(base_map: CoordMap, next_map: CoordMap) -> CoordMap:
    """The map that is base_map behind next_map. AxisMismatchException if their axes differ."""
    axis, scale, offset = base_map
    next_axis, next_scale, next_offset = next_map
    if axis is not None and next_axis is not None and axis != next_axis:
        raise AxisMismatchException(f"coordinates begin at axis {axis} and at axis {next_axis}")
    return (next_axis if axis is None else axis, scale * next_scale, scale * next_offset + offset)


def inverse(coord_map: CoordMap) -> CoordMap:
    """The map in the other direction."""
    axis, scale, offset = coord_map
    return axis, 1 / scale, -offset / scale


def _maps_below(top: Top) -> Any:
    """Yields (blob, map from it to `top`) for all blobs that `top` is computed from, itself too."""
    seen = {top}
    waiting: list[tuple[Top, CoordMap]] = [(top, (None, 1, 0))]
    while waiting:
        blob, known = waiting.pop()
        yield blob, known
        # The second bottom of Crop gives nothing but a size.
        bottoms = blob.fn.inputs[:1] if blob.fn.type_name == "Crop" else blob.fn.inputs
        if not bottoms:
            continue
        try:
            step = coord_map(blob.fn)
        except UndefinedMapException:
            continue
        for bottom in bottoms:
            if bottom not in seen:
                seen.add(bottom)
                waiting.append((bottom, compose(known, step)))


def coord_map_from_to(top_from: Top, top_to: Top) -> CoordMap:
    """The map from one blob to another one, by way of a blob that both are computed from.

    RuntimeError if no spatial layers connect them.
    """
    below = dict(_maps_below(top_from))
    for blob, known in _maps_below(top_to):
        if blob in below:
            return compose(known, inverse(below[blob]))
    raise RuntimeError("there is no map between the blobs; are they connected by spatial layers?")


def crop(top_from: Top, top_to: Top) -> Top:
    """The Crop layer that cuts `top_from` to the size of `top_to`, with both aligned.

    AssertionError if the blobs have different scales, or the offset is negative or no whole number.
    """
    axis, scale, offset = coord_map_from_to(top_from, top_to)
    scale, offset = np.array(scale, ndmin=1), np.array(offset, ndmin=1)
    if not (scale == 1).all():
        raise _CropError(f"the blobs have different scales, of a factor {scale}")
    if not (offset <= 0).all():
        raise _CropError(f"the crop would begin at {-offset}, outside of the blob")
    if not (np.round(offset) == offset).all():
        raise _CropError(f"the crop would begin at {-offset}, between two elements")
    settings = {"axis": 2 if axis is None else axis + 1,
                "offset": [int(value) for value in -np.round(offset)]}
    made: Top = L.Crop(top_from, top_to, crop_param=settings)
    return made
