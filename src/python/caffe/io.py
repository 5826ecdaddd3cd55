"""Images and messages as arrays: loading, resizing, preprocessing, conversions.

Images are arrays of (height, width, channels), RGB or gray, of float32 in [0, 1] as load_image
gives them. Blobs are (N, channels, height, width).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np
from crema._crema import Blob

from .proto import caffe_pb2

Array = np.ndarray[Any, Any]


# Messages.

def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _add_floats(message: Any, name: str, values: Any) -> None:
    """Adds an array to a repeated float field, as bytes of the wire: one by one they take ten
    times as long."""
    if np.size(values):
        data = np.asarray(values, dtype="<f4").tobytes()
        tag = message.DESCRIPTOR.fields_by_name[name].number << 3 | 2
        message.MergeFromString(_varint(tag) + _varint(len(data)) + data)


def blobproto_to_array(blob: Any, return_diff: bool = False) -> Array:
    """The data of a BlobProto, or its diff, as float64 of its shape.

    A blob with the four sizes of old files has four axes. ValueError if the values do not fill the
    shape.
    """
    raw, kind = ((blob.raw_diff, blob.raw_diff_type) if return_diff
                 else (blob.raw_data, blob.raw_data_type))
    values = blob.diff if return_diff else blob.data
    if not len(values):
        values = blob.double_diff if return_diff else blob.double_data
    if not len(values) and raw:
        names = caffe_pb2.ValueType
        types = {names.DOUBLE: "<f8", names.FLOAT: "<f4", names.FLOAT16: "<f2", names.INT: "<i4",
                 names.UINT: "<u4", names.BOOL: "?"}
        array = np.frombuffer(raw, types[kind]).astype(np.float64)
    else:
        array = np.array(values, dtype=np.float64)
    if any(blob.HasField(name) for name in ("num", "channels", "height", "width")):
        shape: tuple[int, ...] = (blob.num, blob.channels, blob.height, blob.width)
    else:
        shape = tuple(blob.shape.dim)
    return array.reshape(shape)


def array_to_blobproto(arr: Any, diff: Any = None) -> Any:
    """A BlobProto with the values of an array, and those of `diff`, of the same shape."""
    arr = np.asarray(arr)
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    _add_floats(blob, "data", arr)
    if diff is not None:
        _add_floats(blob, "diff", diff)
    return blob


def arraylist_to_blobprotovector_str(arraylist: Iterable[Any]) -> bytes:
    """Arrays as a serialised BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend(array_to_blobproto(arr) for arr in arraylist)
    return bytes(vector.SerializeToString())


