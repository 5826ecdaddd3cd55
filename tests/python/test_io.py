"""caffe.io: conversions, images, Transformer."""

import io

import numpy as np
import pytest

pytest.importorskip("google.protobuf")

import caffe  # noqa: E402
from caffe.proto import caffe_pb2  # noqa: E402


def picture(*shape):
    return np.random.default_rng(5).random(shape).astype(np.float32)


# Messages.

def test_blobproto_with_the_four_sizes_of_old_files():
    blob = caffe_pb2.BlobProto(num=1, channels=2, height=3, width=4)
    blob.data.extend(range(24))
    array = caffe.io.blobproto_to_array(blob)
    assert array.shape == (1, 2, 3, 4) and array.dtype == np.float64
    assert array[0, 1, 2, 3] == 23


def test_blobproto_with_a_shape():
    values = picture(2, 3, 4)
    blob = caffe.io.array_to_blobproto(values, diff=values + 1)
    assert list(blob.shape.dim) == [2, 3, 4]
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), values)
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob, return_diff=True), values + 1)


def test_blobproto_without_a_shape():
    blob = caffe_pb2.BlobProto()
    blob.data.extend([7])
    assert caffe.io.blobproto_to_array(blob) == 7
    blob.data.extend([7])
    with pytest.raises(ValueError):
        caffe.io.blobproto_to_array(blob)


def test_blobproto_of_doubles_and_of_raw_bytes():
    blob = caffe_pb2.BlobProto(double_data=[0.1, 0.2])
    blob.shape.dim.append(2)
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), [0.1, 0.2])
    halves = np.array([1, -0.5, 3], "<f2")
    blob = caffe_pb2.BlobProto(raw_data=halves.tobytes(),
                               raw_data_type=caffe_pb2.ValueType.FLOAT16)
    blob.shape.dim.append(3)
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), halves)


def test_list_of_arrays_as_bytes():
    arrays = [picture(2, 3), picture(5)]
    text = caffe.io.arraylist_to_blobprotovector_str(arrays)
    assert isinstance(text, bytes)
    for made, array in zip(caffe.io.blobprotovector_str_to_arraylist(text), arrays):
        np.testing.assert_array_equal(made, array)


def test_datum_of_bytes_and_of_floats():
    pixels = (picture(3, 4, 5) * 255).astype(np.uint8)
    datum = caffe.io.array_to_datum(pixels, 8)
    assert (datum.channels, datum.height, datum.width, datum.label) == (3, 4, 5, 8)
    made = caffe.io.datum_to_array(caffe_pb2.Datum.FromString(datum.SerializeToString()))
    assert made.dtype == np.uint8 and made.flags.writeable
    np.testing.assert_array_equal(made, pixels)
    floats = caffe.io.array_to_datum(picture(1, 2, 2))
    assert not floats.HasField("label") and not floats.data
    np.testing.assert_array_equal(caffe.io.datum_to_array(floats), picture(1, 2, 2))
    assert not caffe.io.array_to_datum(pixels).HasField("label")
    with pytest.raises(ValueError, match="three axes"):
        caffe.io.array_to_datum(pixels[0])


def test_encoded_datum():
    image = pytest.importorskip("PIL.Image")
    pixels = (picture(4, 5, 3) * 255).astype(np.uint8)
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "PNG")
    made = caffe.io.datum_to_array(caffe_pb2.Datum(data=file.getvalue(), encoded=True))
    np.testing.assert_array_equal(made, pixels[:, :, ::-1].transpose(2, 0, 1))


# Images.

@pytest.fixture
def save(tmp_path):
    image = pytest.importorskip("PIL.Image")

    def write(pixels, mode=None, name="image.png"):
        made = image.fromarray(pixels)
        (made.convert(mode) if mode else made).save(tmp_path / name)
        return str(tmp_path / name)
    return write


def test_load_image_in_colour_and_gray(save):
    pixels = (picture(6, 7, 3) * 255).astype(np.uint8)
    file = save(pixels)
    made = caffe.io.load_image(file)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, pixels / 255.0, rtol=1e-7)
    gray = caffe.io.load_image(file, color=False)
    assert gray.shape == (6, 7, 1)
    np.testing.assert_allclose(gray[..., 0], pixels @ [0.2125, 0.7154, 0.0721] / 255, rtol=1e-6)


