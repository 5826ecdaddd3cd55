"""Layers in Python that test_python_layer.py puts into nets."""

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
