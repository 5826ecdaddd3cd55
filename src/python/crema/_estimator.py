"""Estimator: a net as a classifier of scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from . import _crema
from ._context import TEST
from ._net import Net
from ._solver import Solver
from ._source import source_of

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("crema.Estimator needs scikit-learn 1.6 or newer: pip install "
                      f"'scikit-learn>=1.6' ({error})") from error

Array = np.ndarray[Any, Any]

# Update rules that take momentum, and what is usual.
_MOMENTUM = {"SGD": 0.9, "Nesterov": 0.9, "Adam": 0.9, "AdamW": 0.9}


class Estimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of scikit-learn that trains a net.

        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(StandardScaler(), crema.Estimator(max_iter=500, random_state=0))
        model.fit(X, y).score(X_test, y_test)

        lenet = crema.Estimator('models/lenet/train_val.prototxt', input_shape=(1, 28, 28),
                                solver='SGD', base_lr=0.01, max_iter=1000)
        lenet.fit(images / 256, digits)         # (N, 784) or (N, 1, 28, 28), and N labels

    Parameters
    ----------
    net : what names a net for crema.Net (path, text, message or NetSpec), or None
        The layers from the samples to the scores. Its layers of data become Input layers; without
        one, the first bottom that no layer makes has the samples. num_output of the last
        InnerProduct or Convolution becomes the number of classes. It may end with a loss, whose
        first bottom are the scores, or with Softmax; else SoftmaxWithLoss is added. None: fully
        connected layers with ReLU between them.
    hidden_layer_sizes : the outputs of each hidden layer of the default net.
    input_shape : the shape of a sample as the net takes it, such as (3, 32, 32); None: that of X.
    solver : the update rule, such as "SGD", "Adam" or "AdamW".
    base_lr, weight_decay : as in a solver prototxt.
    max_iter : the iterations of fit, each of one batch.
    batch_size : the samples of a batch; fewer if there are fewer. Samples are predicted in batches
        of this size too, so that the result for one does not depend on others.
    settings : further settings of a solver prototxt, such as {"lr_policy": "step", "gamma": 0.1,
        "stepsize": 500}.
    random_state : int, RandomState or None; with an int, the same fit gives the same weights.

    Attributes
    ----------
    classes_ : the labels in the order of the scores.
    net_ : the trained crema.Net, of phase TEST.
    n_iter_ : the iterations done.
    loss_curve_ : the loss of each of them.
    n_features_in_, feature_names_in_ : of X, as usual.

    X is converted to float32, and not scaled: StandardScaler in front helps. y may be labels of any
    kind. Estimators can be pickled and cloned; a pickle has the weights, and not the state of the
    solver, with which partial_fit goes on. Nets run on the device of crema.context().
    """

    def __init__(self, net: Any = None, *, hidden_layer_sizes: Sequence[int] = (100,),
                 input_shape: Sequence[int] | None = None, solver: str = "Adam",
                 base_lr: float = 0.001, weight_decay: float = 0.0001, max_iter: int = 1000,
                 batch_size: int = 64, settings: Mapping[str, Any] | None = None,
                 random_state: Any = None):
        self.net = net
        self.hidden_layer_sizes = hidden_layer_sizes
        self.input_shape = input_shape
        self.solver = solver
        self.base_lr = base_lr
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.settings = settings
        self.random_state = random_state

    # What scikit-learn calls.

    def fit(self, X: Any, y: Any) -> Estimator:
        """Trains a new net on samples X (N, ...) and labels y (N). Returns self."""
        X, y = self._samples(X, y, reset=True)
        if self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter} is no number of iterations; give 1 or more")
        self._begin(X, np.unique(y))
        targets = self._targets(y)
        for batch in self._shuffled(len(X), self.max_iter):
            self._step(X[batch], targets[batch])
        self.n_iter_ = len(self.loss_curve_)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Estimator:
        """Trains the net on X once, batch by batch in their order. Returns self.

        The first call makes the net, and needs all `classes`; later ones go on with its weights.
        """
        first = not hasattr(self, "classes_")
        X, y = self._samples(X, y, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes has to be given to the first call of partial_fit: all "
                                 "labels that y will have")
            self._begin(X, np.unique(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are not those of the first call of partial_fit, "
                             f"{self.classes_!r}")
        targets = self._targets(y)
        for begin in range(0, len(X), self.batch_size):
            batch = slice(begin, begin + self.batch_size)
            self._step(X[batch], targets[batch])
        self.n_iter_ = len(self.loss_curve_)
        return self

    def predict(self, X: Any) -> Array:
        """The label of each sample, (N)."""
        numbers = self.predict_proba(X).argmax(axis=1)
        labels: Array = self.classes_[numbers]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, (N, classes) of float64, in the order of classes_."""
        check_is_fitted(self)
        X = self._samples(X, reset=False)
        blob = self.net_.blobs[self._names[0]]
        size = self.batch_size
        parts = []
        for begin in range(0, len(X), size):
            part = X[begin:begin + size]
            if blob.shape != (size, *self._shape):
                blob.reshape(size, *self._shape)
            values = blob.data
            values[:len(part)] = part
            values[len(part):] = 0
            made = self.net_.forward()[self._names[2]]
            parts.append(made[:len(part)].reshape(len(part), -1).astype(np.float64))
        scores: Array = np.concatenate(parts)
        if scores.shape[1] != len(self.classes_):
            raise _crema.Error(f"the net gives {scores.shape[1]} scores for {len(self.classes_)} "
                               "classes; its last layer has to give one score a class and sample")
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    # The net and its training.

    def _samples(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """X as (N, shape of a sample) of float32, checked; and y, unless it is "no_validation"."""
        options = {"reset": reset, "dtype": np.float32, "order": "C"}
        axes = np.shape(X)[1:] if self.net is not None and hasattr(X, "ndim") else ()
        # A feature is a number of a sample, whether samples have axes or not.
        if len(axes) > 1:
            X = X.reshape(len(X), -1)
        alone = isinstance(y, str)
        if alone:
            X = validate_data(self, X, **options)
        else:
            X, y = validate_data(self, X, y, **options)
            check_classification_targets(y)
        if not isinstance(self.batch_size, (int, np.integer)) or self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size!r} is no number of samples; give 1 or "
                             "more")
        axes = axes if len(axes) > 1 else X.shape[1:]
        shape = self._sample_shape(axes) if reset else self._shape
        if X[0].size != np.prod(shape):
            raise ValueError(f"X has samples of {axes}, {X[0].size} values, and the net was fitted "
                             f"with samples of {shape}")
        X = X.reshape(len(X), *shape)
        return X if alone else (X, y)

    def _sample_shape(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """That of a sample as a new net takes it. `axes` are those of X."""
        if self.input_shape is None:
            return axes
        given: Any = self.input_shape
        shape = tuple(given) if isinstance(given, Iterable) else ()
        if not shape or not all(isinstance(dim, (int, np.integer)) and dim > 0 for dim in shape):
            raise ValueError(f"input_shape={given!r} is no shape of a sample; give positive whole "
                             "numbers, such as (3, 32, 32) for images of 3 channels")
        size = int(np.prod(axes))
        if np.prod(shape) == size:
            return shape
        way = f"give one of {size} values"
        if np.prod(shape[1:]) == size and (len(shape) > 3 or shape[1:] == axes):
            way = f"leave out its first number, that of samples: {shape[1:]}"
        elif len(axes) > 1:
            way += f", such as {axes}, or None for the shape that X has"
        raise ValueError(f"input_shape={shape} has {np.prod(shape)} values, and a sample of X {size}"
                         f", as {axes}; {way}")

    def _begin(self, X: Array, classes: Array) -> None:
        """A new net, of new weights."""
        self.classes_ = classes
        self._shape = X.shape[1:]
        self._random = np.random.default_rng(
            check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=4))
        self._seed = int(self._random.integers(1, np.iinfo(np.int32).max))
        size = min(len(X), self.batch_size)
        source = source_of(self._default_net() if self.net is None else self.net)
        text, *names = _crema.classifier_net(*source, dims=[size, *self._shape],
                                             classes=len(classes))
        self._prototxt, self._names = text, tuple(names)
        self.loss_curve_: list[float] = []
        self._trainer: Solver | None = None
        try:
            self.net_ = Net(text, phase=TEST, share_with=self._solver().net)
        except _crema.Error as error:
            advice = _advice_on(self._shape) if self.net is not None and error.layer else ""
            if not advice:
                raise
            raise ValueError(f"{error}; {advice}") from error

    def _default_net(self) -> str:
        layers = ["name: 'classifier'"]
        bottom = "data"
        for number, size in enumerate([*self.hidden_layer_sizes, 1], 1):
            layers.append(f"layer {{ name: 'ip{number}' type: 'InnerProduct' bottom: '{bottom}' "
                          f"top: 'ip{number}' inner_product_param {{ num_output: {int(size)} "
                          "weight_filler { type: 'msra' } } }")
            bottom = f"ip{number}"
            if number <= len(self.hidden_layer_sizes):
                layers.append(f"layer {{ name: 'relu{number}' type: 'ReLU' bottom: '{bottom}' "
                              f"top: '{bottom}' }}")
        return "\n".join(layers)

    def _solver(self) -> Solver:
        """That of the net. Behind a pickle, a new one with the net's weights."""
        if self._trainer is None:
            settings = {"base_lr": self.base_lr, "lr_policy": "fixed",
                        "weight_decay": self.weight_decay, "max_iter": self.max_iter,
                        **({"momentum": _MOMENTUM[self.solver]} if self.solver in _MOMENTUM else {}),
                        **(self.settings or {})}
            text = f"type: {json.dumps(self.solver)}\nnet_param {{\n{self._prototxt}\n}}"
            self._trainer = Solver(text, settings, seed=self._seed)
            self._trainer.on_iteration = self._note
            if hasattr(self, "net_") and self.loss_curve_:
                self._trainer.net.load(self.net_.to_bytes())
                self.net_.share_with(self._trainer.net)
        return self._trainer

    def _note(self, report: _crema.IterationReport) -> None:
        self.loss_curve_.append(report.loss)

    def _step(self, samples: Array, targets: Array) -> None:
        """One iteration."""
        solver = self._solver()
        for name, values in zip(self._names, (samples, targets)):
            blob = solver.net.blobs[name]
            if blob.shape != values.shape:
                blob.reshape(*values.shape)
            blob.data[...] = values
        solver.step(1)

    def _targets(self, y: Array) -> Array:
        """Numbers of classes."""
        targets = np.searchsorted(self.classes_, y)
        targets[targets == len(self.classes_)] = 0
        unknown = self.classes_[targets] != y
        if unknown.any():
            raise ValueError(f"y has labels that classes has not: {np.unique(y[unknown])!r}")
        return targets

    def _shuffled(self, count: int, batches: int) -> Iterator[Array]:
        """Numbers of samples, of so many batches, each epoch in another order."""
        size = min(count, self.batch_size)
        order = np.empty(0, np.intp)
        for _ in range(batches):
            while len(order) < size:
                order = np.concatenate([order, self._random.permutation(count)])
            batch, order = order[:size], order[size:]
            yield batch

    def __getstate__(self) -> dict[str, Any]:
        state = cast("dict[str, Any]", super().__getstate__()).copy()
        if "_trainer" in state:
            state["_trainer"] = None
        return state


def _advice_on(shape: tuple[int, ...]) -> str:
    """What to do if a net does not take samples of such a shape, which may be images."""
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] not in (1, 3, 4):
        return (f"samples of {shape} look like images of (H, W, C), and nets take (C, H, W): give "
                "X.transpose(0, 3, 1, 2)")
    if len(shape) == 2:
        return f"if a sample of {shape} is an image, give input_shape={(1, *shape)}"
    if len(shape) == 1:
        return (f"if the {shape[0]} values of a sample are an image, give input_shape, its "
                "(channels, height, width)")
    return ""


__all__ = ["Estimator"]
