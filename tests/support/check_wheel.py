"""What check_wheel.sh runs in an empty folder, with a Python that has the wheel: prints a line for each part.

    check_wheel.py yes|no      whether the wheel has the package caffe
"""

import gzip
import json
import os
import shutil
import subprocess
import sys

import numpy as np

import crema


def program(*words):
    """What the program prints; it has to end well."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def read(name, skip):
    with gzip.open(f"data/mnist/mini/{name}-ubyte.gz") as file:
        return np.frombuffer(file.read()[skip:], np.uint8)


def train_from_memory():
    images = read("train-images-idx3", 16).reshape(-1, 1, 28, 28) / 256
    solver = crema.Solver("models/lenet/quickstart_solver.prototxt", {
        "net.data.type": "MemoryData", "net.data.memory_data_param.batch_size": 100,
        "net.data.memory_data_param.channels": 1, "net.data.memory_data_param.height": 28,
        "net.data.memory_data_param.width": 28, "snapshot": 0, "snapshot_after_train": False,
        "test_interval": 1000000, "test_initialization": False})
    solver.net.set_data(images, read("train-labels-idx1", 8))
    solver.step(100)
    net = crema.Net("models/lenet/deploy.prototxt")
    net.share_with(solver.net)
    shown = read("t10k-images-idx3", 16).reshape(-1, 1, 28, 28) / 256
    net.blobs["data"].reshape(*shown.shape)
    named = net.forward(data=shown)["prob"].argmax(1)
    right = float((named == read("t10k-labels-idx1", 8)).mean())
    assert right > 0.8, right
    print(f"crema.Solver: LeNet names {right:.1%} of {len(shown)} digits after 100 iterations from memory")
    solver.net.save("lenet.h5")
    again = crema.Net("models/lenet/deploy.prototxt", weights="lenet.h5")
    assert np.array_equal(again.params["ip2"][0].data, solver.net.params["ip2"][0].data)
    print("crema.Net: weights come back from an HDF5 file")


def train_by_program():
    program("crema", "convert-mnist", "data/mnist/mini")
    program("crema", "train", "--solver", "models/lenet/quickstart_solver.prototxt", "--set", "max_iter=100")
    said = program(sys.executable, "-m", "crema", "test", "--model", "models/lenet/quickstart_train_val.prototxt",
                   "--weights", "models/lenet/quickstart_iter_100.caffemodel")
    accuracy = float(next(line for line in said.splitlines() if "accuracy = " in line).split()[-1])
    assert accuracy > 0.8, said
    print(f"crema train, python -m crema test: accuracy {accuracy:.1%} after 100 iterations from LMDB")


def classify_photos():
    """A digit and a photo in colours, both as JPEG files that the program makes."""
    program("crema", "db", "export", "--encode_type", "jpg", "data/mnist/mini/test_lmdb", "digits", "0:20")
    labels = dict(line.rsplit(maxsplit=1) for line in open("digits/list.txt"))
    said = program("crema", "classify", "--model", "models/lenet/deploy.prototxt", "--weights",
                   "models/lenet/quickstart_iter_100.caffemodel", "--scale", "0.00390625", "--json", "digits")
    named = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert len(named) == 20, said
    print(f"crema classify: {len(named)} digits in JPEG files; the first: {json.dumps(named[0])[:100]}")
    assert len(labels) == 20

    rows, columns = np.mgrid[0:480, 0:640]
    photo = np.stack([rows * 255 // 480, columns * 255 // 640, (rows + columns) % 256], -1).astype(np.uint8)
    with open("photo.ppm", "wb") as file:
        file.write(b"P6\n640 480\n255\n" + photo.tobytes())
    with open("photos.txt", "w") as file:
        file.write("photo.ppm 0\n")
    program("crema", "convert-imageset", "--encode_type", "jpg", "./", "photos.txt", "photo_lmdb")
    program("crema", "db", "export", "photo_lmdb", "photo")
    (jpeg,) = [name for name in os.listdir("photo") if name.endswith(".jpg")]
    program("crema", "models", "squeezenet_v1.1", "--copy", "models/squeezenet_v1.1")
    net = crema.Net("models/squeezenet_v1.1/deploy.prototxt")
    for layer in net.params.values():
        layer[0].data[...] = np.random.default_rng(1).normal(0, 0.02, layer[0].data.shape)
    net.save("random.caffemodel")
    said = program("crema", "classify", "--model", "models/squeezenet_v1.1/deploy.prototxt", "--weights",
                   "random.caffemodel", "--mean", "104,117,123", "--resize", "227x227", "--json", f"photo/{jpeg}")
    assert any(line.startswith("{") for line in said.splitlines()), said
    print(f"crema classify: SqueezeNet takes a photo of 640 x 480, {os.path.getsize(f'photo/{jpeg}')} bytes of JPEG")
    return f"photo/{jpeg}"


def use_caffe(photo):
    import caffe

    net = caffe.Classifier("models/squeezenet_v1.1/deploy.prototxt", "random.caffemodel",
                           mean=np.array([104, 117, 123]), channel_swap=(2, 1, 0), raw_scale=255, image_dims=(256, 256))
    scores = net.predict([caffe.io.load_image(photo)])
    assert scores.shape == (1, 1000) and abs(scores.sum() - 1) < 1e-3, scores
    print("caffe.Classifier: 1,000 scores of the photo, from ten crops")


def main():
    where = os.path.dirname(crema.__file__)
    shutil.copytree(os.path.join(where, "share", "data"), "data")
    listed = program("crema", "models")
    assert "lenet" in listed, listed
    program("crema", "models", "lenet", "--copy", "models/lenet")
    assert "pooling_param" in program("crema", "layers", "Pooling")
    print("crema models, crema layers: models, digits and pages are there")
    train_from_memory()
    train_by_program()
    photo = classify_photos()
    if sys.argv[1] == "yes":
        use_caffe(photo)


if __name__ == "__main__":
    main()