def test_load_image_of_other_kinds(save):
    gray = (picture(4, 5) * 255).astype(np.uint8)
    file = save(gray)
    np.testing.assert_allclose(caffe.io.load_image(file), np.dstack([gray] * 3) / 255.0, rtol=1e-7)
    assert caffe.io.load_image(file, color=False).shape == (4, 5, 1)
    colour = (picture(4, 5, 4) * 255).astype(np.uint8)
    np.testing.assert_allclose(caffe.io.load_image(save(colour)), colour[..., :3] / 255.0,
                               rtol=1e-7)
    assert caffe.io.load_image(save(colour[..., :3], "P")).shape == (4, 5, 3)
    deep = (picture(4, 5) * 65535).astype(np.uint16)
    np.testing.assert_allclose(caffe.io.load_image(save(deep), False)[..., 0], deep / 65535,
                               rtol=1e-6)


def test_resize_takes_the_middles_of_pixels():
    image = np.arange(4, dtype=np.float32).reshape(1, 4, 1)
    # Halved: the middle between two pixels. No average of more where it shrinks by more.
    np.testing.assert_allclose(caffe.io.resize_image(image, (1, 2))[0, :, 0], [0.5, 2.5])
    tall = np.arange(9, dtype=np.float32).reshape(9, 1, 1)
    np.testing.assert_allclose(caffe.io.resize_image(tall, (3, 1))[:, 0, 0], [1, 4, 7])


def test_resize_blends_enlarged_borders_with_the_least_value():
    image = np.array([[1.0, 3.0]], np.float32)[:, :, np.newaxis]
    made = caffe.io.resize_image(image, (1, 4))
    assert made.dtype == np.float32
    np.testing.assert_allclose(made[0, :, 0], [1, 1.5, 2.5, 2.5])


def test_resize_agrees_with_skimage():
    transform = pytest.importorskip("skimage.transform")
    for order in (0, 1, 3):
        for shape, size in (((9, 11, 3), (5, 4)), ((5, 4, 3), (9, 11)), ((8, 8, 1), (3, 17))):
            image = picture(*shape)
            scaled = (image - image.min()) / (image.max() - image.min())
            expected = transform.resize(scaled, size, order=order, mode="constant",
                                        anti_aliasing=False)
            expected = expected * (image.max() - image.min()) + image.min()
            np.testing.assert_allclose(caffe.io.resize_image(image, size, order), expected,
                                       atol=2e-6)


def test_resize_agrees_with_scipy_for_other_channels():
    ndimage = pytest.importorskip("scipy.ndimage")
    image = picture(6, 9, 5)
    expected = ndimage.zoom(image, (1.5, 2 / 3, 1), order=1)
    np.testing.assert_allclose(caffe.io.resize_image(image, (9, 6)), expected, atol=1e-6)


def test_resize_of_other_channels_keeps_the_corners():
    image = picture(4, 4, 2)
    made = caffe.io.resize_image(image, (7, 9))
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        np.testing.assert_allclose(made[corner], image[corner], rtol=1e-6)


def test_resize_to_the_nearest_and_its_errors():
    image = np.arange(4, dtype=np.float32).reshape(2, 2, 1)
    np.testing.assert_array_equal(caffe.io.resize_image(image, (4, 4), 0)[:, :, 0],
                                  np.kron([[0, 1], [2, 3]], np.ones((2, 2))))
    np.testing.assert_array_equal(caffe.io.resize_image(image, (2, 2)), image)
    np.testing.assert_array_equal(caffe.io.resize_image(np.full((2, 3, 3), 7.0), (5, 5)),
                                  np.full((5, 5, 3), 7, np.float32))
    with pytest.raises(ValueError, match="interp_order"):
        caffe.io.resize_image(image, (4, 4), 6)
    with pytest.raises(ValueError):
        caffe.io.resize_image(image, (0, 4))


def test_oversample():
    images = [picture(5, 6, 3), picture(5, 6, 3) + 1]
    crops = caffe.io.oversample(images, (2, 3))
    assert crops.shape == (20, 2, 3, 3) and crops.dtype == np.float32
    second = images[1]
    np.testing.assert_array_equal(crops[10], second[:2, :3])
    np.testing.assert_array_equal(crops[11], second[:2, 3:])
    np.testing.assert_array_equal(crops[12], second[3:, :3])
    np.testing.assert_array_equal(crops[13], second[3:, 3:])
    np.testing.assert_array_equal(crops[14], second[1:3, 1:4])
    np.testing.assert_array_equal(crops[15:], crops[10:15, :, ::-1])
    with pytest.raises(ValueError, match="do not fit"):
        caffe.io.oversample(images, (6, 3))


