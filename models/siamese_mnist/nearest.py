#!/usr/bin/env python3
"""The share of test digits whose nearest training digit has the right class.

  models/siamese_mnist/nearest.py TRAIN_FEATURES TRAIN_LABELS TEST_FEATURES TEST_LABELS

The files are those that crema extract-features writes as npy: a row of coordinates and a label for each digit.
Near is by the Euclidean distance. A k-d tree finds the nearest digit exactly; only Python's standard library is needed.
"""
import array
import ast
import heapq
import math
import sys


def read_npy(name):
    """The rows of an array of 32-bit floats, as tuples."""
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
    rows = header["shape"][0]
    width = len(values) // rows
    return [tuple(values[row * width:(row + 1) * width]) for row in range(rows)]


LEAF = 16


def build(points):
    """A k-d tree of (coordinates, label): (axis, middle, lower, upper), or a list of at most LEAF points."""
    if len(points) <= LEAF:
        return points
    spread = [max(column) - min(column) for column in zip(*(point for point, _ in points))]
    axis = spread.index(max(spread))
    points.sort(key=lambda entry: entry[0][axis])
    half = len(points) // 2
    return axis, points[half][0][axis], build(points[:half]), build(points[half:])


def nearest(tree, query):
    """The label of the point that is nearest to the query."""
    best, label = float("inf"), None
    # Parts of the tree, each with a lower bound of its squared distance, and the distances along the axes that make it up. The count
    # keeps the heap from comparing parts.
    parts = [(0.0, 0, tree, (0.0,) * len(query))]
    count = 0
    while parts:
        bound, _, part, offsets = heapq.heappop(parts)
        if bound >= best * best:
            break
        while isinstance(part, tuple):
            axis, middle, lower, upper = part
            offset = query[axis] - middle
            part, other = (lower, upper) if offset < 0 else (upper, lower)
            farther = bound - offsets[axis] * offsets[axis] + offset * offset
            if farther < best * best:
                count += 1
                heapq.heappush(parts, (farther, count, other, offsets[:axis] + (offset,) + offsets[axis + 1:]))
        for point, name in part:
            distance = math.dist(point, query)
            if distance < best:
                best, label = distance, name
    return label


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    train, train_labels, test, test_labels = (read_npy(name) for name in sys.argv[1:])
    if len(train) != len(train_labels) or len(test) != len(test_labels):
        sys.exit("each row of features needs a label")
    tree = build(list(zip(train, train_labels)))
    right = sum(nearest(tree, query) == label for query, label in zip(test, test_labels))
    print(f"{right} of {len(test)} test digits have a nearest training digit of the right class: {100 * right / len(test):.2f}%")


if __name__ == "__main__":
    main()
