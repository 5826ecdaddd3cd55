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
import hashlib
import io
import os
import random
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from sets import endless, positive, read_mnist, remove_sum, write_sum  # noqa: E402  (the path comes first)

HEIGHT, WIDTH, DIGITS = 32, 160, 7
NOISE = bytes(value * 30 // 256 for value in range(256))  # of a byte, 0 to 29
checksum = hashlib.sha256()  # of the names and bytes of the files
HERE = os.path.dirname(os.path.abspath(__file__))


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
    write_sum(args.folder, checksum)
    print(f"{args.folder}: sha256 {checksum.hexdigest()}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make.py: error: {error}")
