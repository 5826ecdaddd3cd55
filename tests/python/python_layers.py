"""Layers in Python that test_python_layer.py puts into nets."""

import signal
import threading

import numpy as np

import caffe


class Tenfold(caffe.Layer):
    """Multiplies by 10, or by param_str."""

    def setup(self, bottom, top):
        self.factor = float(self.param_str or 10)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.factor * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            bottom[0].diff[...] = self.factor * top[0].diff


class Offset(caffe.Layer):
    """Adds a parameter to each sample."""

    def setup(self, bottom, top):
        self.blobs.add_blob(bottom[0].channels)
        self.blobs[0].data[...] = np.arange(bottom[0].channels)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data + self.blobs[0].data[:, None, None]

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += top[0].diff.sum((0, 2, 3))
        bottom[0].diff[...] = top[0].diff


class Fails(caffe.Layer):
    """Fails in the method that param_str names."""

    def _maybe(self, method):
        if self.param_str == method:
            raise KeyError(f"in {method}")

    def setup(self, bottom, top):
        self._maybe("setup")

    def reshape(self, bottom, top):
        self._maybe("reshape")
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self._maybe("forward")

    def backward(self, top, propagate_down, bottom):
        self._maybe("backward")


class Phase(caffe.Layer):
    """Its top is the phase."""

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = self.phase


class Batches(caffe.Layer):
    """A source whose batches grow."""

    def setup(self, bottom, top):
        self.number = 0

    def reshape(self, bottom, top):
        top[0].reshape(self.number + 1, 2)

    def forward(self, bottom, top):
        top[0].data[...] = self.number
        self.number += 1


class Counts(caffe.Layer):
    """Counts passes, in its state."""

    def setup(self, bottom, top):
        self.passes = 0
        self.seen = np.zeros(3)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.passes += 1
        self.seen[1] += 0.5
        top[0].data[...] = bottom[0].data

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff

    def state(self):
        return {"passes": self.passes, "seen": self.seen}

    def set_state(self, state):
        self.passes = state["passes"]
        self.seen = state["seen"]


class Positive(caffe.Layer):
    """Keeps the values above zero: fewer than reshape() announces."""

    shapes_from_values = True

    def reshape(self, bottom, top):
        top[0].reshape(bottom[0].count)

    def forward(self, bottom, top):
        values = bottom[0].data[bottom[0].data > 0]
        top[0].reshape(len(values))
        top[0].data[...] = values


class Keeps(caffe.Layer):
    """Keeps a blob that it was lent."""

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.lent = top[0]
        top[0].data[...] = 1


class Ahead(caffe.Layer):
    """A source that runs ahead, in a thread of its own, and fails at the batch of param_str."""

    prefetch = 3

    def setup(self, bottom, top):
        self.number = 0
        self.random = np.random.default_rng(5)
        self.threads = set()
        self.fails = int(self.param_str or -1)
        top[0].reshape(1)

    def reshape(self, bottom, top):
        if self.number:
            top[0].reshape(self.number)

    def forward(self, bottom, top):
        self.threads.add(threading.get_ident())
        self.number += 1
        if self.number == self.fails:
            raise LookupError(f"batch {self.number}")
        top[0].data[...] = self.random.random(top[0].shape)

    def state(self):
        return {"number": self.number, "random": self.random.bit_generator.state}

    def set_state(self, state):
        self.number = state["number"]
        self.random.bit_generator.state = state["random"]


class OnTime(Ahead):
    """The same, without running ahead."""

    prefetch = 0


class Meets(caffe.Layer):
    """Its forward ends when those of two nets are inside it."""

    barrier = threading.Barrier(2)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.barrier.wait(60)
        top[0].data[...] = bottom[0].data


class Interrupts(caffe.Layer):
    """Presses Ctrl-C in the pass of its param_str."""

    def setup(self, bottom, top):
        self.passes = 0

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.passes += 1
        if self.passes == int(self.param_str):
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):  # where Python would run the handler
                pass
        top[0].data[...] = bottom[0].data

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff


