"""crema.Estimator: a net as a classifier of scikit-learn."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6", reason="needs scikit-learn 1.6 or newer")

import crema  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_digits, make_blobs  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

CONVOLUTION = """
name: 'small'
layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'none' batch_size: 1 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
  inner_product_param { num_output: 1000 weight_filler { type: 'xavier' } } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
"""


@parametrize_with_checks([crema.Estimator()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(n_samples=300, centers=4, n_features=5, cluster_std=2.0, random_state=0)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


def test_a_fit_is_a_function_of_random_state(blobs):
    X, y = blobs
    first = crema.Estimator(max_iter=50, random_state=7).fit(X, y)
    again = clone(first).fit(X, y)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    assert first.loss_curve_ == again.loss_curve_ and first.n_iter_ == 50
    other = crema.Estimator(max_iter=50, random_state=8).fit(X, y)
    assert (first.predict_proba(X) != other.predict_proba(X)).any()


def test_a_convolutional_net_reads_digits(digits):
    X, y = digits
    model = crema.Estimator(CONVOLUTION, input_shape=(1, 8, 8), base_lr=0.01, max_iter=400,
                            random_state=0)
    model.fit(X[:1400], y[:1400])
    assert model.score(X[1400:], y[1400:]) > 0.9
    assert model.net_.params["ip"][0].shape[0] == 10
    # The same samples with their axes.
    np.testing.assert_array_equal(model.predict_proba(X[:70]),
                                  model.predict_proba(X[:70].reshape(-1, 1, 8, 8)))
    assert model.loss_curve_[-1] < model.loss_curve_[0]


@pytest.mark.parametrize("end", ["", "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'p' }"])
def test_a_net_may_begin_and_end_in_several_ways(blobs, end):
    X, y = blobs
    net = f"""layer {{ name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'
      inner_product_param {{ num_output: 7 weight_filler {{ type: 'xavier' }} }} }} {end}"""
    model = crema.Estimator(net, solver="SGD", base_lr=0.01, max_iter=200, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.8
    assert model.predict_proba(X[:3]).shape == (3, 4)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)


def test_what_is_no_classifier(blobs):
    X, y = blobs
    with pytest.raises(crema.Error, match="no top of an InnerProduct or Convolution"):
        crema.Estimator("layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }").fit(X, y)
    with pytest.raises(ValueError, match=r"input_shape=\(1, 2, 2\) has 4 values.*X 5, as \(5,\)"):
        crema.Estimator(input_shape=(1, 2, 2)).fit(X, y)
    for shape in (5, "5", (5, 0), (5.0,), ()):
        with pytest.raises(ValueError, match="is no shape of a sample; .* such as"):
            crema.Estimator(input_shape=shape).fit(X, y)
    with pytest.raises(ValueError, match=r"leave out its first number.*: \(5,\)"):
        crema.Estimator(input_shape=(len(X), 5)).fit(X, y)
    with pytest.raises(ValueError, match=r"give one of 5 values$"):
        crema.Estimator(input_shape=(7, 5, 5)).fit(X, y)
    with pytest.raises(ValueError, match="max_iter=0"):
        crema.Estimator(max_iter=0).fit(X, y)
    with pytest.raises(ValueError, match="batch_size=0"):
        crema.Estimator(batch_size=0).fit(X, y)
    with pytest.raises(crema.Error, match="Addam"):
        crema.Estimator(solver="Addam").fit(X, y)
    with pytest.raises(TypeError, match="[Ss]parse"):
        import scipy.sparse
        crema.Estimator().fit(scipy.sparse.csr_matrix(X), y)


@pytest.mark.parametrize("shape, words", [
    ((20, 20, 1), r"look like images of \(H, W, C\).*X.transpose\(0, 3, 1, 2\)"),
    ((400, 3), r"give input_shape=\(1, 400, 3\)"),
    ((1200,), "the 1200 values of a sample are an image, give input_shape"),
])
def test_samples_of_a_shape_that_the_net_does_not_take(shape, words):
    net = """
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 2 kernel_size: 5 } }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' pooling_param { kernel_size: 2 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' }"""
    X, y = np.zeros((6, *shape)), [0, 1] * 3
    with pytest.raises(ValueError, match=r"layer '\w+' .*" + words) as caught:
        crema.Estimator(net).fit(X, y)
    assert isinstance(caught.value.__cause__, crema.Error)


def test_settings_reach_the_solver(blobs):
    X, y = blobs
    settings = {"lr_policy": "step", "gamma": 0, "stepsize": 1}
    model = crema.Estimator(max_iter=3, settings=settings, random_state=0).fit(X, y)
    still = clone(model).set_params(max_iter=30).fit(X, y)
    # Behind the first iteration, the rate is 0.
    np.testing.assert_array_equal(model.predict_proba(X), still.predict_proba(X))


def test_partial_fit_goes_on(blobs):
    X, y = blobs
    names = np.array(["a", "b", "c", "d"])[y]
    model = crema.Estimator(random_state=0, base_lr=0.01)
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X, names)
    for _ in range(40):
        model.partial_fit(X, names, classes=["a", "b", "c", "d"])
    assert model.n_iter_ == 40 * 5
    assert model.score(X, names) > 0.8
    with pytest.raises(ValueError, match="labels that classes has not.*'e'"):
        model.partial_fit(X, np.where(names == "a", "e", names))
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(X, names, classes=["a", "b"])


def test_pickles_and_copies(blobs):
    X, y = blobs
    model = crema.Estimator(max_iter=100, random_state=0).fit(X, y)
    expected = model.predict_proba(X)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(copied.predict_proba(X), expected)
        # It learns on, and the first one does not.
        before = copied.loss_curve_[-1]
        copied.partial_fit(X, y)
        assert copied.loss_curve_[-1] < 5 * before + 0.5
        assert (copied.predict_proba(X) != expected).any()
        np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_a_pipeline_and_a_grid_search(blobs):
    X, y = blobs
    X = X * [1, 100, 1, 0.01, 1]
    model = make_pipeline(StandardScaler(), crema.Estimator(max_iter=150, random_state=0))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8
    search = GridSearchCV(model, {"estimator__base_lr": [1e-7, 1e-2],
                                  "estimator__hidden_layer_sizes": [(16,), ()]}, cv=2)
    search.fit(X, y)
    assert search.best_params_["estimator__base_lr"] == 1e-2
    assert search.score(X, y) > 0.8


def test_the_package_imports_without_scikit_learn():
    script = """
import sys
sys.modules['sklearn'] = None
import crema
assert not hasattr(sys.modules['sklearn'], 'base')
try:
    crema.Estimator
except ImportError as error:
    print(error)
"""
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "needs scikit-learn 1.6 or newer: pip install" in made.stdout
    script = "import sys, crema; print('sklearn' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert made.stdout == "False\n"
