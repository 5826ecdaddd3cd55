#!/usr/bin/env bash
# The scripts of models/ that compute figures from features give those of small files whose answer is known.
#   model_scripts_test.sh SOURCE_DIR SHARED_DIR
set -euo pipefail
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }
nearest=$1/models/siamese_mnist/nearest.py
reconstructions=$1/models/autoencoder_mnist/reconstructions.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Files of random points with labels, and the number of queries whose nearest point has their label, found by comparing all.
# An eighth of the points comes twice, so that a tree has to split equal values.
python3 - >expected <<'PYTHON'
import random
import struct


def write_npy(name, rows):
    shape = f"({len(rows)}, {len(rows[0])})"
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        for row in rows:
            file.write(struct.pack(f"<{len(row)}f", *row))


random.seed(7)
points = [(random.randrange(64) / 8, random.randrange(64) / 8, random.random()) for _ in range(350)]
points += points[:50]
points = [struct.unpack("<3f", struct.pack("<3f", *point)) for point in points]
labels = [(point[0] + point[1] > 8,) for point in points]
queries = [struct.unpack("<3f", struct.pack("<3f", *(random.uniform(-1, 9) for _ in range(3)))) for _ in range(200)]
truth = [(query[0] + query[1] > 8,) for query in queries]
right = 0
for query, label in zip(queries, truth):
    distances = [sum((a - b) ** 2 for a, b in zip(point, query)) for point in points]
    right += labels[distances.index(min(distances))] == label
write_npy("points.npy", points)
write_npy("labels.npy", labels)
write_npy("queries.npy", queries)
write_npy("truth.npy", truth)
print(right)

# Three images of 2x2 pixels: errors of 0, 4 * 0.25 and 1.
write_npy("images.npy", [(0, 0.25, 0.5, 1), (0, 0, 0, 0), (1, 0, 1, 0)])
write_npy("same.npy", [(0, 0.25, 0.5, 1), (0.5, 0.5, 0.5, 0.5), (1, 0, 1, 1)])
write_npy("short.npy", [(0, 0.25, 0.5, 1)])
PYTHON

fail() {
  echo "$*"
  exit 1
}
right=$(<expected)
((right > 180 && right < 200)) || fail "the points tell too little: $right of 200"
said=$("$nearest" points.npy labels.npy queries.npy truth.npy)
[[ $said == "$right of 200 test digits have a nearest training digit of the right class: "* ]] || fail "not $right: $said"
! "$nearest" points.npy truth.npy queries.npy truth.npy 2>said || fail "takes labels of other points"
grep -q 'each row of features needs a label' said || fail "$(<said)"

said=$("$reconstructions" images.npy same.npy picture.png)
[[ $said == "squared error of an image: 0.667, mean of 3 images"* ]] || fail "$said"
# Three images side by side, 2 + 2 + 2 pixels with gaps of 2, above their reconstructions.
python3 - <<'PYTHON' || fail "another picture"
import struct
import zlib

data = open("picture.png", "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
width, height = struct.unpack(">II", data[16:24])
assert (width, height) == (10, 6), (width, height)
size, = struct.unpack(">I", data[33:37])
rows = zlib.decompress(data[41:41 + size])
pixels = [rows[y * (width + 1) + 1:(y + 1) * (width + 1)] for y in range(height)]
assert pixels[0][:2] == bytes([0, 64]) and pixels[1][:2] == bytes([128, 255]), pixels
assert pixels[4][4:6] == bytes([128, 128]), pixels
assert pixels[5][8:] == bytes([255, 255]), pixels
PYTHON
! "$reconstructions" images.npy short.npy picture.png 2>said || fail "takes fewer reconstructions than images"
