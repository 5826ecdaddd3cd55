#!/usr/bin/env python3
"""The error of an autoencoder's reconstructions, and a picture of images above their reconstructions.

  models/autoencoder_mnist/reconstructions.py IMAGES RECONSTRUCTIONS PICTURE.png [COUNT]

IMAGES and RECONSTRUCTIONS are files that crema extract-features writes as npy: square gray images with values from 0 to 1. The picture
shows the first COUNT of them, 20 by default, ten in a row. The error is the sum of the squared differences of an image's pixels, its
mean over all images. Only Python's standard library is needed.
"""
import array
import ast
import math
import struct
import sys
import zlib

ROW = 10  # images beside each other
GAP = 2   # pixels between images


def read_npy(name):
    """The number of rows of an array of 32-bit floats, and its values."""
    with open(name, "rb") as file:
        magic, version = file.read(6), file.read(2)[0]
        if magic != b"\x93NUMPY":
            sys.exit(f"{name}: no npy file")
        header = ast.literal_eval(file.read(int.from_bytes(file.read(2 if version == 1 else 4), "little")).decode())
        if header["descr"] != "<f4" or header["fortran_order"]:
            sys.exit(f"{name}: the values have to be 32-bit floats in C order")
        values = array.array("f", file.read())
    if sys.byteorder == "big":
        values.byteswap()
    return header["shape"][0], values


def write_png(name, width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(pixels[y * width:(y + 1) * width]) for y in range(height))
    with open(name, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    rows, images = read_npy(sys.argv[1])
    other_rows, reconstructions = read_npy(sys.argv[2])
    if rows != other_rows or len(images) != len(reconstructions):
        sys.exit("each image needs a reconstruction of its size")
    size = len(images) // rows
    side = math.isqrt(size)
    if side * side != size:
        sys.exit(f"images of {size} values are not square")

    error = sum((a - b) * (a - b) for a, b in zip(images, reconstructions)) / rows
    print(f"squared error of an image: {error:.3f}, mean of {rows} images")

    count = min(int(sys.argv[4]) if len(sys.argv) == 5 else 20, rows)
    width = min(count, ROW) * (side + GAP) - GAP
    height = 2 * math.ceil(count / ROW) * (side + GAP) - GAP
    pixels = bytearray(width * height)
    for index in range(count):
        left = index % ROW * (side + GAP)
        for line, values in enumerate((images, reconstructions)):
            top = (2 * (index // ROW) + line) * (side + GAP)
            for y in range(side):
                start = index * size + y * side
                at = (top + y) * width + left
                pixels[at:at + side] = bytes(round(255 * min(max(v, 0.0), 1.0)) for v in values[start:start + side])
    write_png(sys.argv[3], width, height, pixels)
    print(f"{sys.argv[3]}: {count} images, each above its reconstruction")


if __name__ == "__main__":
    main()
