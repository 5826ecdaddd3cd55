"""What users write by mistake: each error says what to write instead."""

import copy
import pathlib
import pickle
import sys
import types

import numpy as np
import pytest

import caffe
import crema


@pytest.mark.parametrize("shape, way", [
    ((5, 1, 8, 8),
     r"5x1x8x8, and the blob 2x1x8x8; call net.blobs\['data'\].reshape\(5, 1, 8, 8\)"),
    ((2, 8, 8, 1), r"2x8x8x1, .* axes are \(N, C, H, W\): give array.transpose\(0, 3, 1, 2\)"),
    ((2, 64), r"2x64, and the blob 2x1x8x8; give an array of the same shape"),
    ((), "scalar, and the blob 2x1x8x8"),
])
def test_an_input_of_another_shape(deploy_net, shape, way):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 7
    with pytest.raises(ValueError, match=way):
        net.forward(data=np.zeros(shape))
    assert (net.blobs["data"].data == 7).all()


def test_the_call_that_an_error_names_is_the_way_out(deploy_net):
    net = crema.Net(deploy_net)
    images = np.zeros((5, 1, 8, 8))
    with pytest.raises(ValueError) as caught:
        net.forward(data=images)
    call = str(caught.value).partition("call ")[2].removesuffix(" first")
    eval(call, {"net": net})
    assert net.forward(data=images)["ip"].shape == (5, 3)


def test_values_that_are_no_numbers_keep_the_error_of_numpy(deploy_net):
    net = crema.Net(deploy_net)
    with pytest.raises(ValueError, match="could not convert string"):
        net.forward(data=np.full((2, 1, 8, 8), "a"))
    with pytest.raises(ValueError, match="inhomogeneous|sequence"):
        net.forward(data=[[1, 2], [3]])


def test_a_gradient_of_another_shape(small_net):
    net = crema.Net(small_net, phase=crema.TRAIN)
    net.forward()
    with pytest.raises(ValueError, match="'ip_blob' has the shape 5x4, and the blob 5x3"):
        net.backward(start="ip", ip_blob=np.ones((5, 4)))


def test_arrays_and_names_by_position(deploy_net):
    net = crema.Net(deploy_net)
    with pytest.raises(TypeError, match="such as data=array; blobs is a list"):
        net.forward(np.zeros((2, 1, 8, 8)))
    with pytest.raises(TypeError, match=r"blobs=\['conv'\]"):
        net.forward(blobs="conv")
    with pytest.raises(TypeError, match=r"this is a dict; .* \*\*\{'name': array\}"):
        net.forward({"data": np.zeros((2, 1, 8, 8))})


def test_parts_in_the_wrong_order(small_net):
    net = crema.Net(small_net, phase=crema.TRAIN)
    with pytest.raises(crema.Error, match="start at layer 'ip' and end at 'conv', which is before"):
        net.forward(start="ip", end="conv")
    with pytest.raises(crema.Error, match="start at layer 'conv' and end at 'ip', which is behind"):
        net.backward(start="conv", end="ip")


def test_what_a_net_holds_is_written_and_not_replaced(deploy_net):
    net = crema.Net(deploy_net)
    blob, weights = net.blobs["data"], net.params["conv"][0]
    with pytest.raises(TypeError, match=r"net.blobs\['data'\].data\[\.\.\.\] = array"):
        net.blobs["data"] = np.zeros((2, 1, 8, 8))
    with pytest.raises(TypeError, match=r"net.params\['conv'\]\[0\].data\[\.\.\.\] = array"):
        net.params["conv"] = np.zeros((16, 1, 3, 3))
    with pytest.raises(TypeError, match=r"\[0\].data\[\.\.\.\] = values"):
        net.params["conv"][0] = np.zeros((16, 1, 3, 3))
    assert net.blobs["data"] is blob and net.params["conv"][0] is weights


def test_a_parameter_that_is_not_there(deploy_net):
    params = crema.Net(deploy_net).params["conv"]
    with pytest.raises(IndexError, match=r"parameter 2; the layer has 2: \(16, 1, 3, 3\), \(16,\)"):
        params[2]
    assert params[-1].shape == (16,) and [blob.shape for blob in params[:1]] == [(16, 1, 3, 3)]


