"""A net of Crema as a classifier of the Adversarial Robustness Toolbox (PyPI)."""

import numpy as np
from art.estimators.classification.classifier import ClassifierClassLossGradients

import crema


class CremaClassifier(ClassifierClassLossGradients):
    """Scores and gradients of a deploy net that ends in a softmax.

    deploy: its prototxt. weights: its weights. scores: the blob that the softmax reads.
    clip_values: the least and the greatest value of an input.
    """

    def __init__(self, deploy, weights, scores="ip2", clip_values=(0.0, 1.0), batch_size=100):
        with open(deploy) as file:  # gradients of the input, which no parameter needs
            self.net = crema.Net("force_backward: true\n" + file.read(), weights=weights)
        self.input, self.output, self.scores = self.net.inputs[0], self.net.outputs[0], scores
        self.batch_size = batch_size
        self._input_shape = tuple(self.net.blobs[self.input].shape[1:])
        super().__init__(model=self.net, clip_values=clip_values, preprocessing=None)
        self.nb_classes = self.net.blobs[scores].shape[1]

    @property
    def input_shape(self):
        return self._input_shape

    def _run(self, x, gradients_of_scores=None):
        """Probabilities; or gradients of x for those that the function makes of probabilities."""
        made = []
        for begin in range(0, len(x), self.batch_size):
            part = slice(begin, begin + self.batch_size)
            self.net.blobs[self.input].reshape(*x[part].shape)
            result = self.net.forward(**{self.input: x[part]})[self.output]
            if gradients_of_scores is not None:
                gradients = {self.scores: gradients_of_scores(result, part)}
                result = self.net.backward(start=self.scores, **gradients)[self.input]
            made.append(result.copy())
        return np.concatenate(made)

    def predict(self, x, **_):
        return self._run(x)

    def loss_gradient(self, x, y, **_):
        """Gradients of the cross-entropy of labels, numbers or rows of a one and zeros."""
        classes = y if np.ndim(y) == 1 else np.argmax(y, axis=1)
        rows = np.eye(self.nb_classes, dtype=np.float32)[classes]
        return self._run(x, lambda probabilities, part: probabilities - rows[part])

    def class_gradient(self, x, label=None, **_):
        """Gradients of scores: of all classes, or of one, the same or another for each sample."""
        of = np.arange(self.nb_classes)[:, None] if label is None else np.atleast_2d(label)
        rows = np.eye(self.nb_classes, dtype=np.float32)[np.broadcast_to(of, (len(of), len(x)))]
        return np.stack([self._run(x, lambda _, part, r=r: r[part]) for r in rows], axis=1)

    def fit(self, x, y, **_):
        raise NotImplementedError("crema.Solver trains nets")
