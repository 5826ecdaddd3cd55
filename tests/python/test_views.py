"""blob.data and blob.diff: one memory, live, writable, longer than the net."""

import gc
import warnings

import numpy as np
import pytest

import crema


def address(array):
    return array.__array_interface__["data"][0]


def test_data_is_the_same_memory_at_each_access_and_across_passes(small_net):
    net = crema.Net(small_net, phase=crema.TRAIN)
    for name, blob in net.blobs.items():
        first, gradient = address(blob.data), address(blob.diff)
        net.forward()
        net.backward()
        assert address(blob.data) == first, name
        assert address(blob.diff) == gradient, name
        assert blob.data.flags.writeable and blob.diff.flags.writeable


def test_a_view_shows_what_the_next_forward_writes(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 1
    out = net.forward()["ip"]
    before = out.copy()
    net.blobs["data"].data[...] = 2
    net.forward()
    assert not np.allclose(out, before)


def test_setting_the_shape_of_one_array_leaves_the_next_one_alone(deploy_net):
    blob = crema.Net(deploy_net).blobs["data"]
    flat = blob.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy 2.5 asks for reshape()
        flat.shape = (128,)
    assert blob.data.shape == (2, 1, 8, 8)


def test_every_blob_keeps_its_value(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = np.random.default_rng(1).normal(size=(2, 1, 8, 8))
    net.forward()
    values = {name: blob.data.copy() for name, blob in net.blobs.items()}
    assert (values["conv"] < 0).any()
    np.testing.assert_array_equal(values["relu"], np.maximum(values["conv"], 0))
    np.testing.assert_allclose(values["pool"], values["relu"].mean((2, 3), keepdims=True),
                               rtol=1e-5, atol=1e-6)


def test_writing_weights_counts_at_the_next_forward(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 1
    net.forward()
    kept = net.params["conv"][0].data  # writable all the time
    for value in (1.0, 2.0, 3.0):
        kept[...] = value
        net.forward()
        np.testing.assert_allclose(net.blobs["conv"].data, 9 * value, rtol=1e-5)
    del kept
    net.params["conv"][0].data[...] = 4
    net.forward()
    net.forward()
    np.testing.assert_allclose(net.blobs["conv"].data, 36, rtol=1e-5)


@pytest.mark.parametrize("hold", [
    lambda array: array,
    lambda array: array[2:],
    lambda array: array.reshape(-1),
    lambda array: array.T,
    np.asarray,
    memoryview,
], ids=["array", "part", "reshaped", "transposed", "asarray", "memoryview"])
def test_any_view_of_weights_counts_while_it_is_held(deploy_net, hold):
    """A view that is derived from an array of weights, when the array itself is gone."""
    net = crema.Net(deploy_net)
    blob = net.params["conv"][0]
    net.blobs["data"].data[...] = 1
    held = hold(blob.data)
    for value in (1.0, 2.0):
        net.forward()
        blob.data  # another array comes and goes
        net.forward()
        np.asarray(held)[...] = value
        net.forward()
        np.testing.assert_allclose(net.blobs["conv"].data[:, 2:], 9 * value, rtol=1e-5)


def check_that_writes_count(weights, net, other):
    """What is written into weights of conv, which the nets share, counts after passes of both."""
    for value in (1.0, 2.0):
        net.forward()
        other.forward()
        weights[...] = value
        net.forward()
        np.testing.assert_allclose(net.blobs["conv"].data, 9 * value, rtol=1e-5)


def test_weights_that_are_shared_count_in_both_nets(deploy_net):
    one, two = crema.Net(deploy_net), crema.Net(deploy_net)
    two.share_with(one)
    two.blobs["data"].data[...] = 1
    kept = one.params["conv"][0].data
    check_that_writes_count(kept, two, one)


def test_an_array_of_weights_counts_when_its_blob_is_gone(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 1
    kept = net.params["conv"][0].data
    net._params = None
    gc.collect()
    for value in (1.0, 2.0):
        net.forward()
        kept[...] = value
        net.forward()
        np.testing.assert_allclose(net.blobs["conv"].data, 9 * value, rtol=1e-5)


def test_weights_have_the_published_order(deploy_net):
    net = crema.Net(deploy_net)
    assert net.params["conv"][0].data.shape == (16, 1, 3, 3)
    assert net.params["ip"][0].data.shape == (3, 16)
    net.blobs["data"].data[...] = np.random.default_rng(2).normal(size=(2, 1, 8, 8))
    out = net.forward()["ip"]
    weight, bias = (blob.data for blob in net.params["ip"])
    expected = net.blobs["pool"].data.reshape(2, 16) @ weight.T + bias
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_forward_follows_a_reshaped_input(deploy_net):
    net = crema.Net(deploy_net)
    blob = net.blobs["data"]
    blob.reshape(5, 1, 12, 10)
    assert blob.data.shape == (5, 1, 12, 10)
    blob.data[...] = 1
    assert net.forward()["ip"].shape == (5, 3)
    assert net.blobs["conv"].data.shape == (5, 16, 10, 8)
    weights = net.params["conv"][0].data.sum((1, 2, 3))
    np.testing.assert_allclose(net.blobs["conv"].data[4, :, 3, 3], weights, rtol=1e-4, atol=1e-5)
    blob.reshape((1, 1, 8, 8))
    assert net.forward()["ip"].shape == (1, 3)


def test_only_inputs_are_reshaped(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["conv"].reshape(*net.blobs["conv"].shape)
    with pytest.raises(crema.Error, match="no input"):
        net.blobs["conv"].reshape(1, 2, 3, 4)


def test_views_and_blobs_outlive_the_net(small_net):
    net = crema.Net(small_net, phase=crema.TRAIN)
    net.forward()
    net.backward()
    arrays = [array for blob in net.blobs.values() for array in (blob.data, blob.diff)]
    arrays += [blob.data for blobs in net.params.values() for blob in blobs]
    copies = [array.copy() for array in arrays]
    blobs = list(net.blobs.values())
    del net
    gc.collect()
    for array, copy in zip(arrays, copies):
        np.testing.assert_array_equal(array, copy)
        array[...] = 1
    assert sum(blob.data.sum() for blob in blobs) > 0


def test_layers_in_place_have_one_memory_for_a_script(small_net):
    net = crema.Net(small_net, phase=crema.TRAIN)
    net.forward(end="conv")
    before = net.blobs["conv"].data.copy()
    assert (before < 0).any()
    net.forward(start="relu", end="relu")
    np.testing.assert_array_equal(net.blobs["conv"].data, np.maximum(before, 0))
    net.blobs["conv"].data[...] = -3
    net.forward(start="relu", end="relu")
    assert (net.blobs["conv"].data == 0).all()


def test_gradients_in_place_go_through_the_shown_blob(small_net):
    net = crema.Net(small_net, phase=crema.TRAIN)
    net.forward(end="conv")
    net.blobs["conv"].diff[...] = 1
    given = net.backward(start="conv")
    weight = net.params["conv"][0].data
    assert set(given) == set(net.inputs)
    # An inner pixel of the input meets all 9 weights of each output.
    expected = weight.sum((0, 2, 3))
    np.testing.assert_allclose(net.blobs["data"].diff[0, :, 3, 3], expected, rtol=1e-4, atol=1e-5)


def test_backward_from_a_blob_with_several_readers():
    """As deepdream does it: forward to a layer, its diff by hand, backward from there."""
    net = crema.Net("""
force_backward: true
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer { name: 'a' type: 'Power' bottom: 'data' top: 'a' power_param { scale: 3 } }
layer { name: 'b' type: 'Power' bottom: 'a' top: 'b' power_param { scale: 2 } }
layer { name: 'c' type: 'Power' bottom: 'a' top: 'c' power_param { scale: 5 } }
""")
    net.blobs["data"].data[...] = 1
    net.forward(end="a")
    net.blobs["a"].diff[...] = net.blobs["a"].data
    net.backward(start="a")
    np.testing.assert_allclose(net.blobs["data"].diff, 9)


def test_a_blob_is_an_array_for_numpy(deploy_net):
    blob = crema.Net(deploy_net).blobs["data"]
    assert address(np.asarray(blob)) == address(blob.data)
    assert address(np.from_dlpack(blob)) == address(blob.data)
    assert (blob.num, blob.channels, blob.height, blob.width, blob.count) == (2, 1, 8, 8, 128)


def test_from_dlpack_of_arrays_and_blobs(deploy_net):
    net = crema.Net(deploy_net)
    for blob in (net.blobs["data"], net.params["conv"][0]):
        shown = np.from_dlpack(blob.data)
        blob.data[...] = 4
        assert address(shown) == address(blob.data) and (shown == 4).all()
        assert blob.__dlpack_device__() == (1, 0)
    kept = np.from_dlpack(net.blobs["data"])
    del net, blob
    gc.collect()
    assert (kept == 4).all()


def test_array_interface(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 3

    class Other:
        __array_interface__ = net.blobs["data"].__array_interface__

    del net
    gc.collect()
    shown = np.asarray(Other())
    del Other
    gc.collect()
    assert shown.shape == (2, 1, 8, 8) and (shown == 3).all()


def test_an_array_that_numpy_takes_from_a_blob_keeps_its_memory(deploy_net):
    net = crema.Net(deploy_net)
    blob = net.blobs["data"]
    kept = np.asarray(blob)
    kept[...] = 3
    assert kept.base is not blob  # else it would be lost with the memory that the blob has now
    blob.reshape(64, 1, 32, 32)
    blob.data[...] = 1
    net.forward()
    assert (kept == 3).all()


def test_weights_that_numpy_takes_from_a_blob_count(deploy_net):
    net = crema.Net(deploy_net)
    net.blobs["data"].data[...] = 1
    held = np.asarray(net.params["conv"][0])
    check_that_writes_count(held, net, net)


def test_copies_that_a_caller_does_not_allow(deploy_net):
    blob = crema.Net(deploy_net).blobs["data"]
    assert blob.__array__(copy=True).flags.owndata
    assert blob.__array__(np.float64).dtype == np.float64
    assert address(blob.__array__(np.float32, copy=False)) == address(blob.data)
    with pytest.raises(ValueError, match="copy=False"):
        blob.__array__(np.float64, copy=False)


def test_dimensions_are_whole_numbers_of_any_type(deploy_net):
    blob = crema.Net(deploy_net).blobs["data"]
    for dims in ([np.array([3, 1, 8, 8])], [np.int64(3), 1, 16 / 2, 8.0], [[3, 1, 8, 8]]):
        blob.reshape(2, 1, 8, 8)
        blob.reshape(*dims)
        assert blob.shape == (3, 1, 8, 8)
    with pytest.raises(TypeError, match="2.5 is no whole number"):
        blob.reshape(2.5, 1, 8, 8)
    with pytest.raises(crema.Error, match="negative"):
        blob.reshape(-1, 1, 8, 8)


class OnGpu:
    """Stands for a tensor on a GPU, as numpy cannot read one."""

    def __init__(self, values):
        self.values = values

    def __dlpack_device__(self):
        return (2, 0)

    def __array__(self, *_, **__):
        raise TypeError("the values are on the GPU")

    def get(self):
        return self.values


def test_tensors_of_a_gpu_are_copied_there():
    from crema import _device_array

    class Taken:
        given = None

        def take_from_device(self, value, of_diff):
            self.given = (value, of_diff)
            return True

    blob = Taken()
    host = np.zeros((2, 3), np.float32)
    array = _device_array.of(host, blob, True)
    tensor = OnGpu(np.ones((2, 3)))
    array[...] = tensor
    assert blob.given == (tensor, True) and not host.any()
    array[1] = OnGpu(np.full(3, 5))  # a part: through the host
    np.testing.assert_array_equal(host, [[0, 0, 0], [5, 5, 5]])
    array[0] = 2
    array[:] += 1
    np.testing.assert_array_equal(host, [[3, 3, 3], [6, 6, 6]])


def test_torch_shares_memory_both_ways(deploy_net):
    torch = pytest.importorskip("torch")
    net = crema.Net(deploy_net)
    blob = net.blobs["data"]
    tensor = torch.from_dlpack(blob.data)
    tensor.fill_(7)
    assert (blob.data == 7).all()
    assert torch.from_dlpack(blob).data_ptr() == address(blob.data)
    blob.data[...] = torch.full((2, 1, 8, 8), 3.0)
    assert (blob.data == 3).all()
    view = torch.from_dlpack(net.params["conv"][0].data)
    view.fill_(1)
    net.blobs["data"].data[...] = 1
    net.forward()
    np.testing.assert_allclose(net.blobs["conv"].data, 9)
    del net, blob
    gc.collect()
    assert (tensor == 1).all()
