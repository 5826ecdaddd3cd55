#!/usr/bin/env python3
"""Writes lines of one to seven MNIST digits, with the digits of each line from left to right.

  data/digit_lines/make.py [FOLDER] [--mnist FOLDER] [--train N] [--test N]

FOLDER (default: data/digit_lines/full) gets train.tar with 24,000 lines (--train) and test.tar with 2,000 (--test), as the
layer Data reads them: a member NUMBER.pgm for each line, 32x160 in gray, dark on light, and NUMBER.txt with seven labels: the
digits, then -1. Digits vary in size, slant, height and distance; behind the last one the line is empty.

--mnist names the folder of MNIST's four files (.gz). Default: data/mnist/full if they are there, else data/mnist/mini.
Training lines hold training digits, test lines test digits. No digit comes again before all have been drawn.

Needs Python 3.9 or newer. Python 3.9 to 3.13 write the same lines each time; Python does not promise it of later versions.
The lines that are printed have a checksum of each file, and one of both. FOLDER/sha256 gets the latter when the set is whole.
"""
import argparse
import contextlib
import gzip
import hashlib
import io
import os
import random
import struct
import sys
import tarfile
import zlib

HEIGHT, WIDTH, DIGITS = 32, 160, 7
NOISE = bytes(value * 30 // 256 for value in range(256))  # of a byte, 0 to 29
checksum = hashlib.sha256()  # of the names and bytes of the files
HERE = os.path.dirname(os.path.abspath(__file__))


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


def mix(a, b, part):
    return [p + part * (q - p) for p, q in zip(a, b)]


def steps(old, new):
    """The pixel of old ones, and the share of the next one, at the centre of each of new ones."""
    for i in range(new):
        place = min(max((i + 0.5) * old / new - 0.5, 0), old - 1.001)
        yield int(place), place - int(place)


def glyph(rng, pixels, scale, slant):
    """The rows of a digit, scaled and slanted, without the empty columns at its sides."""
    rows = [pixels[28 * y:28 * y + 28] for y in range(28)]
    used = [y for y in range(28) if max(rows[y]) > 63]
    first, last = used[0], used[-1] + 1
    slanted = []
    for y in range(first, last):
        shift = 8 + slant * ((first + last) / 2 - y)
        whole = int(shift)
        row = [0] * whole + list(rows[y]) + [0] * (17 - whole)
        slanted.append(mix(row, [0] + row[:-1], shift - whole))
    columns = [x for x in range(45) if max(row[x] for row in slanted) > 63]
    slanted = [row[columns[0]:columns[-1] + 2] for row in slanted]
    width = max(round(len(slanted[0]) * scale * rng.uniform(0.85, 1.15)), 3)
    height = max(round(len(slanted) * scale * rng.uniform(0.9, 1.1)), 8)
    across = list(steps(len(slanted[0]), width))
    result = []
    for y, part in steps(len(slanted), min(height, HEIGHT)):
        row = mix(slanted[y], slanted[y + 1], part)
        result.append([int(row[x] + f * (row[x + 1] - row[x])) for x, f in across])
    return result


def draw(rng, digits):
    """The pixels of a line and its digits."""
    chosen = [next(digits) for _ in range(rng.randint(1, DIGITS))]
    scale, slant = rng.uniform(0.85, 1.35), rng.uniform(-0.25, 0.25)
    while True:
        glyphs = [glyph(rng, pixels, scale, slant + rng.uniform(-0.1, 0.1)) for pixels, _ in chosen]
        gaps = [rng.randint(2, 9) for _ in chosen]
        space = WIDTH - sum(gaps) - sum(len(g[0]) for g in glyphs)
        if space >= 0:
            break
        scale *= 0.95
    ink = [bytearray(WIDTH) for _ in range(HEIGHT)]
    left = rng.randint(0, min(space, 20))
    middle = HEIGHT / 2 + rng.uniform(-3, 3)
    for rows, gap in zip(glyphs, gaps):
        left += gap
        top = min(max(round(middle - len(rows) / 2 + rng.uniform(-2, 2)), 0), HEIGHT - len(rows))
        for y, row in enumerate(rows):
            ink[top + y][left:left + len(row)] = bytes(row)
        left += len(rows[0])
    paper, contrast = rng.randint(150, 225), rng.uniform(0.5, 0.9)
    shades = [int(paper * (1 - contrast * value / 255)) for value in range(256)]
    noise = rng.randbytes(HEIGHT * WIDTH).translate(NOISE)
    pixels = b"".join(ink).translate(bytes(shades))
    return bytes([p + n for p, n in zip(pixels, noise)]), [label for _, label in chosen]


def add(archive, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def remove_sum(folder):
    """The set is not whole from here on."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{folder}/sha256")


def write_sum(folder):
    with open(f"{folder}/sha256.part", "w") as file:
        file.write(checksum.hexdigest() + "\n")
    os.replace(f"{folder}/sha256.part", f"{folder}/sha256")


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=f"{HERE}/full")
    parser.add_argument("--mnist")
    parser.add_argument("--train", type=positive, default=24000)
    parser.add_argument("--test", type=positive, default=2000)
    args = parser.parse_args()
    if not hasattr(random, "randbytes"):
        sys.exit(f"make.py: error: needs Python 3.9 or newer, for random.randbytes; this is {sys.version.split()[0]}")
    mnist = args.mnist
    if mnist is None:
        mnist = f"{os.path.dirname(HERE)}/mnist/full"
        if not os.path.exists(f"{mnist}/train-images-idx3-ubyte.gz"):
            mnist = f"{os.path.dirname(HERE)}/mnist/mini"
    os.makedirs(args.folder, exist_ok=True)
    remove_sum(args.folder)
    for seed, (part, source, count) in enumerate([("train", "train", args.train), ("test", "t10k", args.test)]):
        rng = random.Random(seed)
        digits = endless(rng, read_mnist(mnist, source))
        path = f"{args.folder}/{part}.tar"
        with tarfile.open(f"{path}.part", "w") as archive:
            for number in range(count):
                pixels, labels = draw(rng, digits)
                add(archive, f"{number:05d}.pgm", b"P5\n%d %d\n255\n" % (WIDTH, HEIGHT) + pixels)
                labels += [-1] * (DIGITS - len(labels))
                add(archive, f"{number:05d}.txt", (" ".join(map(str, labels)) + "\n").encode())
        with open(f"{path}.part", "rb") as file:
            data = file.read()
        os.replace(f"{path}.part", path)
        checksum.update(f"{part}.tar\n".encode() + data)
        print(f"{path}: {count} lines, sha256 {hashlib.sha256(data).hexdigest()}")
    write_sum(args.folder)
    print(f"{args.folder}: sha256 {checksum.hexdigest()}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make.py: error: {error}")
