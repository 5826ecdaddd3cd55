#!/usr/bin/env python3
"""Draws images of rectangles, discs and triangles, with their boxes in the form of YOLO.

  data/shapes/make.py [FOLDER]        default: data/shapes/full. Takes a second.

FOLDER/images and FOLDER/labels get the files, FOLDER/train.txt (1,000 images) and FOLDER/test.txt
(200) their lists, FOLDER/names.txt the names of the classes, FOLDER/sha256 a checksum of all files when the set is whole.

Needs Python 3.9 or newer. Python 3.9 to 3.13 draw the same images each time; Python does not promise it of later versions.
The last line that is printed has the checksum.
"""
import argparse
import hashlib
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from sets import remove_sum, write_sum  # noqa: E402  (the path comes first)

NAMES = ["rectangle", "disc", "triangle"]
COUNTS = {"train": 1000, "test": 200}
checksum = hashlib.sha256()


def write(folder, name, data):
    """Writes a file, and adds its name and its bytes to the checksum."""
    checksum.update(name.encode() + b"\n" + data)
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)


def spans(kind, width, height):
    """The first and the last column of each row of a shape."""
    for row in range(height):
        centre = (row + 0.5) / height
        if kind == 0:
            half = 0.5
        elif kind == 1:
            half = math.sqrt(0.25 - (centre - 0.5) ** 2)
        else:
            half = centre / 2
        yield round((0.5 - half) * width), round((0.5 + half) * width)


def place(width, height, boxes):
    """A box that meets none of the others, or None."""
    for _ in range(30):
        w, h = random.randint(20, 64), random.randint(20, 64)
        left, top = random.randint(0, width - w), random.randint(0, height - h)
        box = left, top, left + w, top + h
        if all(box[2] <= b[0] or b[2] <= box[0] or box[3] <= b[1] or b[3] <= box[1] for b in boxes):
            return box
    return None


def draw(name, folder):
    width, height = random.randint(100, 160), random.randint(100, 160)
    grey = random.randint(40, 215)
    noise = bytes(grey + value * 40 // 256 - 20 for value in range(256))
    pixels = bytearray(random.randbytes(3 * width * height).translate(noise))
    boxes, lines = [], []
    for _ in range(random.randint(1, 4)):
        box = place(width, height, boxes)
        if box is None:
            continue
        left, top, right, bottom = box
        kind = random.randrange(len(NAMES))
        colour = grey, grey, grey
        while max(abs(c - grey) for c in colour) < 60:
            colour = tuple(random.randrange(256) for _ in range(3))
        for row, (first, last) in enumerate(spans(kind, right - left, bottom - top)):
            start = 3 * ((top + row) * width + left + first)
            pixels[start:start + 3 * (last - first)] = bytes(colour) * (last - first)
        boxes.append(box)
        lines.append(f"{kind} {(left + right) / 2 / width:.6f} {(top + bottom) / 2 / height:.6f} "
                     f"{(right - left) / width:.6f} {(bottom - top) / height:.6f}\n")
    write(folder, f"images/{name}.ppm", b"P6\n%d %d\n255\n" % (width, height) + pixels)
    write(folder, f"labels/{name}.txt", "".join(lines).encode())


def main():
    if not hasattr(random, "randbytes"):
        sys.exit(f"make.py: error: needs Python 3.9 or newer, for random.randbytes; this is {sys.version.split()[0]}")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.path.join(os.path.dirname(__file__), "full"))
    folder = parser.parse_args().folder
    for part in "images", "labels":
        os.makedirs(f"{folder}/{part}", exist_ok=True)
    remove_sum(folder)
    write(folder, "names.txt", "".join(name + "\n" for name in NAMES).encode())
    random.seed(1)
    for part, count in COUNTS.items():
        names = [f"{part}{number:04d}" for number in range(count)]
        for name in names:
            draw(name, folder)
        write(folder, f"{part}.txt", "".join(f"images/{name}.ppm\n" for name in names).encode())
    write_sum(folder, checksum)
    print(f"{folder}: {COUNTS['train']} images to train on, {COUNTS['test']} to test on, sha256 {checksum.hexdigest()}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make.py: error: {error}")
