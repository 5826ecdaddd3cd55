"""Nets as models of ONNX: written, checked, run by onnxruntime, and read again."""

import numpy as np
import pytest

import caffe
import crema

SHAPES = (2, 1, 8, 8)


@pytest.fixture
def images():
    return np.random.default_rng(3).standard_normal(SHAPES).astype(np.float32)


@pytest.fixture
def exported(deploy_net, tmp_path):
    """(net, path of its model)."""
    net = crema.Net(deploy_net)
    path = tmp_path / "net.onnx"
    report = net.save_onnx(path)
    assert report.custom == [] and isinstance(report.notes, list)
    return net, path


def test_a_model_is_a_net_with_weights(exported, images):
    net, path = exported
    expected = net.forward(data=images)["ip"]
    for again in (crema.Net(path), crema.Net(str(path)), caffe.Net(str(path), caffe.TEST)):
        assert again.inputs == net.inputs and again.outputs == net.outputs
        np.testing.assert_allclose(again.forward(data=images)["ip"], expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(again.params["conv"][0].data, net.params["conv"][0].data)


def test_a_model_is_a_file_of_weights(deploy_net, exported):
    net, path = exported
    other = crema.Net(deploy_net, context=crema.Context(seed=99))
    assert not np.array_equal(other.params["conv"][0].data, net.params["conv"][0].data)
    for loaded in (crema.Net(deploy_net, path), other):
        if loaded is other:
            assert sorted(other.load(path).loaded) == ["conv", "ip"]
        for layer in ("conv", "ip"):
            for ours, theirs in zip(loaded.params[layer], net.params[layer]):
                np.testing.assert_array_equal(ours.data, theirs.data)


def test_an_imported_net_trains(exported, images):
    text = crema.Net(exported[1]).to_prototxt() + """
layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 2 } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
"""
    net = crema.Net(text, exported[1], phase=crema.TRAIN)
    net.forward(data=images, label=np.array([0, 2]))
    net.backward()
    assert np.abs(net.params["conv"][0].diff).max() > 0


def test_open_batch(deploy_net, tmp_path, images):
    net = crema.Net(deploy_net)
    net.save_onnx(tmp_path / "open.onnx", dynamic_batch=True)
    again = crema.Net(tmp_path / "open.onnx")
    again.blobs["data"].reshape(5, *SHAPES[1:])
    assert again.forward(data=np.resize(images, (5, *SHAPES[1:])))["ip"].shape == (5, 3)


def test_metadata_are_those_of_the_weights(exported, tmp_path, deploy_net):
    net, path = exported
    with pytest.raises(crema.Error, match="preprocess"):
        net.save_onnx(tmp_path / "no.onnx", preprocess=True)
    assert not (tmp_path / "no.onnx").exists()
    messages = pytest.importorskip("crema.messages")
    weights = messages.NetParameter()
    weights.ParseFromString(net.to_bytes())
    weights.origin.class_name[:] = ["ant", "bee", "cow"]
    weights.origin.transform.scale = 0.5
    file = tmp_path / "net.caffemodel"
    file.write_bytes(weights.SerializeToString())
    crema.Net(deploy_net, file).save_onnx(tmp_path / "said.onnx")
    # The metadata hold names as they are.
    assert b'["ant", "bee", "cow"]' in (tmp_path / "said.onnx").read_bytes()
    assert b'"ant"' not in path.read_bytes()


def test_what_cannot_be_exported_is_named(small_net, exported, tmp_path):
    with pytest.raises(crema.Error, match=r"(?s)'data' \(DummyData\).*'loss' \(SoftmaxWithLoss\)"):
        crema.Net(small_net).save_onnx(tmp_path / "no.onnx")
    with pytest.raises(crema.Error, match="phase TRAIN"):
        crema.Net(exported[1], phase=crema.TRAIN).save_onnx(tmp_path / "no.onnx")
    with pytest.raises(crema.Error, match="13 to 23"):
        exported[0].save_onnx(tmp_path / "no.onnx", opset=12)
    assert not (tmp_path / "no.onnx").exists()


def test_damaged_models_are_errors(exported, tmp_path):
    whole = exported[1].read_bytes()
    cut = tmp_path / "cut.onnx"
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(crema.Error, match="cut.onnx"):
            crema.Net(cut)
    with pytest.raises(crema.Error, match="none.onnx"):
        crema.Net(tmp_path / "none.onnx")


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("fold", [False, True])
def test_checker_and_onnxruntime_agree(deploy_net, tmp_path, images, opset, fold):
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    net = crema.Net(deploy_net)
    path = str(tmp_path / "net.onnx")
    net.save_onnx(path, opset=opset, fold=fold)
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = net.forward(data=images)["ip"]
    (given,) = session.run(["ip"], {"data": images})
    assert np.abs(given - expected).max() <= 1e-5 * np.abs(expected).max()
