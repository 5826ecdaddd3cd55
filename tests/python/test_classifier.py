"""Classifier and Detector, on a net that averages each channel."""

import pickle

import numpy as np
import pytest

pytest.importorskip("google.protobuf")

import caffe  # noqa: E402

NET = """
name: 'means'
layer { name: 'data' type: 'Input' top: 'data'
  input_param { shape { dim: 4 dim: 3 dim: 8 dim: 6 } } }
layer { name: 'mean' type: 'Pooling' bottom: 'data' top: 'mean'
  pooling_param { pool: AVE global_pooling: true } }
"""
SWAP = (2, 1, 0)
MEAN = np.array([10.0, 20.0, 30.0])


@pytest.fixture
def files(tmp_path):
    model, weights = tmp_path / "deploy.prototxt", tmp_path / "net.caffemodel"
    model.write_text(NET)
    caffe.Net(str(model), caffe.TEST).save(str(weights))
    return str(model), str(weights)


def picture(*shape):
    return np.random.default_rng(7).random(shape).astype(np.float32)


def scores_of(image):
    """What the net gives for an image of the input's size."""
    return (image.mean((0, 1)) * 255)[::-1] - MEAN


def classifier(files, **settings):
    return caffe.Classifier(*files, mean=MEAN, raw_scale=255, channel_swap=SWAP, **settings)


def test_predict_without_oversampling(files):
    net = classifier(files)
    images = [picture(8, 6, 3) * share for share in (1, 0.5, 0.2, 0.7, 0.3)]  # more than a batch
    made = net.predict(images, oversample=False)
    assert made.shape[0] == 5
    for scores, image in zip(made, images):
        np.testing.assert_allclose(scores.ravel(), scores_of(image), rtol=1e-4, atol=1e-3)


def test_a_pickled_classifier_predicts(files):
    net = classifier(files, image_dims=(12, 11))
    image = picture(12, 11, 3)
    other = pickle.loads(pickle.dumps(net))
    assert type(other) is caffe.Classifier
    np.testing.assert_array_equal(other.predict([image]), net.predict([image]))


def test_predict_takes_the_centre(files):
    net = classifier(files, image_dims=(12, 11))
    image = picture(12, 11, 3)
    made = net.predict([image], oversample=False)
    np.testing.assert_allclose(made.ravel(), scores_of(image[2:10, 2:8]), rtol=1e-4, atol=1e-3)


def test_predict_means_over_ten_crops(files):
    net = classifier(files, image_dims=(12, 10))
    images = [picture(12, 10, 3), picture(12, 10, 3) * 0.5]
    made = net.predict(images)
    assert made.shape == (2, 3)
    for scores, image in zip(made, images):
        expected = np.mean([scores_of(crop) for crop in caffe.io.oversample([image], (8, 6))], 0)
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-3)


def test_predict_resizes(files):
    net = caffe.Classifier(*files)
    image = picture(20, 30, 3)
    expected = caffe.io.resize_image(image, (8, 6)).mean((0, 1))
    np.testing.assert_allclose(net.predict([image], False).ravel(), expected, rtol=1e-5)
    assert net.phase == caffe.TEST and set(net.transformer.inputs) == {"data"}


@pytest.fixture
def photo(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = (picture(20, 24, 3) * 255).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png"), pixels / 255.0


def test_detector_scores_windows(files, photo):
    file, image = photo
    net = caffe.Detector(*files, mean=MEAN, raw_scale=255, channel_swap=SWAP)
    windows = np.array([[2, 3, 10, 9], [0, 0, 8, 6], [12, 18, 20, 24], [1, 1, 9, 7], [0, 1, 8, 7]])
    made = net.detect_windows([(file, windows[:2]), (file, windows[2:])])
    assert len(made) == 5
    for each, window in zip(made, windows):
        assert each["filename"] == file and list(each["window"]) == list(window)
        top, left, bottom, right = window
        np.testing.assert_allclose(each["prediction"].ravel(),
                                   scores_of(image[top:bottom, left:right]), rtol=1e-4, atol=1e-3)
    assert net.detect_windows([]) == []


def test_detector_adds_context(files, photo):
    file, _ = photo
    image = caffe.io.load_image(file)
    net = caffe.Detector(*files, mean=MEAN, raw_scale=255, channel_swap=SWAP, context_pad=1)
    inside = net.crop(image, (8, 8, 14, 12))
    # 7 x 5 pixels with both ends, grown about their middle by 8 / 6 and 6 / 4.
    np.testing.assert_allclose(inside, caffe.io.resize_image(image[7:16, 7:14], (8, 6)), atol=1e-6)
    corner = net.crop(image, (0, 0, 6, 4))
    mean = MEAN[::-1] / 255
    np.testing.assert_allclose(corner[0], np.broadcast_to(mean, (6, 3)), rtol=1e-6)
    np.testing.assert_allclose(corner[:, 0], np.broadcast_to(mean, (8, 3)), rtol=1e-6)
    assert corner.shape == (8, 6, 3) and not np.allclose(corner[4, 3], mean)
    with pytest.raises(ValueError, match="outside"):
        net.crop(image, (100, 0, 120, 4))


def test_detector_without_a_mean_pads_with_zeros(files):
    net = caffe.Detector(*files, context_pad=2)
    assert net.crop(picture(20, 24, 3), (0, 0, 6, 4))[0, 0].tolist() == [0, 0, 0]
