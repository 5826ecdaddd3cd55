"""Layers written in Python."""

import os
import re
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import caffe
import crema
import python_layers


def layer(kind, extra="", param_str="", name="one", bottom="data", top="one"):
    bottom = f"bottom: '{bottom}'" if bottom else ""
    return (f"layer {{ name: '{name}' type: 'Python' {bottom} top: '{top}' {extra} python_param {{ "
            f"module: 'python_layers' layer: '{kind}' param_str: '{param_str}' }} }}\n")


INPUT = ("force_backward: true layer { name: 'data' type: 'Input' top: 'data' "
         "input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } } }\n")


def test_forward_backward_reshape():
    net = caffe.Net(INPUT + layer("Tenfold") + layer("Tenfold", name="two", bottom="one", top="two",
                                                     param_str="3"), caffe.TEST)
    net.blobs["data"].data[...] = 2
    net.forward()
    assert (net.blobs["two"].data == 60).all()
    net.blobs["two"].diff[...] = 1
    net.backward()
    assert (net.blobs["data"].diff == 30).all()
    net.blobs["data"].reshape(4, 3, 2, 1)
    net.blobs["data"].data[...] = 1
    assert net.forward()["two"].shape == (4, 3, 2, 1)
    assert isinstance(net.layers[1], caffe.Layer) and net.layers[1].name == "one"
    assert net.layers[1].type == "Python"


def test_parameters_are_learned_saved_and_shared(tmp_path):
    text = INPUT + layer("Offset")
    net = caffe.Net(text, caffe.TRAIN)
    blob = net.layers[1].blobs[0]
    np.testing.assert_array_equal(blob.data, [0, 1, 2])
    net.forward(data=np.zeros((2, 3, 4, 5)))
    np.testing.assert_array_equal(net.blobs["one"].data[0, :, 0, 0], [0, 1, 2])
    net.blobs["one"].diff[...] = 1
    net.backward()
    net.backward()
    np.testing.assert_array_equal(blob.diff, [80, 80, 80])
    blob.data[...] = 7
    net.save(str(tmp_path / "weights"))
    blob.data[...] = -1
    net.copy_from(str(tmp_path / "weights"))
    assert (blob.data == 7).all()
    other = caffe.Net(text, str(tmp_path / "weights"), caffe.TEST)
    assert (other.params["one"][0].data == 7).all()
    shares = caffe.Net(text, caffe.TRAIN)
    shares.share_with(net)
    blob.data[...] = 9
    assert (shares.layers[1].blobs[0].data == 9).all()


@pytest.mark.parametrize("method", ["setup", "reshape", "forward", "backward"])
def test_an_exception_keeps_its_traceback_and_names_the_layer(method):
    with pytest.raises(KeyError, match=f"in {method}") as caught:
        net = caffe.Net(INPUT + layer("Fails", param_str=method), caffe.TEST)
        net.forward()
        net.blobs["one"].diff[...] = 1
        net.backward()
    lines = traceback.format_exception(caught.value)
    assert any("python_layers.py" in line and "_maybe" in line for line in lines)
    if sys.version_info >= (3, 11):
        assert "layer 'one'" in caught.value.__notes__[0]


def test_a_missing_class_is_an_exception():
    with pytest.raises(AttributeError, match="NoSuchLayer"):
        caffe.Net(INPUT + layer("NoSuchLayer"), caffe.TEST)
    with pytest.raises(crema.Error, match="module"):
        caffe.Net(INPUT + "layer { name: 'l' type: 'Python' bottom: 'data' top: 'l' }", caffe.TEST)


def test_phase():
    for phase in (caffe.TRAIN, caffe.TEST):
        net = caffe.Net(layer("Phase", bottom=""), phase)
        assert net.forward()["one"] == phase


def test_a_source_gives_each_batch_its_shape():
    net = caffe.Net(layer("Batches", bottom="") + layer("Tenfold", name="two", bottom="one",
                                                        top="two"), caffe.TEST)
    for number in range(12):
        assert net.forward()["two"].shape == (number + 1, 2)
        assert (net.blobs["two"].data == 10 * number).all()


