#!/usr/bin/env python3
"""Draws scenes of MNIST digits on cluttered ground, with their boxes and a class for each pixel.

  data/digit_scenes/make.py [FOLDER] [--mnist FOLDER] [--train N] [--test N]

FOLDER (default: data/digit_scenes/full) gets, for --train 12000 and --test 500 scenes of 96x96 in colour,

  images/NAME.ppm           the scenes
  labels/NAME.txt           a line "class cx cy width height" for each digit, in the form of YOLO; the class is the digit,
                            and the box has a pixel of MNIST's image around the strokes
  masks/NAME.pgm            for each pixel 0, or 1 + the digit
  train.txt, test.txt       lines "images/NAME.ppm"
  train_masks.txt, test_masks.txt     lines "images/NAME.ppm masks/NAME.pgm"
  names.txt                 the names of the classes
  sha256                    a checksum of all files, when the set is whole

--mnist names the folder of MNIST's four files (.gz). Default: data/mnist/full if they are there, else data/mnist/mini.
Training scenes hold training digits, test scenes test digits. No digit comes again before all have been drawn.

Needs Python 3.9 or newer. Python 3.9 to 3.13 draw the same scenes each time; Python does not promise it of later versions.
The last line that is printed has the checksum.
"""
import argparse
import hashlib
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from sets import endless, positive, read_mnist, remove_sum, write_sum  # noqa: E402  (the path comes first)

SIDE = 96
NOISE = bytes(value * 24 // 256 for value in range(256))  # of a byte, 0 to 23
checksum = hashlib.sha256()
HERE = os.path.dirname(os.path.abspath(__file__))


def trim(pixels):
    """The rows of a digit's bounding box, as lists, with an empty pixel around."""
    rows = [pixels[28 * y:28 * y + 28] for y in range(28)]
    used = [y for y in range(28) if max(rows[y]) > 63]
    columns = [x for x in range(28) if max(row[x] for row in rows) > 63]
    left, right = columns[0], columns[-1] + 1
    empty = [0] * (right - left + 2)
    return [empty] + [[0, *rows[y][left:right], 0] for y in range(used[0], used[-1] + 1)] + [empty]


def resize(rows, width, height):
    """The image in another size, by linear interpolation."""
    def steps(old, new):
        for i in range(new):
            place = min(max((i + 0.5) * old / new - 0.5, 0), old - 1.001)
            yield int(place), place - int(place)
    columns = list(steps(len(rows[0]), width))
    result = []
    for y, part in steps(len(rows), height):
        row = [a + part * (b - a) for a, b in zip(rows[y], rows[y + 1])]
        result.append([int(row[x] + f * (row[x + 1] - row[x])) for x, f in columns])
    return result


def write(folder, name, data):
    """Writes a file, and adds its name and its bytes to the checksum."""
    checksum.update(name.encode() + b"\n" + data)
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)


def luma(colour):
    return 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]


def ground(rng):
    """A gradient between four corners of similar colour."""
    base = [rng.randint(50, 205) for _ in range(3)]
    corners = [[c + rng.randint(-40, 40) for c in base] for _ in range(4)]
    pixels = bytearray()
    for y in range(SIDE):
        v = y / (SIDE - 1)
        left = [a + v * (b - a) for a, b in zip(corners[0], corners[2])]
        right = [a + v * (b - a) for a, b in zip(corners[1], corners[3])]
        row = bytearray(3 * SIDE)
        for c in range(3):
            step = (right[c] - left[c]) / (SIDE - 1)
            row[c::3] = bytes([int(left[c] + x * step) for x in range(SIDE)])
        pixels += row
    return base, pixels


def add_shape(rng, base, pixels):
    """A bar, a disc or a rectangle whose colour is near that of the ground."""
    colour = bytes(min(max(c + rng.randint(-45, 45), 0), 255) for c in base)
    kind = rng.randrange(3)
    x, y = rng.uniform(0, SIDE), rng.uniform(0, SIDE)
    if kind == 0:
        slope, thickness, size = rng.uniform(-2, 2), rng.uniform(1, 4), rng.randint(15, 50)
        spans = [(y + i, x + i * slope, x + i * slope + thickness) for i in range(size)]
    elif kind == 1:
        radius = rng.uniform(4, 16)
        half = [(i, (radius * radius - i * i) ** 0.5) for i in range(-int(radius), int(radius) + 1)]
        spans = [(y + i, x - h, x + h) for i, h in half]
    else:
        width, height = rng.randint(5, 40), rng.randint(5, 40)
        spans = [(y + i, x - width / 2, x + width / 2) for i in range(height)]
    for row, first, last in spans:
        row, first, last = int(row), max(int(first), 0), min(int(last), SIDE)
        if 0 <= row < SIDE and first < last:
            start = 3 * (row * SIDE + first)
            pixels[start:start + 3 * (last - first)] = colour * (last - first)