def test_a_solver_is_no_net(solver_file, small_net):
    solver = crema.Solver(solver_file)
    net = crema.Net(small_net)
    for call in (lambda: net.share_with(solver), lambda: crema.Net(small_net, share_with=solver)):
        with pytest.raises(TypeError, match="not Solver; name its net, solver.net"):
            call()
    with pytest.raises(TypeError, match="takes a crema.Net, not str$"):
        net.share_with("net.prototxt")


def test_solvers_are_not_pickled(solver_file):
    solver = crema.Solver(solver_file)
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="snapshot"):
            call(solver)


def test_steps_are_whole_numbers(solver_file):
    solver = crema.Solver(solver_file)
    with pytest.raises(TypeError, match="iterations is '3'; give a whole number"):
        solver.step("3")
    with pytest.raises(TypeError, match="iterations is 2.0"):
        solver.step(2.0)
    with pytest.raises(ValueError, match="iterations is -3"):
        solver.step(-3)
    assert solver.step(np.int64(1)) and solver.iteration == 1


def test_a_phase_that_is_a_text(deploy_net):
    with pytest.raises(TypeError, match="phase 'TEST' is neither caffe.TRAIN nor caffe.TEST"):
        caffe.Net(deploy_net, "net.caffemodel", "TEST")


@pytest.mark.parametrize("name, error, says", [
    ("Doubel", AttributeError, "'layers_of_mistakes' has no class 'Doubel'; did you mean 'Double'"),
    ("Plain", TypeError, "layers_of_mistakes.Plain is no layer; derive the class from crema.Layer"),
])
def test_a_class_that_is_no_layer(monkeypatch, name, error, says):
    module = types.ModuleType("layers_of_mistakes")
    module.Double = type("Double", (crema.Layer,), {})
    module.Plain = type("Plain", (), {})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(error, match=says):
        crema.Net("layer { name: 'l' type: 'Python' top: 'y' python_param { "
                  f"module: 'layers_of_mistakes' layer: '{name}' }} }}")


def test_data_are_fed_to_nets():
    with pytest.raises(TypeError, match="takes a net or a solver first, not ndarray"):
        crema.feed(np.zeros((2, 1, 8, 8)), [0, 1])


@pytest.mark.parametrize("data", ["images/", b"list.txt", pathlib.Path("images")])
def test_a_path_is_no_data(data):
    net = crema.Net("layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' "
                    "memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }")
    with pytest.raises(crema.Error, match="is a path, and feed takes samples.*PIL.*ImageData"):
        crema.feed(net, data)


def test_labels_that_are_text():
    net = crema.Net("layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' "
                    "memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }")
    names = ["cat", "dog", "cat"]
    for labels in (names, np.array(names), np.array(names, object)):
        with pytest.raises(crema.Error, match="labels are text, such as 'cat'.*numpy.unique"):
            crema.feed(net, np.zeros((3, 2, 2)), labels)
    classes, numbers = np.unique(names, return_inverse=True)
    with crema.feed(net, np.zeros((3, 2, 2)), numbers):
        net.forward()
        assert classes[net.blobs["label"].data.astype(int)].tolist() == ["cat", "dog"]


def test_keywords_that_are_spelled_wrong(deploy_net, solver_file):
    for call, words in (
            (lambda: crema.Net(deploy_net, backwards=True), "Net takes no argument 'backwards'; "
             "did you mean 'backward'"),
            (lambda: caffe.Net(deploy_net, caffe.TEST, optimise=True), "did you mean 'optimize'"),
            (lambda: crema.Net(deploy_net, qqq=1), "no argument 'qqq'; there are source, weights"),
            (lambda: crema.Solver(solver_file, weight="a"), "Solver takes no argument 'weight'; "
             "did you mean 'weights'"),
            (lambda: crema.feed(crema.Net(deploy_net), [], label=[1]), "feed takes no argument "
             "'label'; did you mean 'labels'")):
        with pytest.raises(TypeError, match=words):
            call()