def test_a_source_that_runs_ahead_gives_the_same_batches():
    ahead, on_time = (caffe.Net(layer(kind, bottom=""), caffe.TEST) for kind in ("Ahead", "OnTime"))
    for number in range(1, 10):
        np.testing.assert_array_equal(ahead.forward()["one"], on_time.forward()["one"])
        assert ahead.blobs["one"].shape == (max(number - 1, 1),)
    source = ahead.layers[0]
    end = time.monotonic() + 60
    while source.number < 12 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.05)
    assert source.number == 12  # three ahead, and no more
    assert len(source.threads) == 1 and threading.get_ident() not in source.threads


def test_an_exception_ahead_comes_out_of_its_own_pass():
    net = caffe.Net(layer("Ahead", bottom="", param_str="4"), caffe.TEST)
    for _ in range(3):
        net.forward()
    with pytest.raises(LookupError, match="batch 4") as caught:
        net.forward()
    lines = traceback.format_exception(caught.value)
    assert any("python_layers.py" in line and "forward" in line for line in lines)
    net.forward()  # the next batch
    assert net.layers[0].number >= 5


def test_the_state_ahead_is_that_of_the_net(tmp_path):
    (tmp_path / "net.prototxt").write_text(layer("Ahead", bottom="") + """
layer { name: 'scale' type: 'Scale' bottom: 'one' top: 'scaled' scale_param { axis: 0 num_axes: 0 } }
layer { name: 'loss' type: 'Reduction' bottom: 'scaled' top: 'loss' loss_weight: 1 }
""")
    text = (f"net: '{tmp_path}/net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 100 "
            f"snapshot_prefix: '{tmp_path}/snap'\n")
    solver = caffe.SGDSolver(text)
    solver.step(5)
    state = solver.snapshot()
    other = caffe.SGDSolver(text)
    other.step(2)
    other.restore(state)
    for _ in range(4):
        solver.step(1)
        other.step(1)
        np.testing.assert_array_equal(solver.net.blobs["one"].data, other.net.blobs["one"].data)


def test_a_program_ends_while_a_source_runs_ahead():
    script = ("import sys, caffe; net = caffe.Net(sys.argv[1], caffe.TEST); net.forward(); "
              "import threading; print('end')")
    run = subprocess.run([sys.executable, "-c", script, layer("Ahead", bottom="")], timeout=60,
                         capture_output=True, text=True, cwd=os.path.dirname(__file__))
    assert run.returncode == 0 and run.stdout == "end\n", run.stderr


def test_state_of_any_kind_is_restored():
    import random

    from crema._layer import decode_state, encode_state

    state = {"epoch": 2**60 + 1, "rate": 0.1, "name": "räder", "seen": np.arange(6).reshape(2, 3),
             "rng": np.random.RandomState(3).get_state(), "python": random.Random(4).getstate(),
             "pcg": np.random.default_rng(5).bit_generator.state, "none": None, "raw": b"\xff\0",
             "flags": [True, np.float32(0.5)], 3: float("inf")}
    numbers = encode_state(state)
    assert np.isfinite(np.frombuffer(numbers)).all()
    restored = decode_state(numbers)
    assert repr(restored) == repr(state)
    random.Random().setstate(restored["python"])
    with pytest.raises(TypeError, match=r"state\(\)\['net'\]"):
        encode_state({"net": object()})


def test_share_in_parallel_is_known():
    text = layer("Tenfold").replace("python_param {", "python_param { share_in_parallel: true")
    net = caffe.Net(INPUT + text, caffe.TEST)
    assert (net.forward(data=np.ones((2, 3, 4, 5)))["one"] == 10).all()


def test_a_loss_in_python_trains(tmp_path):
    """As examples/pycaffe of Caffe: its top's diff is the weight of the loss."""
    gradients = []
    for loss in ("type: 'EuclideanLoss'", "type: 'Python' python_param { module: 'python_layers' "
                 "layer: 'Loss' }"):
        net = caffe.Net("""force_backward: true
layer { name: 'x' type: 'Input' top: 'x' top: 'y'
  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'
  inner_product_param { num_output: 2 weight_filler { type: 'constant' value: 0.5 } } }
layer { name: 'loss' bottom: 'ip' bottom: 'y' top: 'loss' loss_weight: 3 %s }
""" % loss, caffe.TRAIN)
        rows = np.arange(12).reshape(4, 3)
        net.forward(x=rows, y=np.ones((4, 2)))
        net.backward()
        gradients.append(net.params["ip"][0].diff.copy())
    assert gradients[0].any()
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)


