"""Layers written in Python."""

import os
import subprocess
import sys
import traceback

import numpy as np
import pytest

import caffe
import crema


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
    run = subprocess.run([sys.executable, "-m", "crema", "train", "--solver", str(solver)],
                         capture_output=True, text=True, cwd=os.path.dirname(__file__))
    assert run.returncode == 0, run.stderr
    assert "Optimization Done." in run.stderr + run.stdout
    assert (tmp_path / "snap_iter_6.caffemodel").exists()


def test_the_program_reports_errors_and_versions():
    run = subprocess.run([sys.executable, "-m", "crema", "--version"], capture_output=True,
                         text=True, check=True)
    assert run.stdout == f"crema {crema.__version__}\n"
    run = subprocess.run([sys.executable, "-m", "crema", "trian"], capture_output=True, text=True)
    assert run.returncode != 0 and "train" in run.stderr