def test_what_blobs_do_not_have(deploy_net):
    net = crema.Net(deploy_net)
    blob = net.blobs["data"]
    for name, words in (("save", r"numpy.save\(path, blob.data\).*net.save"),
                        ("mean", "blob.data.mean"), ("grad", "blob.diff"),
                        ("datta", "no attribute 'datta'$")):
        with pytest.raises(AttributeError, match=words) as caught:
            getattr(blob, name)
        assert (caught.value.name, caught.value.obj) == (name, blob)
    assert not hasattr(blob, "mean") and np.asarray(blob).shape == (2, 1, 8, 8)


def test_arrays_of_blobs_are_written_and_not_replaced(deploy_net):
    blob = crema.Net(deploy_net).blobs["data"]
    for name in ("data", "diff"):
        with pytest.raises(AttributeError, match=rf"blob.{name}\[...\] = array"):
            setattr(blob, name, np.zeros((2, 1, 8, 8), np.float32))
    blob.data[...] = 3
    blob.data += 1
    blob.diff -= 2
    assert (blob.data == 4).all() and (blob.diff == -2).all()
    with pytest.raises(AttributeError):
        blob.dat = 3


def test_what_nets_and_solvers_of_other_packages_have(deploy_net, solver_file):
    net, solver = crema.Net(deploy_net), crema.Solver(solver_file)
    for thing, name, words in (
            (net, "predict", "crema.Estimator"), (net, "state_dict", r"net.params\["),
            (net, "eval", "phase=crema.TRAIN"), (net, "cuda", r"crema.Context\(0\)"),
            (net, "ouputs", "no attribute 'ouputs'$"), (solver, "fit", r"solver.solve\(\)"),
            (caffe.Net(deploy_net, caffe.TEST), "predict", "crema.Estimator"),
            (caffe.SGDSolver(solver_file), "train", "crema.train"),
            (net.blobs, "conv", r"net.blobs\['conv'\]$"),
            (net.params, "conv", r"net.params\['conv'\]$")):
        with pytest.raises(AttributeError, match=words) as caught:
            getattr(thing, name)
        assert caught.value.name == name


def test_backward_of_a_net_without_it(deploy_net):
    net = crema.Net(deploy_net)
    for call in (net.backward, lambda: net.backward(start="ip", end="pool")):
        with pytest.raises(crema.Error, match=r"crema.Net\(..., backward=True\)"):
            call()


def test_blobs_are_not_pickled_and_their_values_are(deploy_net, tmp_path):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 3
    for call in (pickle.dumps, copy.deepcopy):
        for thing in (net.blobs["data"], net.params["conv"], net.params):
            with pytest.raises(TypeError, match=r"take blob.data.copy\(\), or the net"):
                call(thing)
    views = {name: blob.data for name, blob in net.blobs.items()}
    again = pickle.loads(pickle.dumps(views))
    net.blobs["data"].data[...] = 4
    assert (again["data"] == 3).all()
    # Blobs themselves are arrays to numpy.
    np.savez(tmp_path / "a.npz", data=net.blobs["data"], weights=net.params["conv"][0].data)
    with np.load(tmp_path / "a.npz") as saved:
        assert (saved["data"] == 4).all()
        np.testing.assert_array_equal(saved["weights"], net.params["conv"][0].data)


def test_arrays_are_no_file_of_weights(deploy_net):
    with pytest.raises(TypeError, match=r"weights are files, .* dict; .*\[0\].data\[\.\.\.\] ="):
        crema.Net(deploy_net, {"conv.weight": np.zeros((16, 1, 3, 3))})
    with pytest.raises(TypeError, match="a dict is no file and no message"):
        crema.Net(deploy_net).load({"conv.weight": np.zeros((16, 1, 3, 3))})