def blend(pixels, rows, left, top, colour):
    for y, row in enumerate(rows):
        start = 3 * ((top + y) * SIDE + left)
        for x, value in enumerate(row):
            if value:
                at = start + 3 * x
                for c in range(3):
                    pixels[at + c] += (colour[c] - pixels[at + c]) * value // 255


def colour_on(rng, pixels, left, top, width, height):
    """A colour whose brightness differs from that of a rectangle."""
    ats = [3 * (y * SIDE + x) for y in range(top, top + height, 4) for x in range(left, left + width, 4)]
    mean = sum(luma(pixels[at:at + 3]) for at in ats) / len(ats)
    while True:
        colour = [rng.randrange(256) for _ in range(3)]
        if abs(luma(colour) - mean) >= 70:
            return colour


def add_crumb(rng, pixels, digit):
    """A piece of a digit."""
    size = rng.randint(5, 9)
    x, y = rng.randint(8, 20 - size), rng.randint(8, 20 - size)
    rows = [digit[28 * (y + i) + x:28 * (y + i) + x + size] for i in range(size)]
    left, top = rng.randint(0, SIDE - size), rng.randint(0, SIDE - size)
    blend(pixels, rows, left, top, colour_on(rng, pixels, left, top, size, size))


def place(rng, width, height, boxes):
    """A place with two free pixels around, or None."""
    for _ in range(20):
        left, top = rng.randint(1, SIDE - 1 - width), rng.randint(1, SIDE - 1 - height)
        if all(left + width + 1 < b[0] or b[2] + 1 < left or top + height + 1 < b[1] or b[3] + 1 < top for b in boxes):
            return left, top
    return None


def draw(rng, name, folder, digits):
    base, pixels = ground(rng)
    for _ in range(rng.randint(3, 8)):
        add_shape(rng, base, pixels)
    for _ in range(rng.randint(0, 4)):
        add_crumb(rng, pixels, next(digits)[0])
    mask = bytearray(SIDE * SIDE)
    boxes, lines = [], []
    for _ in range(rng.randint(2, 6)):
        digit, label = next(digits)
        rows = trim(digit)
        scale = rng.uniform(18, 46) / max(len(rows), len(rows[0]))
        width = max(round(len(rows[0]) * scale * rng.uniform(0.85, 1.15)), 5)
        height = max(round(len(rows) * scale), 5)
        where = place(rng, width, height, boxes)
        if where is None:
            continue
        left, top = where
        rows = resize(rows, width, height)
        blend(pixels, rows, left, top, colour_on(rng, pixels, left, top, width, height))
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                if value > 127:
                    mask[(top + y) * SIDE + left + x] = 1 + label
        boxes.append((left, top, left + width, top + height))
        lines.append(f"{label} {(left + width / 2) / SIDE:.6f} {(top + height / 2) / SIDE:.6f} "
                     f"{width / SIDE:.6f} {height / SIDE:.6f}\n")
    noise = rng.randbytes(len(pixels)).translate(NOISE)
    pixels = bytes([min(max(p + n - 12, 0), 255) for p, n in zip(pixels, noise)])
    write(folder, f"images/{name}.ppm", b"P6\n%d %d\n255\n" % (SIDE, SIDE) + pixels)
    write(folder, f"masks/{name}.pgm", b"P5\n%d %d\n255\n" % (SIDE, SIDE) + mask)
    write(folder, f"labels/{name}.txt", "".join(lines).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=f"{HERE}/full")
    parser.add_argument("--mnist")
    parser.add_argument("--train", type=positive, default=12000)
    parser.add_argument("--test", type=positive, default=500)
    args = parser.parse_args()
    if not hasattr(random, "randbytes"):
        sys.exit(f"make.py: error: needs Python 3.9 or newer, for random.randbytes; this is {sys.version.split()[0]}")
    mnist = args.mnist
    if mnist is None:
        mnist = f"{os.path.dirname(HERE)}/mnist/full"
        if not os.path.exists(f"{mnist}/train-images-idx3-ubyte.gz"):
            mnist = f"{os.path.dirname(HERE)}/mnist/mini"
    folder = args.folder
    for part in "images", "labels", "masks":
        os.makedirs(f"{folder}/{part}", exist_ok=True)
    remove_sum(folder)
    write(folder, "names.txt", "".join(f"{digit}\n" for digit in range(10)).encode())
    for seed, (part, source, count) in enumerate([("train", "train", args.train), ("test", "t10k", args.test)]):
        rng = random.Random(seed)
        digits = endless(rng, read_mnist(mnist, source))
        names = [f"{part}{number:05d}" for number in range(count)]
        for name in names:
            draw(rng, name, folder, digits)
        write(folder, f"{part}_masks.txt", "".join(f"images/{name}.ppm masks/{name}.pgm\n" for name in names).encode())
        write(folder, f"{part}.txt", "".join(f"images/{name}.ppm\n" for name in names).encode())
    write_sum(folder, checksum)
    print(f"{folder}: {args.train} scenes to train on, {args.test} to test on, sha256 {checksum.hexdigest()}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make.py: error: {error}")
