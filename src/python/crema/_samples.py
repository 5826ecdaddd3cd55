"""What becomes of the items that feed is given: samples of one type, together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _crema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MORE = _crema.FeedAnswer.more
_RESTART = _crema.FeedAnswer.restart

# The largest integer up to which float32 has all.
_MOST = 1 << 24


class Refused(Exception):
    """What is wrong with an item. It becomes a crema.Error that names the layer."""


class Closed(Exception):
    """The feed takes no more."""


class Restart(Exception):
    """The net goes on at another position."""


class Batch:
    """Images and labels of several samples."""

    def __init__(self, images: Any, labels: Any):
        self.images = images
        self.labels = labels


class Samples:
    """Checks items, and gives their samples to the feed, those of one type together."""

    def __init__(self, core: _crema.Feed, layer: str, axes: str | None, bgr: bool):
        import numpy as np

        self._array = np.ndarray
        self._number_types = frozenset((int, float, np.uint8, np.int32, np.int64, np.float32,
                                        np.float64))
        self.core = core
        self.layer = layer
        self.record: tuple[int, int, int] = core.record
        self.batch_size = core.batch_size
        self.axes = axes
        self.bgr = bgr
        # Single samples that wait for others: the first `count` of `rows` and `labels`. All are of
        # one kind and shape.
        self.count = 0
        self.rows: Any = None
        self.labels: Array = np.empty(self.batch_size, np.float64)
        self.kind = ""
        self.shape: tuple[int, ...] = ()
        #: That of arrays of numpy which are of this kind if they have this shape.
        self.dtype: Any = None

    def forget(self) -> None:
        self.count = 0

    def add(self, item: Any) -> None:
        """One item of the iterable."""
        if type(item) is tuple and len(item) == 2:
            # Most samples are like the one before, and cost little.
            image, label = item
            if (type(image) is self._array and type(label) in self._number_types
                    and image.dtype is self.dtype and image.shape == self.shape
                    and -_MOST <= label <= _MOST):
                self._add_row(image, label)
                return
        images, labels = self._parts(item)
        if labels is None:
            self._add_unlabelled(images)
        elif _is_scalar(labels):
            self._add_one(images, float(self._numbers([labels], labels)[0]))
        else:
            self._add_batch(images, labels)

    def flush(self) -> None:
        """Gives what waits."""
        if self.count:
            count, self.count = self.count, 0
            self._give_rows(self.kind, self.rows[:count], self.labels[:count])

    def _give_rows(self, kind: str, rows: Array, labels: Array) -> None:
        """Images of one kind and shape, in an array without gaps."""
        import numpy as np

        if kind == "float":
            samples = rows.reshape(len(rows), *self.record)
            self._give(lambda: self.core.give(samples, labels))
            return
        if rows.ndim < 4:  # rows of values, or images of one channel without its axis
            rows = rows.reshape(len(rows), *self.record) if rows.ndim == 2 else rows[..., None]
        if self.bgr and rows.shape[3 if kind == "HWC" else 1] == 3:
            rows = np.ascontiguousarray(rows[..., ::-1] if kind == "HWC" else rows[:, ::-1])
        self._give(lambda: self.core.give_images(rows, labels, hwc=kind == "HWC"))

    @staticmethod
    def _give(give: Callable[[], _crema.FeedAnswer]) -> None:
        try:
            answer = give()
        except _crema.Error as error:
            raise Refused(str(error)) from None
        if answer != _MORE:
            raise Restart if answer == _RESTART else Closed

    def end_epoch(self, drop_rest: bool) -> None:
        self.flush()
        self._give(lambda: self.core.end_epoch(drop_rest))

    def _parts(self, item: Any) -> tuple[Any, Any]:
        """(images, labels) of an item; labels None if it has none."""
        if isinstance(item, Batch):
            return item.images, item.labels
        if isinstance(item, (tuple, list)) and len(item) == 2:
            if item[1] is None:
                raise Refused("its label is None; give a number")
            return item[0], item[1]
        if isinstance(item, (tuple, list)) and len(item) == 1 and not self.core.has_labels:
            return item[0], None
        if isinstance(item, dict):
            keys = ", ".join(map(repr, item))
            raise Refused(f"it is a dict with {keys}, and no pair (image, label); give for example "
                           "lambda: ((d['image'], d['label']) for d in data)")
        if self.core.has_labels or isinstance(item, (tuple, list, str, bytes)):
            size = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise Refused(f"it is a {type(item).__name__}{size}, and no pair (image, label)")
        return item, None

    def _add_unlabelled(self, images: Any) -> None:
        import numpy as np

        if isinstance(images, list):
            count = len(images)
        else:
            images = array_of(images)
            count = len(images) if images.ndim == 4 else 0
        if count:
            self._add_batch(images, np.zeros(count))
        else:
            self._add_one(images, 0.0)

    def _add_row(self, image: Array, label: Any) -> None:
        """A sample. It is copied: iterables may write the next one to the same memory."""
        count = self.count
        self.rows[count] = image
        self.labels[count] = label
        self.count = count = count + 1
        if count >= self.batch_size:
            self.flush()

    def _add_one(self, image: Any, label: float) -> None:
        kind, array = self._image(image)
        if kind != self.kind or array.shape != self.shape:
            import numpy as np

            self.flush()
            self.kind, self.shape = kind, array.shape
            self.rows = np.empty((self.batch_size, *array.shape),
                                 np.float32 if kind == "float" else np.uint8)
        self.dtype = array.dtype if type(image) is self._array else None
        self._add_row(array, label)

    def _add_batch(self, images: Any, labels: Any) -> None:
        import numpy as np

        numbers = self._numbers(labels)
        if isinstance(images, (list, tuple)):
            if len(images) != len(numbers):
                raise Refused(f"it has {len(images)} images and {len(numbers)} labels")
            for image, label in zip(images, numbers.tolist()):
                self._add_one(image, label)
            return
        array = array_of(images)
        if len(numbers) == 1 and array.ndim < 4 and self._fits(array):
            array = array[None]  # an image with its label in a list
        if array.ndim == 0 or len(array) != len(numbers):
            raise Refused(f"it has images of {array.shape} and {len(numbers)} labels; the first "
                           "axis of a batch counts its samples")
        if len(numbers) == 0:
            return
        if array.dtype == np.uint8:
            kind = self._kind(array[0], is_torch(images))
        elif self._fits(array[0]):
            kind = "float"
        else:
            raise Refused(self._misfit(array[0], "images.transpose(0, 3, 1, 2)"))
        self.flush()
        rows = np.ascontiguousarray(array, np.float32 if kind == "float" else np.uint8)
        self._give_rows(kind, rows, numbers)

    # Images.

    def _image(self, image: Any) -> tuple[str, Array]:
        """(kind, array): floats of a shape that fits a record, or an image of bytes."""
        of_torch = False
        if type(image) is self._array:
            array = image
        elif hasattr(image, "getbands"):  # of PIL
            array = self._pixels(image)
        else:
            array, of_torch = array_of(image), is_torch(image)
        if array.dtype.char == "B":
            return self._kind(array, of_torch), array
        if array.dtype.kind not in "biuf":
            raise Refused(f"its image is of {array.dtype}, which are no numbers")
        if not self._fits(array):
            raise Refused(self._misfit(array))
        return "float", array

    def _pixels(self, image: Any) -> Array:
        """Those of a PIL image, in the colours that the layer takes."""
        import numpy as np

        channels = self.record[0]
        mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(channels)
        if mode is not None and image.mode != mode:
            image = image.convert(mode)
        return np.asarray(image)

    def _kind(self, array: Array, torch: bool) -> str:
        """The order of the axes of an image of uint8."""
        channels = self.record[0]
        if array.ndim == 2:
            return "HWC"
        if array.ndim == 1 and self._fits(array):
            return "CHW"
        if array.ndim != 3 or array.size == 0:
            raise Refused(f"its image of uint8 has the shape {array.shape}; give (H, W, C), "
                           "(C, H, W) or (H, W)")
        if self.axes is not None:
            return self.axes
        if (array.shape[0] == channels) != (array.shape[2] == channels):
            return "CHW" if array.shape[0] == channels else "HWC"
        return "CHW" if torch else "HWC"

    def _fits(self, array: Array) -> bool:
        """Whether it has the shape of a record, that without one channel, or its values in a row."""
        if array.shape == self.record:
            return True
        channels, height, width = self.record
        return (array.shape == (height, width) and channels == 1
                or array.shape == (channels * height * width,))

    def _misfit(self, array: Array, turned: str = "image.transpose(2, 0, 1)") -> str:
        advice = ""
        if array.ndim == 3 and array.shape == (*self.record[1:], self.record[0]):
            advice = f"; floats have the axes (C, H, W): give {turned}"
        return (f"its image has the shape {array.shape} of {array.dtype}, and layer "
                f"{self.layer!r} takes {self.record} (channels, height, width of "
                f"memory_data_param){advice}")

    # Labels.

    def _numbers(self, labels: Any, shown: Any = None) -> Array:
        """Labels as doubles."""
        import numpy as np

        array = np.asarray(labels) if isinstance(labels, (list, tuple)) else array_of(labels)
        shown = labels if shown is None else shown
        if array.dtype.kind not in "biuf":
            raise Refused(f"its label is {shown!r}, and no number; number the classes from 0, such "
                          "as by {'cat': 0, 'dog': 1}[label]")
        if array.ndim == 0 or array.size != array.shape[0]:
            raise Refused(f"its labels have the shape {array.shape}; give one number a sample")
        numbers = array.reshape(-1).astype(np.float64)
        if not np.isfinite(numbers).all():
            raise Refused(f"its label is {shown!r}, which is not finite")
        if array.dtype.kind in "iu" and (numbers.astype(np.float32) != array.reshape(-1)).any():
            raise Refused(f"its label {shown!r} is no integer of float32, the type of the net; "
                           "number the classes from 0")
        return numbers


def is_torch(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy")


def array_of(value: Any) -> Array:
    """An array of numpy, of what may be a tensor on a device."""
    import numpy as np

    if is_torch(value):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    elif hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray) and (
            hasattr(value, "get")):
        value = value.get()  # of CuPy
    array: Array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        what = repr(value)
        raise Refused(f"{what if len(what) < 80 else type(value).__name__} is no array of numbers")
    return array


def _is_scalar(label: Any) -> bool:
    if isinstance(label, (list, tuple)):
        return False
    shape = getattr(label, "shape", None)
    return shape is None or len(shape) == 0
