"""LeNet on the digits that ship, as README.md shows it."""

import gzip
import os

import numpy as np

import crema

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def test_lenet_learns_digits_from_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)

    def read(name, skip):
        with gzip.open(f"data/mnist/mini/{name}-ubyte.gz") as file:
            return np.frombuffer(file.read()[skip:], np.uint8)

    images = read("train-images-idx3", 16).reshape(-1, 1, 28, 28) / 256
    labels = read("train-labels-idx1", 8)
    solver = crema.Solver("models/lenet/quickstart_solver.prototxt", {
        "net.data.type": "MemoryData", "net.data.memory_data_param.batch_size": 64,
        "net.data.memory_data_param.channels": 1, "net.data.memory_data_param.height": 28,
        "net.data.memory_data_param.width": 28, "snapshot": 0, "snapshot_after_train": False,
        "test_interval": 1000000, "test_initialization": False})
    solver.net.set_data(images, labels)
    solver.step(200)
    net = crema.Net("models/lenet/deploy.prototxt")
    net.share_with(solver.net)
    shown = read("t10k-images-idx3", 16).reshape(-1, 1, 28, 28)[:100] / 256
    net.blobs["data"].reshape(*shown.shape)
    named = net.forward(data=shown)["prob"].argmax(1)
    assert (named == read("t10k-labels-idx1", 8)[:100]).mean() > 0.9
