"""feed: samples from Python for a layer of type MemoryData, made in a thread of their own."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Union

from . import _crema
from ._net import Net
from ._solver import Solver

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: What gives the samples of an epoch: an iterable, or a callable that makes one.
Data = Union[Iterable[Any], Callable[..., Iterable[Any]]]

_MORE = _crema.FeedAnswer.more
_RESTART = _crema.FeedAnswer.restart

# Seconds that the end of the process waits for a thread that is inside an iterable.
_PATIENCE = 2.0
# The threads that run, which outlive a Feed that is not kept.
_threads: weakref.WeakKeyDictionary[threading.Thread, _crema.Feed] = weakref.WeakKeyDictionary()


class Feed:
    """Samples that a thread gives a layer of type MemoryData; what crema.feed returns.

    It works whether or not it is kept, and ends with its net, with the process, when the layer gets
    other data, or by close(). As a context manager it closes itself.
    """

    def __init__(self, core: _crema.Feed, layer: str, source: _Source, samples: _Samples,
                 drop_rest: bool):
        #: The name of the layer.
        self.layer = layer
        self._core = core
        self._thread = threading.Thread(
            target=_produce, name=f"crema.feed of layer {layer!r}", daemon=True,
            args=(core, source, samples, drop_rest))
        _threads[self._thread] = core
        self._thread.start()

    @property
    def active(self) -> bool:
        """Whether the thread still gives samples."""
        return self._thread.is_alive()

    def close(self, timeout: float | None = _PATIENCE) -> None:
        """Ends the feed, and waits so many seconds for the iterable to give its next item."""
        self._core.close()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "active" if self.active else "ended"
        return f"<crema.Feed of layer {self.layer!r}, {state}>"


def feed(target: Net | Solver, data: Data, labels: Any = None, *, layer: str | None = None,
         shuffle: bool = False, seed: int = 0, last_batch: Literal["fill", "drop"] = "fill",
         axes: Literal["HWC", "CHW"] | None = None, bgr: bool = False, prefetch: int = 3) -> Feed:
    """Feeds a layer of type MemoryData from Python, batch by batch, while the net runs.

        solver = crema.Solver('solver.prototxt')        # its net begins with a MemoryData layer
        crema.feed(solver, images, labels, shuffle=True)                # arrays
        crema.feed(solver, torch.utils.data.DataLoader(dataset, 64))    # any iterable
        crema.feed(solver, lambda: ((PIL.Image.open(f), label(f)) for f in files))
        crema.feed(solver.test_nets[0], test_images, test_labels)
        solver.solve()

    target: a net, or a solver, which stands for the net that it trains.
    data: arrays with `labels`; or an iterable of items (image, label); or a callable that returns
        one. An item may be a batch too: (images, labels), as a torch DataLoader gives them. Items
        of nets that have no top for labels may be images alone.
    labels: the labels of arrays, N numbers.
    layer: the name of the layer, if the net has several of type MemoryData.
    shuffle, seed: for arrays; the order of each epoch is a function of seed and epoch.
    last_batch: what becomes of samples at the end of an epoch that are fewer than a batch. "fill":
        the first ones of the next epoch complete it. "drop": they are left out.
    axes: the order of the axes of images of uint8, for those that could be either; by default CHW
        for tensors of torch, and else HWC.
    bgr: turns images of uint8 with three channels from RGB to BGR, as published weights want them.
    prefetch: batches that are made in advance.

    Images. Those of uint8, (H, W, C), (C, H, W) or (H, W), and PIL images go through the layer's
    transform_param: crop, mirror, mean, scale. All others are converted to float32 and go in as
    they are; they have the shape (C, H, W) of memory_data_param. Labels are single numbers.

    Epochs. The thread iterates over `data` again and again; epochs may differ in size. A generator
    or another iterator gives one epoch: when it has ended and its batches are used up, the next
    pass raises an Error. A callable gives each epoch its own iterable; if it takes arguments, they
    are the number of the epoch, and that of the sample to begin with.

    Snapshots have the epoch and the number of samples in it. After restore(), arrays go on at that
    sample, and a callable of two arguments is given both. Other callables and iterables begin an
    epoch anew, and iterators go on as they come: their position is yours. Call feed before restore.

    The iterable runs in the thread, and takes the GIL only while it runs Python code; it must not
    use the net that it feeds. Its exceptions come out of the pass that would have used the sample,
    with their traceback. Ctrl-C stops a solver as usual, or, if it has waited for data for more
    than a second, ends the pass.

    Returns the Feed. Raises Error if the net has no such layer.
    """
    net = target.net if isinstance(target, Solver) else target
    if not isinstance(net, Net):
        raise TypeError(f"feed takes a net or a solver first, not {type(target).__name__}")
    if last_batch not in ("fill", "drop"):
        raise _crema.Error(f"last_batch={last_batch!r} is neither 'fill' nor 'drop'")
    if axes not in (None, "HWC", "CHW"):
        raise _crema.Error(f"axes={axes!r} is neither 'HWC' nor 'CHW'")
    name = net._memory_layer(layer)
    try:
        source = _source_of(data, labels, shuffle, seed)
    except _Refused as error:
        raise _crema.Error(str(error)) from None
    core = _crema.Feed(net._core, name, depth=prefetch, restarts=source.restarts)
    if labels is None and isinstance(source, _Arrays) and core.has_labels:
        core.close()
        raise _crema.Error(f"layer {name!r} has a top for labels, and no labels were given; call "
                           "crema.feed(net, images, labels)")
    source.batch_size = core.batch_size
    return Feed(core, name, source, _Samples(core, name, axes, bgr), last_batch == "drop")


# What gives items, epoch by epoch.


class _Source:
    """Gives the items of an epoch."""

    #: Whether it can begin at another position than where it is.
    restarts = True
    #: Of the layer.
    batch_size = 1

    def epoch(self, number: int, first: int) -> Iterator[Any]:
        """The items of an epoch; from sample `first` on, where it can."""
        raise NotImplementedError


class _Arrays(_Source):
    """Slices of arrays, of the size of a batch."""

    def __init__(self, images: Any, labels: Any, shuffle: bool, seed: int):
        self.images = _array_of(images) if hasattr(images, "shape") else list(images)
        self.labels = None if labels is None else _array_of(labels)
        self.shuffle, self.seed = shuffle, seed
        count = len(self.images)
        if count == 0:
            raise _crema.Error("the arrays to feed have no samples")
        if self.labels is not None and self.labels.shape not in ((count,), (count, 1)):
            raise _crema.Error(f"there are {count} images and labels of {self.labels.shape}; give "
                               "one number an image")

    def epoch(self, number: int, first: int) -> Iterator[Any]:
        import numpy as np

        count = len(self.images)
        order = None
        if self.shuffle:
            order = np.random.default_rng([self.seed, number]).permutation(count)
        for begin in range(first, count, self.batch_size):
            some: Any = slice(begin, begin + self.batch_size)
            if order is not None:
                some = order[some]
            images: Any
            if isinstance(self.images, list):
                images = ([self.images[i] for i in some] if order is not None
                          else self.images[some])
            else:
                images = self.images[some]
            labels = np.zeros(len(images)) if self.labels is None else self.labels[some]
            yield _Batch(images, labels)


class _Again(_Source):
    """An iterable that begins anew each time, or a sequence without an iterator."""

    def __init__(self, data: Any):
        self.data = data

    def epoch(self, number: int, first: int) -> Iterator[Any]:
        if hasattr(self.data, "__iter__"):
            return iter(self.data)
        return (self.data[index] for index in range(len(self.data)))


class _Made(_Source):
    """What a callable makes for each epoch."""

    def __init__(self, make: Callable[..., object]):
        self.make = make
        self.wants = _positional(make)

    def epoch(self, number: int, first: int) -> Iterator[Any]:
        made = self.make(*(number, first)[:self.wants])
        if not isinstance(made, Iterable):
            raise _Refused(f"the callable returned {type(made).__name__}, and not an iterable of "
                           "(image, label)")
        return iter(made)


class _Once(_Source):
    """An iterator: one epoch."""

    restarts = False

    def __init__(self, items: Iterator[Any]):
        self.items = items
        self.begun = False

    def epoch(self, number: int, first: int) -> Iterator[Any]:
        if self.begun:
            raise _Refused(
                f"its data have ended: a {type(self.items).__name__} can be iterated over only "
                "once; give a list, or a callable that makes a new iterable for each epoch")
        self.begun = True
        return self.items


class _Batch:
    """Images and labels of several samples."""

    def __init__(self, images: Any, labels: Any):
        self.images = images
        self.labels = labels


def _positional(call: Callable[..., Any]) -> int:
    """How many of (epoch, sample) the callable takes."""
    import inspect

    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # of C, without a signature
        return 0
    needed = [p for p in parameters if p.default is p.empty
              and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) > 2:
        raise _crema.Error(f"{call!r} takes {len(needed)} arguments; a callable that makes the "
                           "iterable of an epoch takes none, (epoch), or (epoch, sample)")
    return len(needed)


def _source_of(data: Any, labels: Any, shuffle: bool, seed: int) -> _Source:
    is_array = hasattr(data, "__array_interface__") and hasattr(data, "shape")
    if labels is not None or is_array or _is_torch(data):
        return _Arrays(data, labels, shuffle, seed)
    if shuffle:
        raise _crema.Error("shuffle=True is for arrays: feed(net, images, labels, shuffle=True); "
                           "other data give the order themselves")
    if isinstance(data, Iterator):
        return _Once(data)
    if hasattr(data, "__iter__") or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        return _Again(data)
    if callable(data):
        return _Made(data)
    raise _crema.Error(f"{type(data).__name__} cannot be fed; give arrays and labels, an iterable "
                       "of (image, label), or a callable that makes one")


# What becomes of items.

# The largest integer up to which float32 has all.
_MOST = 1 << 24


class _Refused(Exception):
    """What is wrong with an item. It becomes a crema.Error that names the layer."""


class _Closed(Exception):
    """The feed takes no more."""


class _Restart(Exception):
    """The net goes on at another position."""


class _Samples:
    """Checks items, and gives their samples to the feed, those of one type together."""

    def __init__(self, core: _crema.Feed, layer: str, axes: str | None, bgr: bool):
        import numpy as np

        self._array = np.ndarray
        self._number = (int, float, np.integer, np.floating)
        self._empty = np.empty
        self.core = core
        self.layer = layer
        self.record: tuple[int, int, int] = core.record
        self.batch_size = core.batch_size
        self.axes = axes
        self.bgr = bgr
        # Single samples that wait for others: images of uint8 in one order of axes, or floats, the
        # first rows of an array (batch_size, C, H, W). As many as labels.
        self.images: list[Array] = []
        self.floats: Any = None
        self.labels: list[float] = []
        self.kind = ""

    def forget(self) -> None:
        self.images, self.labels, self.floats = [], [], None

    def add(self, item: Any) -> None:
        """One item of the iterable."""
        images, labels = self._parts(item)
        if isinstance(labels, self._number) and -_MOST <= labels <= _MOST:
            self._add_one(images, float(labels))
        elif labels is None:
            self._add_unlabelled(images)
        elif _is_scalar(labels):
            self._add_one(images, float(self._numbers([labels], labels)[0]))
        else:
            self._add_batch(images, labels)

    def flush(self) -> None:
        """Gives what waits."""
        import numpy as np

        if not self.labels:
            return
        images, floats, labels = self.images, self.floats, np.array(self.labels, np.float64)
        self.forget()
        if self.kind == "float":
            self._give(lambda: self.core.give(floats[:len(labels)], labels))
        else:
            hwc = self.kind == "HWC"
            self._give(lambda: self.core.give_images(images, labels, hwc=hwc))

    @staticmethod
    def _give(give: Callable[[], _crema.FeedAnswer]) -> None:
        try:
            answer = give()
        except _crema.Error as error:
            raise _Refused(str(error)) from None
        if answer != _MORE:
            raise _Restart if answer == _RESTART else _Closed

    def end_epoch(self, drop_rest: bool) -> None:
        self.flush()
        self._give(lambda: self.core.end_epoch(drop_rest))

    def _parts(self, item: Any) -> tuple[Any, Any]:
        """(images, labels) of an item; labels None if it has none."""
        if isinstance(item, _Batch):
            return item.images, item.labels
        if isinstance(item, (tuple, list)) and len(item) == 2:
            if item[1] is None:
                raise _Refused("its label is None; give a number")
            return item[0], item[1]
        if isinstance(item, (tuple, list)) and len(item) == 1 and not self.core.has_labels:
            return item[0], None
        if isinstance(item, dict):
            keys = ", ".join(map(repr, item))
            raise _Refused(f"it is a dict with {keys}, and no pair (image, label); give for example "
                           "lambda: ((d['image'], d['label']) for d in data)")
        if self.core.has_labels or isinstance(item, (tuple, list, str, bytes)):
            size = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise _Refused(f"it is a {type(item).__name__}{size}, and no pair (image, label)")
        return item, None

    def _add_unlabelled(self, images: Any) -> None:
        import numpy as np

        if isinstance(images, list):
            count = len(images)
        else:
            images = _array_of(images)
            count = len(images) if images.ndim == 4 else 0
        if count:
            self._add_batch(images, np.zeros(count))
        else:
            self._add_one(images, 0.0)

    def _add_one(self, image: Any, label: float) -> None:
        """A sample. It is copied: iterables may write the next one to the same memory."""
        kind, array = self._image(image)
        if kind != self.kind:
            self.flush()
            self.kind = kind
        if kind == "float":
            if self.floats is None:
                self.floats = self._empty((self.batch_size, *self.record), "float32")
            self.floats[len(self.labels)] = array
        else:
            self.images.append(array.copy())
        self.labels.append(label)
        if len(self.labels) >= self.batch_size:
            self.flush()

    def _add_batch(self, images: Any, labels: Any) -> None:
        import numpy as np

        numbers = self._numbers(labels)
        if isinstance(images, (list, tuple)):
            if len(images) != len(numbers):
                raise _Refused(f"it has {len(images)} images and {len(numbers)} labels")
            for image, label in zip(images, numbers.tolist()):
                self._add_one(image, label)
            return
        array = _array_of(images)
        if len(numbers) == 1 and array.ndim < 4 and self._fits(array):
            array = array[None]  # an image with its label in a list
        if array.ndim == 0 or len(array) != len(numbers):
            raise _Refused(f"it has images of {array.shape} and {len(numbers)} labels; the first "
                           "axis of a batch counts its samples")
        if len(numbers) == 0:
            return
        if array.dtype == np.uint8:
            for one, label in zip(images if _is_torch(images) else array, numbers.tolist()):
                self._add_one(one, label)
            return
        if not self._fits(array[0]):
            raise _Refused(self._misfit(array[0]))
        self.flush()
        floats = np.ascontiguousarray(array, np.float32).reshape(len(array), *self.record)
        self._give(lambda: self.core.give(floats, numbers))

    # Images.

    def _image(self, image: Any) -> tuple[str, Array]:
        """(kind, array): floats of the shape of a record, or pixels of three axes."""
        if type(image) is self._array:
            array = image
        elif hasattr(image, "getbands"):  # of PIL
            return self._bytes(self._pixels(image), False)
        else:
            array = _array_of(image)
        if array.dtype.char == "B":
            return self._bytes(array, _is_torch(image))
        if array.dtype.kind not in "biuf":
            raise _Refused(f"its image is of {array.dtype}, which are no numbers")
        if array.shape == self.record:
            return "float", array
        if not self._fits(array):
            raise _Refused(self._misfit(array))
        return "float", array.reshape(self.record)

    def _pixels(self, image: Any) -> Array:
        """Those of a PIL image, in the colours that the layer takes."""
        import numpy as np

        channels = self.record[0]
        mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(channels)
        if mode is not None and image.mode != mode:
            image = image.convert(mode)
        return np.asarray(image)

    def _bytes(self, array: Array, torch: bool) -> tuple[str, Array]:
        """An image of uint8."""
        channels = self.record[0]
        if array.ndim == 2:
            array = array[:, :, None]
            kind = "HWC"
        elif array.ndim == 1 and self._fits(array):
            array, kind = array.reshape(self.record), "CHW"
        elif array.ndim != 3 or array.size == 0:
            raise _Refused(f"its image of uint8 has the shape {array.shape}; give (H, W, C), "
                           "(C, H, W) or (H, W)")
        elif self.axes is not None:
            kind = self.axes
        elif (array.shape[0] == channels) != (array.shape[2] == channels):
            kind = "CHW" if array.shape[0] == channels else "HWC"
        else:
            kind = "CHW" if torch else "HWC"
        if self.bgr and array.shape[2 if kind == "HWC" else 0] == 3:
            array = array[:, :, ::-1] if kind == "HWC" else array[::-1]
        return kind, array

    def _fits(self, array: Array) -> bool:
        """Whether it has the shape of a record, that without one channel, or its values in a row."""
        if array.shape == self.record:
            return True
        channels, height, width = self.record
        return (array.shape == (height, width) and channels == 1
                or array.shape == (channels * height * width,))

    def _misfit(self, array: Array) -> str:
        advice = ""
        if array.ndim == 3 and array.shape == (*self.record[1:], self.record[0]):
            advice = "; floats have the axes (C, H, W): give image.transpose(2, 0, 1)"
        return (f"its image has the shape {array.shape} of {array.dtype}, and layer "
                f"{self.layer!r} takes {self.record} (channels, height, width of "
                f"memory_data_param){advice}")

    # Labels.

    def _numbers(self, labels: Any, shown: Any = None) -> Array:
        """Labels as doubles."""
        import numpy as np

        array = np.asarray(labels) if isinstance(labels, (list, tuple)) else _array_of(labels)
        shown = labels if shown is None else shown
        if array.dtype.kind not in "biuf":
            raise _Refused(f"its label is {shown!r}, and no number; number the classes from 0")
        if array.ndim == 0 or array.size != array.shape[0]:
            raise _Refused(f"its labels have the shape {array.shape}; give one number a sample")
        numbers = array.reshape(-1).astype(np.float64)
        if not np.isfinite(numbers).all():
            raise _Refused(f"its label is {shown!r}, which is not finite")
        if array.dtype.kind in "iu" and (numbers.astype(np.float32) != array.reshape(-1)).any():
            raise _Refused(f"its label {shown!r} is no integer of float32, the type of the net; "
                           "number the classes from 0")
        return numbers


def _is_torch(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy")


def _array_of(value: Any) -> Array:
    """An array of numpy, of what may be a tensor on a device."""
    import numpy as np

    if _is_torch(value):
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
        raise _Refused(f"{what if len(what) < 80 else type(value).__name__} is no array of numbers")
    return array


def _is_scalar(label: Any) -> bool:
    if isinstance(label, (list, tuple)):
        return False
    shape = getattr(label, "shape", None)
    return shape is None or len(shape) == 0


def _produce(core: _crema.Feed, source: _Source, samples: _Samples, drop_rest: bool) -> None:
    """The thread. It holds neither the Feed nor the net, so that both may go."""
    epoch = index = 0
    try:
        while True:
            try:
                epoch, first = core.begin()
                samples.forget()
                for epoch in itertools.count(epoch):
                    index = -1
                    items = source.epoch(epoch, first)
                    for index, item in enumerate(items):
                        samples.add(item)
                    del items
                    if index < 0 and first == 0:
                        raise _Refused("its iterable has no samples")
                    samples.end_epoch(drop_rest)
                    first = 0
            except _Restart:
                continue
    except _Closed:
        pass
    except _Refused as error:
        place = f"item {index} of epoch {epoch}: " if index >= 0 else ""
        core.refuse(f"{place}{error}")
    except BaseException as error:  # noqa: BLE001: of the iterable, which may raise anything
        core.fail(error)


def _end_all() -> None:
    """Before the interpreter ends: no thread may be inside the library then."""
    running = list(_threads.items())
    for _, core in running:
        core.close()
    for thread, _ in running:
        thread.join(_PATIENCE)


atexit.register(_end_all)
# The threads are not in the copy, and one of them may have held the feed's mutex.
os.register_at_fork(after_in_child=_threads.clear)

__all__ = ["Feed", "feed"]
