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
from ._mistakes import suggests
from ._net import Net
from ._samples import Batch, Closed, Refused, Restart, Samples, array_of, is_torch
from ._solver import Solver

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: What gives the samples of an epoch: an iterable, or a callable that makes one.
Data = Union[Iterable[Any], Callable[..., Iterable[Any]]]

# Seconds that the end of the process waits for a thread that is inside an iterable.
_PATIENCE = 2.0
# The threads that run, which outlive a Feed that is not kept.
_threads: weakref.WeakKeyDictionary[threading.Thread, _crema.Feed] = weakref.WeakKeyDictionary()


class Feed:
    """Samples that a thread gives a layer of type MemoryData; what crema.feed returns.

    It works whether or not it is kept, and ends with its net, with the process, when the layer gets
    other data, or by close(). As a context manager it closes itself.
    """

    def __init__(self, core: _crema.Feed, layer: str, source: _Source, samples: Samples,
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


@suggests
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
    except Refused as error:
        raise _crema.Error(str(error)) from None
    core = _crema.Feed(net._core, name, depth=prefetch, restarts=source.restarts)
    if labels is None and isinstance(source, _Arrays) and core.has_labels:
        core.close()
        raise _crema.Error(f"layer {name!r} has a top for labels, and no labels were given; call "
                           "crema.feed(net, images, labels)")
    source.batch_size = core.batch_size
    return Feed(core, name, source, Samples(core, name, axes, bgr), last_batch == "drop")


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
        self.images = array_of(images) if hasattr(images, "shape") else list(images)
        self.labels = None if labels is None else _numbers_of(labels)
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
            yield Batch(images, labels)


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
            raise Refused(f"the callable returned {type(made).__name__}, and not an iterable of "
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
            raise Refused(
                f"its data have ended: a {type(self.items).__name__} can be iterated over only "
                "once; give a list, or a callable that makes a new iterable for each epoch")
        self.begun = True
        return self.items


def _numbers_of(labels: Any) -> Array:
    """The labels of arrays. Refused, with the way to numbers, if they are text."""
    import numpy as np

    array = array_of(labels) if is_torch(labels) else np.asarray(labels)
    if array.dtype.kind in "USTO" and array.size and isinstance(array.flat[0], (str, bytes)):
        raise Refused(f"the labels are text, such as {str(array.flat[0])!r}; number the classes: "
                      "classes, numbers = numpy.unique(labels, return_inverse=True)")
    return array_of(labels)


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
    if isinstance(data, (str, bytes, os.PathLike)):
        raise _crema.Error(
            f"{os.fspath(data)!r} is a path, and feed takes samples: arrays and labels, or pairs "
            "(image, label), such as lambda: ((PIL.Image.open(file), label) for file, label in "
            "files). A layer of type ImageData reads a list of image files by itself, and one of "
            "type Data a database")
    is_array = hasattr(data, "__array_interface__") and hasattr(data, "shape")
    if labels is not None or is_array or is_torch(data):
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


def _produce(core: _crema.Feed, source: _Source, samples: Samples, drop_rest: bool) -> None:
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
                        raise Refused("its iterable has no samples")
                    samples.end_epoch(drop_rest)
                    first = 0
            except Restart:
                continue
    except Closed:
        pass
    except Refused as error:
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