def test_tops_that_become_smaller_in_forward():
    net = caffe.Net(INPUT.replace("force_backward: true", "") + layer("Positive"), caffe.TEST)
    net.blobs["data"].data[...] = -1
    net.blobs["data"].data[0, 0, 0, :2] = [3, 4]
    np.testing.assert_array_equal(net.forward()["one"], [3, 4])


def test_a_lent_blob_says_that_it_is_gone():
    net = caffe.Net(INPUT + layer("Keeps"), caffe.TEST)
    net.forward()
    with pytest.raises(crema.Error, match="exists only while"):
        net.layers[1].lent.data


def solver_text(tmp_path):
    net = tmp_path / "net.prototxt"
    net.write_text("""
layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {
  shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } data_filler { type: 'gaussian' } } }
""" + layer("Counts") + """
layer { name: 'ip' type: 'InnerProduct' bottom: 'one' top: 'ip'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
""")
    return (f"net: '{net}' base_lr: 0.01 lr_policy: 'fixed' max_iter: 6 snapshot: 3 display: 1 "
            f"snapshot_prefix: '{tmp_path}/snap'\n")


def test_snapshots_hold_the_state(tmp_path):
    text = solver_text(tmp_path)
    solver = caffe.SGDSolver(text)
    solver.step(4)
    assert solver.net.layers[1].passes == 4
    other = caffe.SGDSolver(text)
    other.restore(str(tmp_path / "snap_iter_3.solverstate"))
    restored = other.net.layers[1]
    assert restored.passes == 3 and type(restored.passes) is int
    np.testing.assert_array_equal(restored.seen, [0, 1.5, 0])


def test_the_program_runs_layers_in_python(tmp_path):
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver_text(tmp_path))
    run = subprocess.run([sys.executable, "-m", "crema", "train", "--solver", str(solver), "--run_dir=none"],
                         capture_output=True, text=True, cwd=os.path.dirname(__file__))
    assert run.returncode == 0, run.stderr
    assert "Optimization Done." in run.stderr + run.stdout
    # Parsers of logs read the month and the day, without a year.
    assert re.search(r"^I\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+:\d+\] Iteration 0", run.stderr, re.M)
    assert (tmp_path / "snap_iter_6.caffemodel").exists()


def test_the_program_reports_errors_and_versions():
    run = subprocess.run([sys.executable, "-m", "crema", "--version"], capture_output=True,
                         text=True, check=True)
    assert run.stdout == f"crema {crema.__version__}\n"
    run = subprocess.run([sys.executable, "-m", "crema", "trian"], capture_output=True, text=True)
    assert run.returncode != 0 and "train" in run.stderr


# Layers behind the one that repeats its rows: in place, with two readers, and with parameters.
BEHIND_ROWS = """
layer {{ name: 'relu' type: 'ReLU' bottom: '{0}' top: '{0}' }}
layer {{ name: 'ip' type: 'InnerProduct' bottom: '{0}' top: 'ip'
  inner_product_param {{ num_output: 3 weight_filler {{ type: 'xavier' }} }} }}
layer {{ name: 'tanh' type: 'TanH' bottom: 'ip' top: 'ip' }}
layer {{ name: 'sum' type: 'Eltwise' bottom: '{0}' bottom: 'ip' top: 'sum' }}
layer {{ name: 'both' type: 'Concat' bottom: '{0}' bottom: 'sum' top: 'both' }}
layer {{ name: 'loss' type: 'Reduction' bottom: 'both' top: 'loss' loss_weight: 1
  reduction_param {{ operation: SUMSQ }} }}
"""
ROWS_INPUT = ("force_backward: true layer { name: 'data' type: 'Input' top: 'data' input_param { "
              "shape { dim: 2 dim: 3 } } }\n")
