"""The adapter of models/lenet/adversarial, and the gradients that it gives the toolbox."""

import os
import sys

import numpy as np
import pytest

pytest.importorskip(
    "art", reason="the toolbox is not installed: pip install adversarial-robustness-toolbox")

import crema  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "models", "lenet", "adversarial"))

from art.attacks.evasion import (  # noqa: E402
    DeepFool,
    FastGradientMethod,
    ProjectedGradientDescent,
)
from crema_classifier import CremaClassifier  # noqa: E402

DEPLOY = os.path.join(ROOT, "models", "lenet", "deploy.prototxt")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """LeNet with random weights, small batches, and digits of noise."""
    weights = str(tmp_path_factory.mktemp("lenet") / "lenet.caffemodel")
    net = crema.Net(DEPLOY)
    rng = np.random.default_rng(1)
    for blobs in net.params.values():
        values = rng.normal(0, 1, blobs[0].shape) * np.sqrt(2 / blobs[0].data[0].size)
        blobs[0].data[...] = values
    net.save(weights)
    return CremaClassifier(DEPLOY, weights, batch_size=3)


@pytest.fixture
def digits():
    return np.random.default_rng(2).random((7, 1, 28, 28)).astype(np.float32)


def loss(classifier, digits, labels):
    """The sum of the cross-entropies."""
    return -np.log(classifier.predict(digits)[np.arange(len(digits)), labels].astype(float)).sum()


def test_adapter_has_at_most_60_lines():
    with open(os.path.join(ROOT, "models/lenet/adversarial/crema_classifier.py")) as file:
        assert len(file.readlines()) <= 60


def test_predictions_are_those_of_the_net(classifier, digits):
    made = classifier.predict(digits)  # three batches, the last one smaller
    assert made.shape == (7, 10)
    np.testing.assert_allclose(made.sum(1), 1, rtol=1e-5)
    alone = np.concatenate([classifier.predict(digit[None]) for digit in digits])
    np.testing.assert_allclose(made, alone, rtol=1e-4, atol=1e-6)


def test_loss_gradient_is_the_slope_of_the_loss(classifier, digits):
    labels = np.arange(7)
    gradient = classifier.loss_gradient(digits, labels)
    assert gradient.shape == digits.shape
    rows = np.eye(10)[labels]
    np.testing.assert_array_equal(classifier.loss_gradient(digits, rows), gradient)
    # Along the gradient, so that the difference is far above the rounding.
    step = gradient / np.linalg.norm(gradient) * 1e-2
    slope = loss(classifier, digits + step, labels) - loss(classifier, digits - step, labels)
    np.testing.assert_allclose(slope / 2e-2, np.linalg.norm(gradient), rtol=0.02)


def test_class_gradients_add_up_to_the_loss_gradient(classifier, digits):
    labels = np.arange(7)
    of_all = classifier.class_gradient(digits)
    assert of_all.shape == (7, 10, 1, 28, 28)
    errors = classifier.predict(digits) - np.eye(10)[labels]
    np.testing.assert_allclose(np.einsum("nc,nc...->n...", errors, of_all),
                               classifier.loss_gradient(digits, labels), atol=1e-4)
    np.testing.assert_allclose(classifier.class_gradient(digits, label=4)[:, 0], of_all[:, 4],
                               atol=1e-5)
    np.testing.assert_allclose(classifier.class_gradient(digits, label=labels)[:, 0],
                               of_all[np.arange(7), labels], atol=1e-5)


@pytest.mark.parametrize("attack", [
    lambda net: FastGradientMethod(net, eps=0.05),
    lambda net: ProjectedGradientDescent(net, eps=0.05, eps_step=0.01, max_iter=10, verbose=False)])
def test_attacks_raise_the_loss_within_their_bounds(classifier, digits, attack):
    labels = classifier.predict(digits).argmax(1)
    made = attack(classifier).generate(digits, labels)
    assert 0.04 < np.abs(made - digits).max() <= 0.05 + 1e-6
    assert made.min() >= 0 and made.max() <= 1
    noise = np.clip(digits + 0.05 * np.sign(np.random.default_rng(3).normal(size=digits.shape)),
                    0, 1).astype(np.float32)
    assert loss(classifier, made, labels) > loss(classifier, noise, labels) + 1


def test_attacks_by_class_gradients_run_too(classifier, digits):
    made = DeepFool(classifier, max_iter=20, verbose=False).generate(digits)

    def margin(shown):
        best = np.sort(classifier.predict(shown), axis=1)
        return best[:, -1] - best[:, -2]

    assert (margin(made) < margin(digits) / 4).all()  # it stops near the boundary of two classes
