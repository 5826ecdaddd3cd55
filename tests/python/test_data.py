"""crema.feed: samples from Python for MemoryData."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref

import crema
import numpy as np
import pytest


def net_text(batch=2, record=(1, 2, 2), transform="", tops="top: 'data' top: 'label'"):
    channels, height, width = record
    return f"""
name: 'fed'
layer {{ name: 'data' type: 'MemoryData' {tops} transform_param {{ {transform} }}
  memory_data_param {{ batch_size: {batch} channels: {channels} height: {height} width: {width} }} }}
"""


def make_net(phase=crema.TEST, **settings):
    return crema.Net(net_text(**settings), phase=phase)


def batches(net, count):
    """(data, labels) of the next passes."""
    made = []
    for _ in range(count):
        net.forward()
        made.append((net.blobs["data"].data.copy(), net.blobs["label"].data.tolist()))
    return made


def labels_of(net, count):
    return [label for _, labels in batches(net, count) for label in labels]


def numbered(count, record=(1, 2, 2)):
    """Samples whose values are their labels."""
    return [(np.full(record, n, np.float32), n) for n in range(count)]


def training(tmp_path, batch=4, transform="", extra=""):
    net = net_text(batch, (1, 4, 4), transform) + """
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }"""
    return (f"base_lr: 0.1 lr_policy: 'fixed' max_iter: 8 random_seed: 5 {extra} "
            f"snapshot_prefix: '{tmp_path}/s' net_param {{ {net} }}")


# What is fed.


def test_an_iterable_of_pairs_is_iterated_again_and_again():
    net = make_net()
    with crema.feed(net, numbered(3)):
        made = batches(net, 3)
    assert [labels for _, labels in made] == [[0, 1], [2, 0], [1, 2]]
    assert made[1][0].ravel().tolist() == [2] * 4 + [0] * 4


def test_arrays_in_order_and_shuffled():
    images = np.arange(5, dtype=np.float64).repeat(4).reshape(5, 1, 2, 2)
    net = make_net()
    with crema.feed(net, images, np.arange(5)):
        assert labels_of(net, 5) == [0, 1, 2, 3, 4] * 2
    with crema.feed(net, images, range(5), shuffle=True, seed=3):
        made = batches(net, 5)
    order = [label for _, labels in made for label in labels]
    assert sorted(order[:5]) == sorted(order[5:]) == [0, 1, 2, 3, 4]
    assert order[:5] != order[5:]
    assert [values[0, 0, 0] for data, _ in made for values in data] == order
    with crema.feed(net, images, np.arange(5)[:, None], shuffle=True, seed=3):
        assert labels_of(net, 5) == order


def test_a_callable_makes_each_epoch():
    seen = []

    def epoch_of(epoch, sample):
        seen.append((epoch, sample))
        return iter(numbered(epoch + 1))

    net = make_net()
    with crema.feed(net, epoch_of):
        assert labels_of(net, 3) == [0, 0, 1, 0, 1, 2]
    assert seen[:3] == [(0, 0), (1, 0), (2, 0)]
    with crema.feed(net, lambda: (sample for sample in numbered(2))):
        assert labels_of(net, 2) == [0, 1, 0, 1]
    with crema.feed(net, lambda epoch: [(np.ones((2, 2)), epoch)]):
        assert labels_of(net, 2) == [0, 1, 2, 3]


def test_a_generator_is_one_epoch():
    net = make_net()
    crema.feed(net, (sample for sample in numbered(5)))
    assert labels_of(net, 2) == [0, 1, 2, 3]
    with pytest.raises(crema.Error, match="'data'.*generator can be iterated over only once"):
        net.forward()
    with pytest.raises(crema.Error, match="has failed before"):
        net.forward()


def test_the_rest_of_an_epoch_may_be_dropped():
    net = make_net()
    with crema.feed(net, numbered(5), last_batch="drop"):
        assert labels_of(net, 3) == [0, 1, 2, 3, 0, 1]


def test_items_may_be_batches_of_any_size():
    data = [(np.zeros((3, 1, 2, 2)), np.array([1, 2, 3])), (np.zeros((1, 1, 2, 2)), [4]),
            ([np.zeros((2, 2)), np.zeros(4)], [5, 6])]
    net = make_net(batch=4)
    with crema.feed(net, data):
        assert labels_of(net, 3) == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]


def test_a_sequence_without_an_iterator():
    class Dataset:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return np.full((2, 2), index), index  # an index of 2 would be fine, too

    net = make_net()
    with crema.feed(net, Dataset()):
        assert labels_of(net, 2) == [0, 1, 0, 1]


def test_a_net_without_labels():
    net = make_net(tops="top: 'data'")
    for data in (np.ones((3, 2, 2)), [np.ones((1, 2, 2))], [(np.ones((2, 2)),)],
                 [np.ones((3, 1, 2, 2))]):
        with crema.feed(net, data):
            net.forward()
            assert (net.blobs["data"].data == 1).all()


def test_an_iterable_may_use_its_memory_again():
    def one_array():
        array = np.empty((1, 2, 2), np.float32)
        for number in range(4):
            array[...] = number
            yield array, number

    net = make_net(batch=4)
    with crema.feed(net, one_array):
        data, labels = batches(net, 1)[0]
    assert data[:, 0, 0, 0].tolist() == labels == [0, 1, 2, 3]


# Images.


def test_images_of_uint8_go_through_transform_param():
    image = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    transform = "crop_size: 2 scale: 0.5 mean_value: 1 mean_value: 2 mean_value: 3"
    expected = (image[1:3, 2:4].transpose(2, 0, 1).astype(np.float32)
                - np.array([1, 2, 3])[:, None, None]) * 0.5
    net = make_net(record=(3, 2, 2), transform=transform)
    for data in ([(image, 0)], [(image.transpose(2, 0, 1), 0)], [(image[None], [0])],
                 [([image, image], [0, 0])]):
        with crema.feed(net, data):
            for made in batches(net, 1)[0][0]:
                np.testing.assert_array_equal(made, expected)
    with crema.feed(net, [(image, 0)], bgr=True):
        made = batches(net, 1)[0][0][0]
    np.testing.assert_array_equal((made * 2 + np.array([1, 2, 3])[:, None, None])[::-1],
                                  expected * 2 + np.array([1, 2, 3])[:, None, None])


def test_an_order_of_axes_that_could_be_either():
    image = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    net = make_net(record=(3, 3, 3))
    with crema.feed(net, [(image, 0)]):
        np.testing.assert_array_equal(batches(net, 1)[0][0][0], image.transpose(2, 0, 1))
    with crema.feed(net, [(image, 0)], axes="CHW"):
        np.testing.assert_array_equal(batches(net, 1)[0][0][0], image)


def test_pil_images():
    image_of = pytest.importorskip("PIL.Image")
    pixels = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    colour = image_of.fromarray(pixels)
    net = make_net(record=(3, 4, 4))
    with crema.feed(net, [(colour, 1), (colour.convert("P"), 2)]):
        data, labels = batches(net, 1)[0]
    np.testing.assert_array_equal(data[0], pixels.transpose(2, 0, 1))
    assert labels == [1, 2]
    gray = make_net(record=(1, 4, 4))
    with crema.feed(gray, [colour, colour.convert("L")], [0, 0]):
        data, _ = batches(gray, 1)[0]
    np.testing.assert_array_equal(data[0, 0], np.asarray(colour.convert("L")))


def test_a_torch_data_loader():
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("torch.utils.data")
    images = torch.arange(12.).reshape(3, 1, 2, 2).requires_grad_()
    dataset = utils.TensorDataset(images, torch.tensor([5, 6, 7]))
    net = make_net()
    with crema.feed(net, utils.DataLoader(dataset, batch_size=2)):
        made = batches(net, 3)
    assert [labels for _, labels in made] == [[5, 6], [7, 5], [6, 7]]
    np.testing.assert_array_equal(made[0][0], images[:2].detach().numpy())
    with crema.feed(net, dataset):  # map style: __len__ and __getitem__
        assert labels_of(net, 3) == [5, 6, 7, 5, 6, 7]
    with crema.feed(net, images, torch.tensor([1, 2, 3])):
        assert labels_of(net, 1) == [1, 2]
    pixels = torch.arange(27, dtype=torch.uint8).reshape(3, 3, 3)
    colour = make_net(record=(3, 3, 3))
    with crema.feed(colour, [(pixels, torch.tensor(3))]):
        data, labels = batches(colour, 1)[0]
    np.testing.assert_array_equal(data[0], pixels.numpy())  # CHW, as torch has images
    assert labels == [3, 3]


# Errors.


@pytest.mark.parametrize("data, words", [
    ([(np.zeros((3, 3)), 0)], r"item 0 of epoch 0.*\(3, 3\).*\(1, 2, 2\)"),
    ([(np.zeros((2, 2)), 0), (np.zeros((2, 2)), "cat")], "item 1 of epoch 0.*'cat', and no number"),
    ([(np.zeros((2, 2)), float("nan"))], "nan, which is not finite"),
    ([(np.zeros((2, 2)), 16777217)], "16777217 is no integer of float32"),
    ([(np.zeros((2, 2)), None)], "label is None"),
    ([np.zeros((2, 2))], r"ndarray, and no pair \(image, label\)"),
    ([{"image": 1, "label": 2}], r"a dict with 'image', 'label'.*d\['image'\]"),
    ([(np.zeros((2, 1, 2, 2)), [1, 2, 3])], r"\(2, 1, 2, 2\) and 3 labels"),
    ([([np.zeros((2, 2))], [1, 2])], "1 images and 2 labels"),
    ([(np.zeros((1, 2, 2, 2)), [[1, 2]])], r"labels have the shape \(1, 2\)"),
    ([(np.zeros((1, 1, 1, 1), np.uint8), 1)], r"uint8 has the shape \(1, 1, 1, 1\)"),
    ([("words", 1)], "'words' is no array of numbers"),
    ([(np.zeros((3, 3), np.uint8), 1)], "1x3x3.*1x2x2"),
    ([], "iterable has no samples"),
    (lambda: 5, "returned int"),
])
def test_items_that_do_not_fit(data, words):
    net = make_net()
    crema.feed(net, data)
    with pytest.raises(crema.Error, match=words) as raised:
        net.forward()
    assert raised.value.layer == "data"


def test_what_cannot_be_fed(small_net):
    net = make_net()
    with pytest.raises(crema.Error, match="int cannot be fed"):
        crema.feed(net, 5)
    with pytest.raises(crema.Error, match=r"3 images and labels of \(2,\)"):
        crema.feed(net, np.zeros((3, 2, 2)), [1, 2])
    with pytest.raises(crema.Error, match="no labels were given"):
        crema.feed(net, np.zeros((3, 2, 2)))
    with pytest.raises(crema.Error, match="shuffle=True is for arrays"):
        crema.feed(net, numbered(3), shuffle=True)
    with pytest.raises(crema.Error, match="last_batch='short'"):
        crema.feed(net, numbered(3), last_batch="short")
    with pytest.raises(crema.Error, match="takes 3 arguments"):
        crema.feed(net, lambda a, b, c: [])
    with pytest.raises(crema.Error, match="0 batches in advance"):
        crema.feed(net, numbered(3), prefetch=0)
    with pytest.raises(crema.Error, match="no layer of type MemoryData"):
        crema.feed(crema.Net(small_net), numbered(3))
    with pytest.raises(crema.Error, match="'conv'.*Convolution"):
        crema.feed(crema.Net(small_net), numbered(3), layer="conv")


def test_an_exception_of_the_iterable_keeps_its_traceback():
    def broken():
        yield from numbered(3)
        raise KeyError("the culprit")

    net = make_net()
    crema.feed(net, broken)
    assert labels_of(net, 1) == [0, 1]
    with pytest.raises(KeyError, match="the culprit") as raised:
        net.forward()
    assert "broken" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    if sys.version_info >= (3, 11):
        assert any("layer 'data'" in note for note in raised.value.__notes__)
    # Other data make the net usable.
    with crema.feed(net, numbered(2)):
        assert labels_of(net, 1) == [0, 1]


# Training.


def test_a_solver_is_fed(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 64)
    images = rng.normal(size=(64, 1, 4, 4)).astype(np.float32) * 0.1
    images[np.arange(64), 0, 0, labels] += 2
    solver = crema.Solver(training(tmp_path, batch=16))
    losses = []
    solver.on_iteration = lambda report: losses.append(report.loss)
    with crema.feed(solver, images, labels, shuffle=True):
        solver.step(60)
    assert losses[-1] < 0.2 < losses[0]


def test_a_run_goes_on_behind_a_snapshot(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (10, 4, 4, 1), dtype=np.uint8)
    labels = rng.integers(0, 3, 10)

    def begun():
        solver = crema.Solver(training(tmp_path, transform="mirror: true scale: 0.01"))
        crema.feed(solver, images, labels, shuffle=True)
        return solver

    through = begun()
    through.step(3)
    state = through.snapshot()
    through.step(4)
    resumed = begun()
    resumed.restore(state)
    resumed.step(4)
    for ours, theirs in zip(resumed.net.params["ip"], through.net.params["ip"]):
        np.testing.assert_array_equal(ours.data, theirs.data)


def test_callables_are_told_where_to_go_on_and_iterators_are_not(tmp_path):
    told = []

    def epoch_of(epoch, sample):
        told.append((epoch, sample))
        return [(np.zeros((4, 4)), n % 3) for n in range(sample, 10)]

    solver = crema.Solver(training(tmp_path))
    crema.feed(solver, epoch_of)
    solver.step(3)
    state = solver.snapshot()
    other = crema.Solver(training(tmp_path))
    crema.feed(other, epoch_of)
    other.step(1)
    told.clear()
    other.restore(state)
    other.step(1)
    assert (1, 2) in told  # the threads of both solvers tell of further epochs
    # A generator goes on.
    last = crema.Solver(training(tmp_path))
    crema.feed(last, ((np.zeros((4, 4)), n % 3) for n in range(8)))
    last.restore(state)
    last.step(2)
    with pytest.raises(crema.Error, match="only once"):
        last.step(1)


# The thread.


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def test_batches_are_made_in_advance_and_no_more_than_asked():
    made = []

    def counted():
        for sample in numbered(1000):
            made.append(sample)
            yield sample

    net = make_net()
    with crema.feed(net, counted, prefetch=2):
        wait_for(lambda: len(made) >= 6)  # two batches, and one that waits for room
        time.sleep(0.1)
        assert len(made) == 6
        net.forward()
        wait_for(lambda: len(made) == 8)


def test_the_gil_is_free_while_a_pass_waits():
    release = threading.Event()

    def slow():
        release.wait(10)
        yield from numbered(2)

    net = make_net()
    crema.feed(net, slow)
    waiting = threading.Thread(target=net.forward)
    waiting.start()
    time.sleep(0.05)
    release.set()  # this thread runs
    waiting.join(10)
    assert not waiting.is_alive()


def test_the_thread_ends_with_the_net_and_the_net_with_its_last_reference():
    net = make_net()
    feed = crema.feed(net, numbered(3))
    net.forward()
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None
    wait_for(lambda: not feed.active)


def test_other_data_end_a_feed():
    net = make_net()
    first = crema.feed(net, numbered(3))
    second = crema.feed(net, numbered(3))
    wait_for(lambda: not first.active)
    net.set_data(np.ones((2, 1, 2, 2)), [4, 5])
    wait_for(lambda: not second.active)
    assert labels_of(net, 1) == [4, 5]
    third = crema.feed(net, numbered(3))
    third.close()
    assert "ended" in repr(third)
    with pytest.raises(crema.Error, match="feed was closed"):
        net.forward()


def run_script(text, **options):
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **options)


SCRIPT = f"""
import itertools, time, sys
import crema, numpy as np
net = crema.Net({net_text()!r})
def slow(before, seconds):
    for n in itertools.count():
        if n >= before: time.sleep(seconds)
        yield np.zeros((2, 2)), n
"""


@pytest.mark.parametrize("data", ["slow(10**9, 0)", "slow(4, 60)", "slow(3, 0.001)"])
def test_a_process_ends_with_a_feed_that_runs(data):
    began = time.monotonic()
    process = run_script(SCRIPT + f"""
crema.feed(net, {data})
net.forward()
print('done')
""")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "done\n", out
    assert time.monotonic() - began < 40


def test_ctrl_c_ends_a_wait_for_data():
    process = run_script(SCRIPT + """
crema.feed(net, slow(0, 300))
print('waits', flush=True)
try:
    net.forward()
except KeyboardInterrupt:
    print('interrupted', flush=True)
""")
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "interrupted" in out, out
