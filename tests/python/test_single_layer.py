"""What forks of pycaffe added: layers without a net, and names that have another way here."""

import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2


def product():
    param = caffe_pb2.LayerParameter(name="ip", type="InnerProduct")
    param.inner_product_param.num_output = 4
    param.inner_product_param.weight_filler.type = "gaussian"
    return param


def test_a_layer_without_a_net():
    layer = caffe.create_layer(product())
    assert layer.type == "InnerProduct"
    with pytest.raises(caffe.Error, match="SetUp"):
        layer.blobs
    bottom, top = [caffe.Blob((2, 3))], [caffe.Blob([])]
    layer.SetUp(bottom, top)
    assert top[0].shape == (2, 4)
    weights = layer.blobs[0].data
    bottom[0].data[...] = [[1, 2, 3], [4, 5, 6]]
    layer.Forward(bottom, top)
    np.testing.assert_allclose(top[0].data, bottom[0].data @ weights.T, rtol=1e-5)
    top[0].diff[...] = 1
    layer.Backward(top, [True], bottom)
    np.testing.assert_allclose(bottom[0].diff, np.ones((2, 4)) @ weights, rtol=1e-5)
    np.testing.assert_allclose(layer.blobs[0].diff[0], [5, 7, 9])
    bottom[0].reshape(5, 3)
    layer.Reshape(bottom, top)
    assert top[0].shape == (5, 4)


def test_a_layer_in_python_without_a_net():
    param = caffe.LayerParameter("type: 'Python' python_param { module: 'python_layers' "
                                 "layer: 'Tenfold' param_str: '3' }")
    assert caffe.LayerParameter.from_python(param.to_python()).to_python() == param.to_python()
    layer = caffe.create_layer(param)
    bottom, top = [caffe.Blob((1, 2))], [caffe.Blob()]
    layer.SetUp(bottom, top)
    bottom[0].data[...] = 2
    layer.Forward(bottom, top)
    np.testing.assert_array_equal(top[0].data, [[6, 6]])
    top[0].diff[...] = 1
    layer.Backward(top, [False], bottom)
    assert not bottom[0].diff.any()
    layer.Backward(top, [True], bottom)
    np.testing.assert_array_equal(bottom[0].diff, [[3, 3]])


def test_a_loss_without_a_net_takes_its_weight_from_the_diff_of_its_top():
    layer = caffe.create_layer(caffe_pb2.LayerParameter(type="EuclideanLoss"))
    bottom, top = [caffe.Blob((2, 3)), caffe.Blob((2, 3))], [caffe.Blob()]
    layer.SetUp(bottom, top)
    bottom[0].data[...] = 4
    layer.Forward(bottom, top)
    assert top[0].data == 24
    top[0].diff[...] = 3
    layer.Backward(top, [True, True], bottom)
    np.testing.assert_allclose(bottom[0].diff, np.full((2, 3), 6))
    np.testing.assert_allclose(bottom[1].diff, np.full((2, 3), -6))


def test_the_text_of_a_net(deploy_net, tmp_path):
    (tmp_path / "net.prototxt").write_text(deploy_net)
    text = caffe.compile_net(str(tmp_path / "net.prototxt"), caffe.TEST, "MKLDNN")
    assert caffe.Net(text, caffe.TEST).outputs == ["ip"]


def test_one_device_of_several(monkeypatch):
    chosen = []
    monkeypatch.setattr(caffe.pycaffe, "set_device", chosen.append)
    caffe.set_devices((1,))
    with pytest.warns(UserWarning, match="one GPU"):
        caffe.set_devices([2, 3])
    assert chosen == [1, 2]


@pytest.mark.parametrize("name", ["MultiSync", "MultiSolver", "enumerate_devices",
                                  "select_device"])
def test_names_of_forks_say_what_to_call(name):
    with pytest.raises(AttributeError, match="is of a fork; "):
        getattr(caffe, name)


def test_a_solver_says_who_counts(solver_file):
    with pytest.raises(AttributeError, match="step"):
        caffe.get_solver(solver_file).increment_iter()