def test_images_of_old_idioms(deploy_net, tmp_path):
    pytest.importorskip("google.protobuf", reason="needs protobuf")
    file = tmp_path / "net.prototxt"
    file.write_text(deploy_net)
    net = caffe.Classifier(str(file), None)
    assert net.predict(np.zeros((3, 8, 8, 1))).shape == (3, 3)
    for oversample in (True, False):
        with pytest.raises(ValueError, match=r"such as \[image\]; one .* shape \(8, 1\)"):
            net.predict(np.zeros((8, 8, 1)), oversample)
    with pytest.raises(TypeError, match=r"give its shape: net.blobs\['data'\].shape"):
        caffe.io.Transformer({"data": net.blobs["data"]})


def test_a_name_as_bottom_of_a_layer():
    pytest.importorskip("google.protobuf", reason="needs protobuf")
    with pytest.raises(TypeError, match="give what a layer returned, not its name"):
        crema.layers.ReLU("data")


def test_parameters_that_cannot_be_shared(deploy_net):
    net = crema.Net(deploy_net)
    wider = crema.Net(deploy_net.replace("num_output: 16", "num_output: 8"))
    with pytest.raises(crema.Error, match=r"layer 'conv' \(Convolution\): its parameter 0 is of "
                       r"shape 16x1x3x3, and that of the net .* of 8x1x3x3; make the settings"):
        net.share_with(wider)
    biased = crema.Net(deploy_net.replace("num_output: 16", "num_output: 16 bias_term: false"))
    with pytest.raises(crema.Error, match="layer 'conv' .*has 2 parameters, .* has 1; make"):
        net.share_with(biased)


def test_options_have_their_names_of_python(small_net, deploy_net):
    net = crema.Net(small_net, backward=False)
    net.forward()
    with pytest.raises(crema.Error, match="built without backward; .*backward=True") as caught:
        net.backward()
    assert "::" not in str(caught.value) and "::" not in caught.value.message
    with pytest.raises(crema.Error, match="no gradients; build that one with backward=True$"):
        crema.Net(small_net, phase=crema.TRAIN, share_with=net)


@pytest.mark.parametrize("dims, meant", [
    ((-1,), r"such as reshape\(128\) for the 128 values"),
    ((2, -1, 8), r"reshape\(2, -1, 8\) of a blob: .* such as reshape\(2, 8, 8\)"),
    ((-1, 3), "give all of them$"), ((2, -3), "give all of them$"), ((-1, -1), "all of them$"),
    ((-1, 0), "all of them$")])
def test_a_dimension_that_is_to_be_found_out(deploy_net, dims, meant):
    net = crema.Net(deploy_net)
    with pytest.raises(crema.Error, match=meant):
        net.blobs["data"].reshape(*dims)
    assert net.blobs["data"].shape == (2, 1, 8, 8)


def test_memory_data_without_data():
    net = caffe.Net("layer { name: 'm' type: 'MemoryData' top: 'x' top: 'y' memory_data_param { "
                    "batch_size: 2 channels: 1 height: 2 width: 2 } }", caffe.TEST)
    with pytest.raises(crema.Error, match=r"layer 'm' .*no data; .*crema\.feed\(net, images, "
                       r"labels\), .*set_input_arrays\(images, labels\)"):
        net.forward()


def test_weights_of_other_frameworks(deploy_net, tmp_path):
    import zipfile

    torch, keras = tmp_path / "net.pth", tmp_path / "net.keras"
    with zipfile.ZipFile(torch, "w") as archive:
        archive.writestr("net/data.pkl", b"\x80\x02}q\0.")
    with zipfile.ZipFile(keras, "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.4.1"}')
    header = b'{"conv.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (tmp_path / "net.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    (tmp_path / "old.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + b"\0" * 99)
    for name, kind in (("net.pth", "a file of PyTorch"), ("old.pt", "a file of PyTorch"),
                       ("net.keras", "a model of Keras"), ("net.safetensors", "a safetensors file")):
        way = (rf"{name}' is not a weights file but {kind}; scripts/from_torchvision.py .*"
               r"net.params\['conv1'\]\[0\].data\[...\] = weights, .*net.save\(")
        with pytest.raises(crema.Error, match=way):
            crema.Net(deploy_net, str(tmp_path / name))
        with pytest.raises(crema.Error, match=way):
            crema.Net(deploy_net).load(str(tmp_path / name))