class Loss(caffe.Layer):
    """The Euclidean loss, as Caffe's examples have it in Python."""

    def reshape(self, bottom, top):
        self.diff = np.zeros_like(bottom[0].data)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.diff[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = (self.diff ** 2).sum() / bottom[0].num / 2

    def backward(self, top, propagate_down, bottom):
        for i, sign in enumerate((1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * self.diff * top[0].diff[0] / bottom[i].num


def run_elsewhere(net, data):
    """For another process: the outputs of a net."""
    return {name: values.copy() for name, values in net.forward(data=data).items()}


def fail_elsewhere():
    """For another process: an error of the library."""
    caffe.Net("no.such.file", caffe.TEST)


class Rows(caffe.Layer):
    """Its bottom as many times as the bottom's first value says; setup() knows of one row."""

    forwards = 0

    def setup(self, bottom, top):
        top[0].reshape(1, *bottom[0].shape[1:])

    def forward(self, bottom, top):
        type(self).forwards += 1
        self.times = int(bottom[0].data.flat[0])
        top[0].reshape(bottom[0].num * self.times, *bottom[0].shape[1:])
        top[0].data[...] = np.concatenate([bottom[0].data] * self.times)

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            diff = top[0].diff.reshape(self.times, *bottom[0].shape)
            bottom[0].diff[...] = diff.sum(0)


class Square(caffe.Layer):
    """Its top has other axes than setup() says."""

    def setup(self, bottom, top):
        top[0].reshape(1)

    def forward(self, bottom, top):
        top[0].reshape(bottom[0].num, 2, *bottom[0].shape[2:])
        top[0].data[...] = bottom[0].data[:, :2]


class Stays(Rows):
    """Says that its top keeps the shape of setup(), which it does not."""

    shapes_from_values = False


class Times(caffe.Layer):
    """A source: batches of two rows, whose first value counts up and down."""

    def setup(self, bottom, top):
        self.number = 0

    def reshape(self, bottom, top):
        top[0].reshape(2, 3)

    def forward(self, bottom, top):
        top[0].data[...] = np.arange(6).reshape(2, 3) / 10
        top[0].data[0, 0] = (1, 4, 2, 7)[self.number % 4]
        self.number += 1


class Images(caffe.Layer):
    """A source of images of two sizes, in turn."""

    sizes = ((6, 5), (4, 9))

    def setup(self, bottom, top):
        self.number = 0

    def reshape(self, bottom, top):
        top[0].reshape(1, 3, *self.sizes[self.number % 2])

    def forward(self, bottom, top):
        top[0].data[...] = np.random.RandomState(self.number).normal(size=top[0].shape)
        self.number += 1


class Anchors(caffe.Layer):
    """A label for each value of a map. As in py-faster-rcnn, forward alone sets the shape."""

    def setup(self, bottom, top):
        self.set_shape(bottom[0], top[0])

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        self.set_shape(bottom[0], top[0])
        top[0].data[...] = (bottom[0].data > 0).reshape(top[0].shape)

    def backward(self, top, propagate_down, bottom):
        pass

    @staticmethod
    def set_shape(image, labels):
        labels.reshape(1, 1, image.channels * image.height, image.width)


class Shapeless(caffe.Layer):
    """Sets no shape."""

    def forward(self, bottom, top):
        top[0].data[...] = 1


class ShapelessBatch(Shapeless):
    """The same with a reshape() that sets none either."""

    def reshape(self, bottom, top):
        pass


class Clips(caffe.Layer):
    """Runs in place: as in pycaffe, top and bottom are the same then."""

    def forward(self, bottom, top):
        top[0].data[top[0].data < 0] = 0

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff * (top[0].data > 0)


class Forgets(caffe.Layer):
    """Writes a gradient in its first pass alone."""

    def setup(self, bottom, top):
        self.passes = 0

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data

    def backward(self, top, propagate_down, bottom):
        if self.passes == 0:
            bottom[0].diff[...] = 1
        self.passes += 1
