"""caffe.coord_map: coordinates of blobs, and crops that align them."""

import numpy as np
import pytest

pytest.importorskip("google.protobuf")

import caffe  # noqa: E402
from caffe import layers as L  # noqa: E402
from caffe import params as P  # noqa: E402
from caffe.coord_map import (  # noqa: E402
    AxisMismatchException,
    UndefinedMapException,
    compose,
    conv_params,
    coord_map,
    coord_map_from_to,
    crop,
    crop_params,
    inverse,
)


def down_and_up(kernel=3, stride=1, pad=0, pool=2, up=2, up_pad=0):
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[2, 1, 100, 100]))
    n.aux = L.Input(shape=dict(dim=[2, 1, 20, 20]))
    n.conv = L.Convolution(n.data, num_output=10, kernel_size=kernel, stride=stride, pad=pad)
    n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=pool, stride=pool, pad=0)
    n.relu = L.ReLU(n.pool, in_place=True)
    n.deconv = L.Deconvolution(n.relu, num_output=10, kernel_size=2 * np.array(up),
                               stride=up, pad=up_pad)
    return n


def test_maps_of_layers():
    x = L.Input(shape=dict(dim=[1, 1, 8, 8]))
    axis, scale, offset = coord_map(L.Convolution(x, kernel_size=5, stride=2, pad=1).fn)
    assert (axis, scale, offset) == (1, 0.5, -0.5)
    assert coord_map(L.ReLU(x).fn) == (None, 1, 0)
    axis, scale, offset = coord_map(L.Crop(x, x, offset=[3, 4]).fn)
    assert axis == 1 and list(offset) == [-3, -4]
    with pytest.raises(UndefinedMapException):
        coord_map(L.InnerProduct(x).fn)
    with pytest.raises(UndefinedMapException):
        coord_map(L.Pooling(x, global_pooling=True).fn)


def test_settings_of_layers():
    x = L.Input(shape=dict(dim=[1, 1, 8, 8]))
    for layer in (L.Convolution(x, kernel_size=3, dilation=2),
                  L.Convolution(x, convolution_param=dict(kernel_size=3, dilation=2))):
        axis, stride, kernel, pad = conv_params(layer.fn)
        assert (axis, stride[0], kernel[0], pad[0]) == (1, 1, 5, 0)
    _, stride, kernel, pad = conv_params(L.Pooling(x, kernel_h=2, kernel_w=3, stride_w=2).fn)
    assert list(kernel) == [2, 3] and list(stride) == [1, 2] and list(pad) == [0]
    assert crop_params(L.Crop(x, x).fn) == (2, 0)


def test_compose_and_inverse():
    assert compose((1, 2.0, 3.0), (None, 4.0, 5.0)) == (1, 8.0, 13.0)
    assert inverse((1, 2.0, 3.0)) == (1, 0.5, -1.5)
    with pytest.raises(AxisMismatchException):
        compose((1, 1, 0), (2, 1, 0))


def test_crop_of_an_upsampled_blob():
    n = down_and_up()
    axis, scale, offset = coord_map_from_to(n.deconv, n.data)
    assert (axis, scale, offset) == (1, 1, -1 + 2 - 1 - 0)  # conv 1, pool 0.5 * 2, deconv 1.5
    n = down_and_up(up_pad=1)
    with pytest.raises(AssertionError, match="outside"):
        crop(n.deconv, n.data)


def test_crop_layer():
    n = down_and_up(pad=101)
    n.score = crop(n.deconv, n.data)
    layer = n.to_proto().layer[-1]
    assert (layer.type, list(layer.bottom)) == ("Crop", ["deconv", "data"])
    assert layer.crop_param.axis == 2 and list(layer.crop_param.offset) == [101]


def test_crop_of_a_crop():
    n = down_and_up(pad=101)
    n.score = crop(n.deconv, n.data)
    assert crop_params(crop(n.deconv, n.score).fn)[1] == 101
    assert crop_params(crop(n.score, n.data).fn)[1] == 0


def test_maps_with_a_value_for_each_axis():
    n = down_and_up(kernel=[3, 5], pad=[4, 6])
    _, scale, offset = coord_map_from_to(n.deconv, n.data)
    assert np.all(scale == 1) and list(offset) == [-4, -5]


def test_blobs_that_cannot_be_aligned():
    n = down_and_up()
    with pytest.raises(RuntimeError, match="connected"):
        coord_map_from_to(n.aux, n.data)
    n.ip = L.InnerProduct(n.deconv, num_output=10)
    with pytest.raises(RuntimeError):
        coord_map_from_to(n.ip, n.data)
    with pytest.raises(AssertionError, match="scales"):
        crop(n.pool, n.data)
    with pytest.raises(AssertionError, match="between"):
        crop(L.Pooling(n.data, kernel_size=2, stride=1, pad=1), n.data)
    with pytest.raises(AxisMismatchException):
        coord_map_from_to(L.Convolution(n.pool, kernel_size=3, axis=2), n.data)
