"""Images a second of LeNet in training: from LMDB by the layer Data, and from Python by crema.feed.

    PYTHONPATH=build/release/python python3 tests/bench/python_data.py [rounds] [iterations]

The rows alternate, and each figure is the best of the rounds. Beside it stands the time of all
processors for an image, which other programs on the machine disturb less. It writes an LMDB of
random digits into a temporary folder by convert_mnist_data, a link to the program crema.
"""

import os
import struct
import subprocess
import sys
import tempfile
import time

import crema
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH = 64
COUNT = 12800


def write_lmdb(folder, images, labels):
    """By the published tool, from files in the format of MNIST."""
    with open(f"{folder}/images", "wb") as out:
        out.write(struct.pack(">iiii", 2051, *images.shape) + images.tobytes())
    with open(f"{folder}/labels", "wb") as out:
        out.write(struct.pack(">ii", 2049, len(labels)) + labels.astype(np.uint8).tobytes())
    tool = os.environ.get("CREMA_TOOLS", f"{ROOT}/build/release/bin") + "/convert_mnist_data"
    subprocess.run([tool, f"{folder}/images", f"{folder}/labels", f"{folder}/lmdb"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def solver_of(data_layer):
    with open(f"{ROOT}/models/lenet/train_val.prototxt") as file:
        net = file.read()
    net = net[net.index('layer {\n  name: "conv1"'):]
    return crema.Solver("base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'fixed' "
                        f"random_seed: 1 net_param {{ {data_layer} {net} }}", optimize=True)


def rows_of(folder, images, labels):
    """(name, solver) of each row."""
    scale = "transform_param { scale: 0.00390625 } include { phase: TRAIN }"
    lmdb = (f"layer {{ name: 'data' type: 'Data' top: 'data' top: 'label' {scale} data_param {{ "
            f"source: '{folder}/lmdb' backend: LMDB batch_size: {BATCH} }} }}")
    memory = (f"layer {{ name: 'data' type: 'MemoryData' top: 'data' top: 'label' {scale} "
              f"memory_data_param {{ batch_size: {BATCH} channels: 1 height: 28 width: 28 }} }}")
    plain = memory.replace("transform_param { scale: 0.00390625 }", "")
    floats = (images / 256).astype(np.float32)[:, None]
    fed = {
        "feed, pairs of uint8": (memory, list(zip(images, labels.tolist())), None),
        "feed, pairs of float32": (plain, list(zip(floats, labels.tolist())), None),
        "feed, arrays of uint8": (memory, images, labels),
        "feed, arrays of float32": (plain, floats, labels),
    }
    rows = [("Data, LMDB", solver_of(lmdb))]
    for name, (layer, data, numbers) in fed.items():
        solver = solver_of(layer)
        crema.feed(solver, data, numbers)
        rows.append((name, solver))
    try:
        import torch.utils.data as torch_data
        from torch import from_numpy
    except ImportError:
        print("without torch: no row of its DataLoader")
        return rows
    dataset = torch_data.TensorDataset(from_numpy(floats), from_numpy(labels))
    solver = solver_of(plain)
    crema.feed(solver, torch_data.DataLoader(dataset, BATCH))
    return [*rows, ("feed, DataLoader of float32", solver)]


def main(rounds=7, iterations=150):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (COUNT, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, COUNT)
    with tempfile.TemporaryDirectory() as folder:
        write_lmdb(folder, images, labels)
        rows = rows_of(folder, images, labels)
        rates = {name: [] for name, _ in rows}
        busy = {name: [] for name, _ in rows}
        for name, solver in rows:
            solver.step(20)
        for _ in range(rounds):
            for name, solver in rows:
                begin, used = time.perf_counter(), time.process_time()
                solver.step(iterations)
                busy[name].append((time.process_time() - used) / (iterations * BATCH))
                rates[name].append(iterations * BATCH / (time.perf_counter() - begin))
        base = max(rates["Data, LMDB"])
        for name, values in rates.items():
            ratios = sorted(ours / theirs for ours, theirs in zip(values, rates["Data, LMDB"]))
            print(f"{name:28} {max(values):8.0f} images/s  {max(values) / base:5.2f} of LMDB, "
                  f"median of rounds {ratios[len(ratios) // 2]:5.2f}; "
                  f"{min(busy[name]) * 1e6:6.1f} us of processors an image")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