def blobprotovector_str_to_arraylist(serialised: bytes) -> list[Array]:
    """The arrays of a serialised BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector.FromString(serialised)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr: Any, label: int | None = None) -> Any:
    """A Datum with an array of (channels, height, width): bytes of uint8, else floats.

    ValueError for another number of axes.
    """
    arr = np.asarray(arr)
    if arr.ndim != 3:
        raise ValueError(f"a Datum has three axes, (channels, height, width); the array has shape "
                         f"{arr.shape}")
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        _add_floats(datum, "float_data", arr)
    if label is not None:
        datum.label = int(label)
    return datum


def datum_to_array(datum: Any) -> Array:
    """The array of a Datum, (channels, height, width): uint8 of bytes, float64 of floats.

    An encoded Datum, which holds a JPEG or PNG, is decoded, with its channels in the order BGR, as
    data layers decode it. The label is datum.label.
    """
    if datum.encoded:
        import io

        with _pillow().open(io.BytesIO(datum.data)) as image:
            if image.mode in ("1", "L"):
                return np.array(image.convert("L"))[np.newaxis]
            pixels = np.array(image.convert("RGB"))
            return np.ascontiguousarray(pixels[:, :, ::-1].transpose(2, 0, 1))
    shape = (datum.channels, datum.height, datum.width)
    if len(datum.data):
        return np.frombuffer(datum.data, np.uint8).reshape(shape).copy()
    return np.array(datum.float_data, dtype=np.float64).reshape(shape)


# Images.

def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images are read by Pillow; install it: pip install pillow") from error
    return Image


# Luma of linear RGB, as skimage weights it.
_LUMA = np.array([0.2125, 0.7154, 0.0721])


def load_image(filename: str | os.PathLike[str] | IO[bytes], color: bool = True) -> Array:
    """An image as float32 in [0, 1], of (height, width, 3) in RGB, or of (height, width, 1).

    filename: of any format that Pillow reads, or an open file.
    color: False for gray. A gray file becomes three equal channels otherwise. Transparency is left
        out. 16 bits a channel are scaled to [0, 1] too; floats stay as they are.
    """
    with _pillow().open(filename) as image:
        mode = image.mode
        if mode.startswith("I"):  # one channel of 16 bits
            values = np.array(image).astype(np.float64) / 65535
        elif mode == "F":
            values = np.array(image).astype(np.float64)
        elif mode in ("1", "L", "LA", "La"):
            values = np.array(image.convert("L")) / 255.0
        else:
            values = np.array(image.convert("RGB")) / 255.0
    if values.ndim == 2:
        values = values[:, :, np.newaxis]
        if color:
            values = np.repeat(values, 3, axis=2)
    elif not color:
        values = (values @ _LUMA)[:, :, np.newaxis]
    return values.astype(np.float32)


def _linear(values: Array, axis: int, size: int, outside: float | None) -> Array:
    """Linear interpolation along an axis. outside: the value beyond the ends.

    With `outside`, samples lie in the middles of equal parts of the axis. None: the first and the
    last sample stay at the ends.
    """
    old = values.shape[axis]
    if outside is None:
        at = np.arange(size) * ((old - 1) / (size - 1) if size > 1 else 0.0)
        ends = values.take([old - 1], axis)
        padded, shift = np.concatenate([values, ends], axis), 0
    else:
        at = (np.arange(size) + 0.5) * (old / size) - 0.5
        end = np.full_like(values.take([0], axis), outside)
        padded, shift = np.concatenate([end, values, end], axis), 1
    below = np.floor(at).astype(np.intp)
    shape = [1] * values.ndim
    shape[axis] = size
    share = (at - below).reshape(shape)
    made: Array = (padded.take(below + shift, axis) * (1 - share)
                   + padded.take(below + shift + 1, axis) * share)
    return made


def _near(values: Array, axis: int, size: int, ends: bool) -> Array:
    """The nearest samples along an axis."""
    old = values.shape[axis]
    if ends:
        at = np.arange(size) * ((old - 1) / (size - 1) if size > 1 else 0.0)
    else:
        at = (np.arange(size) + 0.5) * (old / size) - 0.5
    return values.take(np.clip(np.floor(at + 0.5).astype(np.intp), 0, old - 1), axis)


def _spline(values: Array, size: tuple[int, int], order: int) -> Array:
    try:
        from skimage.transform import resize  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError(f"interp_order {order} needs skimage: pip install scikit-image; 0 and 1 "
                          "do without") from error
    made: Array = resize(values, size, order=order, mode="constant", cval=float(values.min()),
                         preserve_range=True, anti_aliasing=False).astype(np.float32)
    return made


def resize_image(im: Any, new_dims: Sequence[int] | Array, interp_order: int = 1) -> Array:
    """An image of (height, width, channels) at another size, as float32.

    new_dims: (height, width) in pixels. interp_order: 1 interpolates linearly between the nearest
    four pixels, without averaging where the image shrinks; 0 takes the nearest pixel; 2 to 5 are
        splines, for which skimage has to be installed.

    These are the numbers of pycaffe, that is of skimage's resize without anti-aliasing, for images
    of one or three channels: pixels are squares, and beyond the border lies the least value of the
    image, which enlarged borders blend with. For other numbers of channels they are those of
    scipy's zoom: the corners' middles stay in place.
    """
    im = np.asarray(im)
    if im.ndim not in (2, 3):
        raise ValueError(f"an image is (height, width, channels), not {im.shape}")
    rows, columns = int(new_dims[0]), int(new_dims[1])
    if rows < 1 or columns < 1 or im.size == 0:
        raise ValueError(f"cannot resize an image of {im.shape} to {rows} x {columns}")
    if interp_order not in range(6):
        raise ValueError(f"interp_order {interp_order} is not 0 to 5")
    values: Array = im.astype(np.float64)
    by_squares = im.ndim == 2 or im.shape[2] in (1, 3)
    if interp_order > 1:
        return _spline(values, (rows, columns), interp_order)
    for axis, size in enumerate((rows, columns)):
        if interp_order == 0:
            values = _near(values, axis, size, ends=not by_squares)
        else:
            values = _linear(values, axis, size, float(im.min()) if by_squares else None)
    made: Array = values.astype(np.float32)
    return made


def flip_image(im: Any, scale: float = 128, is_flow: bool = False) -> Array:
    """An image of (height, width, channels), mirrored: a copy.

    is_flow: channel 0 is the horizontal part of a flow, which turns round: `scale` minus it.
    """
    made = np.array(np.asarray(im)[:, ::-1])
    if is_flow:
        made[:, :, 0] = scale - made[:, :, 0]
    return made


def oversample(images: Iterable[Any], crop_dims: Sequence[int] | Array,
               flow: bool = False) -> Array:
    """Ten crops of each image: the four corners and the centre, then the same mirrored.

    images: of (height, width, channels), all of one size. crop_dims: (height, width).
    flow: the images are flows in [0, 1], so channel 0 of what is mirrored is 1 minus it.
    Returns float32 of (10 * N, height, width, channels), in the order top left, top right, bottom
    left, bottom right, centre.
    """
    arrays = [np.asarray(image) for image in images]
    rows, columns = (int(size) for size in crop_dims)
    if not arrays:
        raise ValueError("there are no images")
    height, width = arrays[0].shape[:2]
    if rows > height or columns > width:
        raise ValueError(f"crops of {rows} x {columns} do not fit into images of "
                         f"{height} x {width}")
    starts = [(y, x) for y in (0, height - rows) for x in (0, width - columns)]
    starts.append(((height - rows) // 2, (width - columns) // 2))
    crops = np.empty((10 * len(arrays), rows, columns, arrays[0].shape[2]), np.float32)
    for index, image in enumerate(arrays):
        ten = crops[10 * index:10 * index + 10]
        for place, (y, x) in enumerate(starts):
            ten[place] = image[y:y + rows, x:x + columns]
        ten[5:] = ten[:5, :, ::-1]
        if flow:
            ten[5:, :, :, 0] = 1 - ten[5:, :, :, 0]
    return crops


class Transformer:
    """Makes arrays for a net's inputs of images, and back.

        transformer = caffe.io.Transformer({'data': net.blobs['data'].data.shape})
        transformer.set_transpose('data', (2, 0, 1))      # channels first
        transformer.set_channel_swap('data', (2, 1, 0))   # RGB to BGR
        transformer.set_raw_scale('data', 255)            # [0, 1] to [0, 255]
        transformer.set_mean('data', mean)
        net.blobs['data'].data[...] = transformer.preprocess('data', image)

    inputs: the shape of each input, with the batch's axis in front.
    The steps are taken in this order: resize, transpose, channel swap, raw scale, mean, input
    scale. Those that are not set are left out.
    """

    def __init__(self, inputs: Mapping[str, Sequence[int]]):
        for name, shape in inputs.items():
            if isinstance(shape, Blob):
                raise TypeError(f"{name!r} is a blob; give its shape: net.blobs[{name!r}].shape")
        self.inputs = {name: tuple(int(size) for size in shape) for name, shape in inputs.items()}
        self.transpose: dict[str, tuple[int, ...]] = {}
        self.channel_swap: dict[str, tuple[int, ...]] = {}
        self.raw_scale: dict[str, float] = {}
        self.mean: dict[str, Array] = {}
        self.input_scale: dict[str, float] = {}
        self.is_flow: dict[str, bool] = {}

    def _check(self, in_: str) -> None:
        if in_ not in self.inputs:
            raise ValueError(f"{in_!r} is not one of the net inputs: {', '.join(self.inputs)}")

    def preprocess(self, in_: str, data: Any) -> Array:
        """A sample for input `in_`, of the input's shape without the batch's axis: float32.

        data: an image of (height, width, channels) of any size, or what set_transpose says. It is
        left as it is.
        """
        self._check(in_)
        sizes = self.inputs[in_][2:]
        made = np.asarray(data).astype(np.float32)
        if len(sizes) == 2 and made.shape[:2] != sizes:
            made = resize_image(made, sizes)
        if in_ in self.transpose:
            made = made.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            made = made[list(self.channel_swap[in_])]
        made = np.ascontiguousarray(made)
        if in_ in self.raw_scale:
            made *= self.raw_scale[in_]
        if in_ in self.mean:
            made -= self.mean[in_]
        if in_ in self.input_scale:
            made *= self.input_scale[in_]
        return made

    def deprocess(self, in_: str, data: Any) -> Array:
        """The image of a sample of input `in_`: the steps of preprocess backwards, without resize.

        data: of the input's shape, with the batch's axis if it is 1, or without it.
        """
        self._check(in_)
        made = np.array(data)
        if made.dtype.kind != "f":
            made = made.astype(np.float32)
        while made.ndim > len(self.inputs[in_]) - 1 and made.shape[0] == 1:
            made = made[0]
        if in_ in self.input_scale:
            made /= self.input_scale[in_]
        if in_ in self.mean:
            made += self.mean[in_]
        if in_ in self.raw_scale:
            made /= self.raw_scale[in_]
        if in_ in self.channel_swap:
            made = made[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            made = made.transpose(np.argsort(self.transpose[in_]))
        return made

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """The order of an image's axes in the sample: (2, 0, 1) puts channels in front."""
        self._check(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise ValueError(f"the order {tuple(order)} does not have the "
                             f"{len(self.inputs[in_]) - 1} axes of a sample of {in_!r}")
        self.transpose[in_] = tuple(order)

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """The order of channels: (2, 1, 0) makes BGR of RGB."""
        self._check(in_)
        if len(order) != self.inputs[in_][1]:
            raise ValueError(f"the order {tuple(order)} does not have the {self.inputs[in_][1]} "
                             f"channels of {in_!r}")
        self.channel_swap[in_] = tuple(order)

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """The factor before the mean is subtracted: 255 for nets that learned from 0 to 255."""
        self._check(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_: str, mean: Any) -> None:
        """What is subtracted: one value a channel, or a mean image of (channels, height, width).

        A mean image of another size is resized. ValueError for another number of channels.
        """
        self._check(in_)
        mean = np.asarray(mean)
        shape = self.inputs[in_]
        if mean.ndim not in (1, 2, 3):
            raise ValueError(f"the mean of {in_!r} is one value a channel or a mean image, not an "
                             f"array of {mean.shape}")
        channels = mean.shape[0] if mean.ndim != 2 else 1
        if channels != shape[1]:
            raise ValueError(f"the mean has {channels} channels, and {in_!r} has {shape[1]}")
        if mean.ndim == 1:
            mean = mean[:, np.newaxis, np.newaxis]
        elif mean.shape[-2:] != shape[2:]:
            mean = mean.reshape(channels, *mean.shape[-2:])
            mean = resize_image(mean.transpose(1, 2, 0), shape[2:]).transpose(2, 0, 1)
        self.mean[in_] = mean

    def set_input_scale(self, in_: str, scale: float) -> None:
        """The factor behind the mean, such as 1 / 255 or 0.017."""
        self._check(in_)
        self.input_scale[in_] = scale

    def set_is_flow(self, in_: str, is_flow: bool) -> None:
        """Notes in `is_flow` that an input is a flow, for scripts that look there."""
        self._check(in_)
        self.is_flow[in_] = is_flow