# Transformer.

def test_preprocess_takes_its_steps_in_order():
    transformer = caffe.io.Transformer({"data": (10, 3, 4, 5)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([104, 117, 123]))
    transformer.set_input_scale("data", 0.5)
    image = picture(4, 5, 3)
    before = image.copy()
    made = transformer.preprocess("data", image)
    np.testing.assert_array_equal(image, before)
    expected = image[:, :, ::-1].transpose(2, 0, 1) * 255.0
    expected = (expected - np.array([104, 117, 123])[:, None, None]) * 0.5
    assert made.dtype == np.float32 and made.shape == (3, 4, 5)
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)
    for sample in (made, made[np.newaxis]):
        np.testing.assert_allclose(transformer.deprocess("data", sample), image, atol=1e-6)


def test_preprocess_resizes():
    transformer = caffe.io.Transformer({"data": (1, 3, 4, 5)})
    transformer.set_transpose("data", (2, 0, 1))
    image = picture(8, 9, 3)
    np.testing.assert_array_equal(transformer.preprocess("data", image),
                                  caffe.io.resize_image(image, (4, 5)).transpose(2, 0, 1))


def test_deprocess_of_one_channel():
    transformer = caffe.io.Transformer({"data": (1, 1, 2, 2)})
    transformer.set_transpose("data", (2, 0, 1))
    assert transformer.deprocess("data", np.ones((1, 1, 2, 2))).shape == (2, 2, 1)


def test_mean_images():
    transformer = caffe.io.Transformer({"data": (1, 3, 4, 4)})
    mean = picture(3, 4, 4)
    transformer.set_mean("data", mean)
    np.testing.assert_array_equal(transformer.mean["data"], mean)
    transformer.set_mean("data", picture(3, 8, 8))
    assert transformer.mean["data"].shape == (3, 4, 4)
    np.testing.assert_allclose(transformer.mean["data"][0],
                               picture(3, 8, 8)[0].reshape(4, 2, 4, 2).mean((1, 3)), rtol=1e-5)
    for wrong in (np.zeros(2), np.zeros((2, 4, 4)), np.zeros((4, 4)), np.zeros((1, 3, 4, 4))):
        with pytest.raises(ValueError):
            transformer.set_mean("data", wrong)


def test_wrong_settings_are_refused():
    transformer = caffe.io.Transformer({"data": (1, 3, 4, 4)})
    with pytest.raises(Exception, match="not one of the net inputs: data"):
        transformer.set_raw_scale("image", 255)
    with pytest.raises(ValueError, match="axes"):
        transformer.set_transpose("data", (1, 0))
    with pytest.raises(ValueError, match="channels"):
        transformer.set_channel_swap("data", (1, 0))


def test_flows_turn_round_when_they_are_mirrored():
    flow = np.random.default_rng(4).random((6, 8, 2)).astype(np.float32)
    before = flow.copy()
    made = caffe.io.flip_image(flow, 1, True)
    np.testing.assert_array_equal(made[:, :, 1], before[:, ::-1, 1])
    np.testing.assert_array_equal(made[:, :, 0], 1 - before[:, ::-1, 0])
    np.testing.assert_array_equal(flow, before)
    np.testing.assert_array_equal(caffe.io.flip_image(flow), before[:, ::-1])
    plain, turned = caffe.io.oversample([flow], (4, 4)), caffe.io.oversample([flow], (4, 4), flow=True)
    np.testing.assert_array_equal(turned[:5], plain[:5])
    np.testing.assert_array_equal(turned[5:, :, :, 0], 1 - plain[5:, :, :, 0])
    np.testing.assert_array_equal(turned[5:, :, :, 1], plain[5:, :, :, 1])


def test_transformer_notes_flows():
    transformer = caffe.io.Transformer({"data": (1, 2, 4, 4)})
    transformer.set_is_flow("data", True)
    assert transformer.is_flow == {"data": True}
    with pytest.raises(ValueError):
        transformer.set_is_flow("other", True)