ROWS_NET = (ROWS_INPUT + "layer { name: 'before' type: 'Power' bottom: 'data' top: 'before' }\n" +
            layer("Rows", bottom="before") + BEHIND_ROWS.format("one"))


def rows_of(times):
    rows = np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32)
    rows[0, 0] = times
    return rows


def expected_of_rows(net, times):
    """The loss, and the gradients of the input and the weights, of a net without Python."""
    plain = caffe.Net(ROWS_INPUT.replace("dim: 2", f"dim: {2 * times}") +
                      "layer { name: 'before' type: 'Power' bottom: 'data' top: 'one' }" +
                      BEHIND_ROWS.format("one"), caffe.TRAIN, share_with=net)
    loss = plain.forward(data=np.concatenate([rows_of(times)] * times))["loss"].copy()
    plain.clear_param_diffs()  # shared with the net
    plain.backward()
    diff = plain.blobs["data"].diff.reshape(times, 2, 3).sum(0)
    return loss, diff, plain.params["ip"][0].diff.copy()


@pytest.mark.parametrize("optimize", [False, True])
def test_tops_that_become_larger_in_forward(optimize):
    net = caffe.Net(ROWS_NET, caffe.TRAIN, optimize=optimize, keep=["sum"] if optimize else ())
    python_layers.Rows.forwards = 0
    for passes, times in enumerate((1, 3, 2, 40, 1, 5), 1):
        loss = net.forward(data=rows_of(times))["loss"]
        assert python_layers.Rows.forwards == passes
        assert net.blobs["sum"].data.shape == (2 * times, 3)
        expected = expected_of_rows(net, times)
        np.testing.assert_allclose(loss, expected[0], rtol=1e-5)
        # The other net has added to the gradients that both share.
        net.clear_param_diffs()
        net.backward()
        np.testing.assert_allclose(net.blobs["data"].diff, expected[1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.params["ip"][0].diff, expected[2], rtol=1e-4, atol=1e-5)


def test_tops_that_become_larger_in_parts_of_a_net():
    net = caffe.Net(ROWS_NET, caffe.TRAIN)
    for times in (4, 1, 6):
        net.blobs["data"].data[...] = rows_of(times)
        for index in range(len(net.layers)):
            net._forward(index, index)
        net.clear_param_diffs()
        for index in reversed(range(len(net.layers))):
            net._backward(index, index)
        expected = expected_of_rows(net, times)
        np.testing.assert_allclose(net.blobs["loss"].data, expected[0], rtol=1e-5)
        np.testing.assert_allclose(net.blobs["data"].diff, expected[1], rtol=1e-4, atol=1e-5)


def test_tops_that_get_other_axes_in_forward():
    net = caffe.Net(INPUT + layer("Square") + """
layer { name: 'flat' type: 'Reshape' bottom: 'one' top: 'flat'
  reshape_param { shape { dim: -1 dim: 1 dim: 1 dim: 1 } } }
layer { name: 'pool' type: 'Pooling' bottom: 'flat' top: 'pool' pooling_param { kernel_size: 1 } }
layer { name: 'square' type: 'Power' bottom: 'one' top: 'square' power_param { power: 2 } }
layer { name: 'sum' type: 'Eltwise' bottom: 'one' bottom: 'square' top: 'sum' }
""", caffe.TEST)
    for height in (4, 6, 2):
        net.blobs["data"].reshape(2, 3, height, 5)
        data = np.random.rand(2, 3, height, 5)
        out = net.forward(data=data)
        kept = data[:, :2]
        np.testing.assert_allclose(out["sum"], kept + kept ** 2, rtol=1e-5)
        np.testing.assert_allclose(out["pool"].ravel(), kept.ravel(), rtol=1e-6)


def test_a_later_layer_that_refuses_rows_names_itself_and_them():
    net = caffe.Net(ROWS_INPUT + layer("Rows") + """
layer { name: 'other' type: 'Input' top: 'other' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'one' bottom: 'other' top: 'sum' }
""".replace("dim: 2", "dim: 1"), caffe.TEST)
    with pytest.raises(crema.Error, match=r"layer 'sum' \(Eltwise\).*6x3"):
        net.forward(data=rows_of(3), other=np.zeros((1, 3)))


def test_a_class_may_say_that_shapes_stay():
    net = caffe.Net(ROWS_INPUT.replace("dim: 2", "dim: 1") + layer("Stays"), caffe.TEST)
    assert net.forward(data=np.ones((1, 3)))["one"].shape == (1, 3)
    with pytest.raises(crema.Error, match="shapes_from_values = False"):
        net.forward(data=np.full((1, 3), 2))


@pytest.mark.parametrize("optimize", [False, True])
def test_a_solver_steps_over_tops_that_become_larger(tmp_path, optimize):
    proto = tmp_path / "net.prototxt"
    source = layer("Times", name="data", bottom="", top="data")
    proto.write_text(source + layer("Rows") + BEHIND_ROWS.format("one").replace("SUMSQ", "SUM"))
    solver = crema.Solver(f"net: '{proto}' base_lr: 0.01 lr_policy: 'fixed' max_iter: 9 "
                          f"snapshot_prefix: '{tmp_path}/s' snapshot_after_train: false\n",
                          optimize=optimize)
    weights = np.array(solver.net.params["ip"][0].data)
    for times in (1, 4, 2, 7, 1):
        rows = np.arange(6, dtype=np.float32).reshape(2, 3) / 10
        rows[0, 0] = times
        rows = np.concatenate([rows] * times)
        slope = 1 - np.tanh(rows @ weights.T + solver.net.params["ip"][1].data) ** 2
        bias = np.array(solver.net.params["ip"][1].data)
        solver.step(1)
        np.testing.assert_allclose(solver.net.params["ip"][0].data,
                                   weights - 0.01 * slope.T @ rows, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(solver.net.params["ip"][1].data, bias - 0.01 * slope.sum(0),
                                   rtol=1e-4, atol=1e-6)
        weights = np.array(solver.net.params["ip"][0].data)


def test_what_a_layer_makes_for_weights_and_regions_is_constant():
    net = caffe.Net(ROWS_INPUT.replace("dim: 2", "dim: 1") + """
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
""" + layer("Rows", bottom="ip") + """
layer { name: 'target' type: 'Input' top: 'target' input_param { shape { dim: 1 dim: 3 } } }
layer { name: 'loss' type: 'SmoothL1Loss' bottom: 'ip' bottom: 'target' bottom: 'one'
  bottom: 'one' top: 'loss' loss_weight: 1 }
""", caffe.TRAIN)
    net.params["ip"][0].data[0, 0] = 1  # as many times has Rows the rows
    net.forward(data=np.eye(1, 3), target=np.zeros((1, 3)))
    net.backward()
    assert np.any(net.params["ip"][0].diff)


# The labels of an image met the scores of the next one, when the net planned for it.
@pytest.mark.parametrize("optimize", [False, True])
def test_a_solver_trains_on_images_of_two_sizes(tmp_path, optimize):
    proto = tmp_path / "net.prototxt"
    learners = """
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param {
  num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'gaussian' std: 0.1 } } }
layer { name: 'scores' type: 'Reshape' bottom: 'conv' top: 'scores'
  reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'labels' top: 'loss' }
"""
    proto.write_text(layer("Images", name="data", bottom="", top="data")
                     + layer("Anchors", name="anchors", top="labels") + learners)
    solver = crema.Solver(f"net: '{proto}' base_lr: 1 lr_policy: 'fixed' max_iter: 99 "
                          f"snapshot_prefix: '{tmp_path}/s' snapshot_after_train: false\n",
                          optimize=optimize)
    given = """
layer { name: 'data' type: 'Input' top: 'data' top: 'labels' input_param {
  shape { dim: 1 dim: 3 dim: 6 dim: 5 } shape { dim: 1 dim: 1 dim: 18 dim: 5 } } }
"""
    labels = crema.Net(given + learners, phase=crema.TRAIN)
    labels.share_with(solver.net)
    losses = []
    for number in range(12):
        image = np.random.RandomState(number).normal(size=(1, 3, *python_layers.Images.sizes[
            number % 2]))
        labels.blobs["data"].reshape(*image.shape)
        labels.blobs["labels"].reshape(1, 1, 3 * image.shape[2], image.shape[3])
        expected = float(labels.forward(
            data=image, labels=(image > 0).reshape(labels.blobs["labels"].shape))["loss"])
        solver.step(1)
        losses.append(float(solver.net.blobs["loss"].data))
        assert losses[-1] == pytest.approx(expected, rel=1e-5), number
    assert losses[-1] < 0.7 * losses[0]


def test_a_layer_that_sets_no_shape_names_itself():
    with pytest.raises(crema.Error, match=r"layer 'one' \(Python\): class Shapeless has no "
                       r"reshape\(\), and sets no shape of top 'one'; define reshape"):
        caffe.Net(INPUT + layer("Shapeless"), caffe.TEST)
    net = caffe.Net(INPUT + layer("ShapelessBatch"), caffe.TEST)
    with pytest.raises(crema.Error, match=r"layer 'one' .*ShapelessBatch has set no shape of top "
                       r"'one'; .*top\[0\].reshape\(\*bottom\[0\].shape\)"):
        net.forward()
    source = caffe.Net(layer("ShapelessBatch", bottom=""), caffe.TEST)
    with pytest.raises(crema.Error, match=r"no shape of top 'one'; .*reshape\(batch, 3, 224, 224"):
        source.forward()


def test_a_layer_in_place_begins_with_its_bottom():
    net = caffe.Net(INPUT + layer("Tenfold") + layer("Clips", name="clips", bottom="one"),
                    caffe.TEST)
    for height in (4, 6):
        data = np.random.normal(size=(2, 3, height, 5)).astype(np.float32)
        net.blobs["data"].reshape(*data.shape)
        clipped = net.forward(data=data)["one"]
        np.testing.assert_allclose(clipped, np.maximum(10 * data, 0))
        net.blobs["one"].diff[...] = 1
        net.backward()
        np.testing.assert_array_equal(net.blobs["data"].diff, 10 * (data > 0))


# "pass" is the backward() of layers that choose regions. What else lay in the memory trained others.
@pytest.mark.parametrize("optimize", [False, True])
def test_a_diff_that_backward_does_not_write_is_zero(optimize):
    net = crema.Net(INPUT + """
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
""" + layer("Forgets", bottom="ip") + """
layer { name: 'loss' type: 'Reduction' bottom: 'one' top: 'loss' loss_weight: 1 }
""", phase=crema.TRAIN, optimize=optimize)
    for is_written in (True, False, False):
        net.clear_param_diffs()
        net.forward(data=np.ones((2, 3, 4, 5)))
        net.backward()
        assert (net.params["ip"][0].diff == 2 * is_written).all()


COLLECTS = """
import gc, threading
import crema

gc.disable()
collects, gone = threading.Event(), threading.Event()

class Collects(crema.Layer):
    prefetch = 2
    number = 0
    def reshape(self, bottom, top): top[0].reshape(2)
    def forward(self, bottom, top):
        self.number += 1
        top[0].data[...] = self.number
        if self.number > 1:
            assert collects.wait(60)
            gc.collect()
            top[0].data[...] = self.number
    def __del__(self): gone.set()

LAYERS = "layer { name: 'd' type: 'Python' top: 'd' python_param { module: '__main__' layer: 'Collects' } }"
if %r:
    owner = crema.Solver("base_lr: 1 lr_policy: 'fixed' max_iter: 9 snapshot_after_train: false net_param { "
                         + LAYERS + " layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'ip' "
                         "inner_product_param { num_output: 1 axis: 0 } } layer { name: 'l' "
                         "type: 'Reduction' bottom: 'ip' top: 'l' loss_weight: 1 } }")
    owner.on_iteration = lambda report, of=owner: None
    owner.step(1)
else:
    owner = crema.Net(LAYERS)
    owner.itself = owner
    assert owner.forward()['d'][0] == 1
del owner
collects.set()
assert gone.wait(60)
print('ends')
"""


# The thread that made batches waited for itself, and the process aborted.
@pytest.mark.parametrize("solves", [False, True])
def test_the_thread_of_a_source_may_collect_its_own_net(solves):
    done = subprocess.run([sys.executable, "-c", COLLECTS % solves], capture_output=True, text=True,
                          timeout=100)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
