"""What the scripts make.py share: MNIST's digits, the checksum of a whole set, numbers on the command line."""
import argparse
import contextlib
import gzip
import os
import struct
import sys
import zlib


def unpack(path):
    try:
        with gzip.open(path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(f"make.py: error: {path}: {getattr(error, 'strerror', None) or error}; data/mnist/get.sh puts MNIST into "
                 "data/mnist/full, and 5,000 of its digits ship in data/mnist/mini")


def read_mnist(folder, part):
    """The digits of a part: pairs of 784 bytes and a class."""
    paths = [f"{folder}/{part}-{name}.gz" for name in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    images, labels = map(unpack, paths)
    pixels, classes = images[16:], labels[8:]
    count = len(classes)
    if images[:16] != struct.pack(">4i", 2051, count, 28, 28) or labels[:8] != struct.pack(">2i", 2049, count):
        sys.exit(f"make.py: error: {paths[0]} and {paths[1]}: the heads are not those of MNIST's files, of images of 28x28 and "
                 f"as many classes ({count}); data/mnist/get.sh gets good ones")
    if not count:
        sys.exit(f"make.py: error: {paths[1]} holds no digits; data/mnist/get.sh gets all of MNIST's")
    if len(pixels) != 784 * count or max(classes) > 9:
        sys.exit(f"make.py: error: {paths[0]} has {len(pixels)} pixels, where {count} digits have {784 * count}, or a class of "
                 f"{paths[1]} is above 9; data/mnist/get.sh gets good ones")
    digits = [(pixels[784 * i:784 * (i + 1)], label) for i, label in enumerate(classes)]
    for number, (digit, _) in enumerate(digits):
        if max(digit) < 64:
            sys.exit(f"make.py: error: {paths[0]}: image {number} is empty; data/mnist/get.sh gets good ones")
    print(f"{count} digits of {folder}/{part}-*")
    return digits


def endless(rng, digits):
    """All digits in random order, then all in another order, and so on."""
    order = list(range(len(digits)))
    while True:
        rng.shuffle(order)
        for i in order:
            yield digits[i]


def remove_sum(folder):
    """The set is not whole from here on."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{folder}/sha256")


def write_sum(folder, checksum):
    with open(f"{folder}/sha256.part", "w") as file:
        file.write(checksum.hexdigest() + "\n")
    os.replace(f"{folder}/sha256.part", f"{folder}/sha256")


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)
