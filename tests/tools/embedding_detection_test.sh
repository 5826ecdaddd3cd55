#!/usr/bin/env bash
# models/digits_ssd/detect_and_draw finds the boxes that `crema detect` finds, and draws them and nothing else.
# The detector is trained here on a few scenes, which it then finds the digits of.
#   embedding_detection_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
if grep -q '^CREMA_OPENCV:BOOL=OFF' "$build_dir/CMakeCache.txt"; then
  echo "skipped: needs a build with OpenCV, which reads the scenes"
  exit 77
fi
if ! python3 -c 'import random; random.randbytes' 2>/dev/null; then
  echo "skipped: needs python3 of version 3.9"
  exit 77
fi
build_program digits_ssd/detect_and_draw
program=$work/detect_and_draw/detect_and_draw

scenes=$work/scenes
"$source_dir/data/digit_scenes/make.py" "$scenes" --mnist "$source_dir/data/mnist/mini" --train 16 --test 1 >"$work/make.log"
"$crema" convert-annotations --label_type=yolo --class_names="$scenes/names.txt" --write_label_map="$scenes/labelmap.prototxt" \
  "$scenes/" "$scenes/train.txt" "$scenes/train_lmdb" 2>"$work/convert.log"
model=$source_dir/models/digits_ssd
sed "s#data/digit_scenes/full#$scenes#; s/batch_size: 32/batch_size: 8/" "$model/train_val.prototxt" >"$work/train_val.prototxt"
cat >"$work/solver.prototxt" <<SOLVER
net: "$work/train_val.prototxt"
type: "AdamW" base_lr: 0.002 lr_policy: "cosine" clip_gradients: 10
max_iter: 120 snapshot_prefix: "$work/ssd" random_seed: 1
SOLVER
"$crema" train --threads=1 --solver="$work/solver.prototxt" 2>"$work/train.log" || { cat "$work/train.log"; exit 1; }
deploy=$model/deploy.prototxt
weights=$work/ssd_iter_120.caffemodel

images=("$scenes"/images/train0000?.ppm)
"$program" "$deploy" "$weights" "$work/drawn" "${images[@]}" >"$work/here"
"$crema" detect --threads=1 --model="$deploy" --weights="$weights" --mean=128,128,128 --scale=0.0078125 \
  --confidence_threshold=0.49 "${images[@]}" \
  2>"$work/detect.log" | awk '{ $2 -= 1; print }' >"$work/there"

python3 - "$work/here" "$work/there" "$work/drawn" <<'PYTHON'
import os
import sys

here, there = ([line.split() for line in open(name)] for name in sys.argv[1:3])
drawn = sys.argv[3]


def overlap(a, b):
    left, top, right, bottom = (f(x, y) for f, x, y in zip((max, max, min, min), a, b))
    shared = max(right - left, 0) * max(bottom - top, 0)
    return shared / (sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)) - shared)


def same(one, other):
    a, b = ([float(value) for value in row[2:]] for row in (one, other))
    return one[:2] == other[:2] and abs(a[0] - b[0]) < 1e-3 and all(abs(x - y) < 0.15 for x, y in zip(a[1:], b[1:]))


# Of two such boxes, suppression leaves one or the other, or both, as engines round.
def tied(one, other):
    a, b = ([float(value) for value in row[2:]] for row in (one, other))
    above = overlap(a[1:], b[1:]) - 0.45  # the nms_threshold; of figures that were rounded to 0.1
    return one[:2] == other[:2] and (abs(above) < 0.02 or above > 0 and abs(a[0] - b[0]) < 1e-3)


def check_boxes(ones, others):
    """Each of `ones` is one of `others`, but for one that may be tied."""
    others, alone = list(others), []
    for one in ones:
        twin = next((other for other in others if same(one, other)), None)
        others.remove(twin) if twin else alone.append(one)
    assert len(alone) <= 1 and all(any(tied(one, other) for other in others) for one in alone), f"only one program has {alone}"


# The same boxes as those of crema detect, but for the last digit that is printed. Each program measures for itself which
# engines are the fastest, and engines round differently: a confidence near 0.5 may count in one program only.
check_boxes(here, there)
assert all(float(row[2]) >= 0.5 for row in here)
check_boxes([row for row in there if float(row[2]) > 0.501], here)


def ppm(name):
    with open(name, "rb") as file:
        magic, size, most = (file.readline().split() for _ in range(3))
        assert magic == [b"P6"] and most == [b"255"], name
        width, height = map(int, size)
        pixels = file.read()
        assert len(pixels) == 3 * width * height, name
        return width, height, [pixels[i:i + 3] for i in range(0, len(pixels), 3)]


found = true = 0
colours, glyphs = {}, {}
for name in sorted({row[0] for row in here}):
    width, height, before = ppm(name)
    copy = ppm(f"{drawn}/{os.path.basename(name)}")
    assert copy[:2] == (width, height)
    after = copy[2]
    mine = [(int(row[1]), [float(value) for value in row[3:]]) for row in here if row[0] == name]
    may_change = set()
    for number, (digit, box) in enumerate(mine):
        left, right = (min(round(x), width - 1) for x in box[0::2])
        top, bottom = (min(round(y), height - 1) for y in box[1::2])
        xs, ys = range(left, right + 1), range(top, bottom + 1)
        frame = {(x, y) for x in xs for y in (top, bottom)} | {(x, y) for y in ys for x in (left, right)}
        plate = {(x, y) for x in range(left, left + 5) for y in range(top, top + 7)}
        # A pixel near the border of a printed figure may be rounded the other way.
        near = {(x + dx, y + dy) for x, y in frame | plate for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
        may_change |= near
        sure = all(abs(value % 1 - 0.5) > 0.06 for value in box) and left + 5 <= width and top + 7 <= height
        if sure and number == len(mine) - 1:  # nothing is drawn over it
            seen = [after[y * width + x] for x, y in frame - plate]
            colour = max(set(seen), key=seen.count)
            assert seen.count(colour) == len(seen), f"no whole frame around {digit} of {name}"
            assert colours.setdefault(digit, colour) == colour, f"{digit} has two colours"
            ink = [after[y * width + x] for y in range(top, top + 7) for x in range(left, left + 5)]
            assert set(ink) == {colour, bytes(3)}, f"the plate of {digit} of {name} has other colours"
            glyph = [pixel == colour for pixel in ink]
            assert glyphs.setdefault(digit, glyph) == glyph, f"{digit} has two forms"
    for i, (old, new) in enumerate(zip(before, after)):
        assert old == new or (i % width, i // width) in may_change, f"pixel {i} of {name} changed"

    # The digits that are there.
    with open(name.replace("images/", "labels/").replace(".ppm", ".txt")) as file:
        for line in file:
            digit, x, y, w, h = map(float, line.split())
            truth = [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height]
            true += 1
            found += any(d == digit and all(abs(a - b) < 0.3 * w * width for a, b in zip(box, truth)) for d, box in mine)
assert len(set(colours.values())) == len(colours), "two digits have one colour"
assert len({tuple(glyph) for glyph in glyphs.values()}) == len(glyphs), "two digits have one form"
print(f"{found} of {true} digits found, {len(here)} boxes")
assert colours and found >= 0.8 * true
PYTHON

# Comments, as GIMP writes them, are no part of the image.
name=${images[0]##*/}
mkdir "$work/gimp"
{ head -n 1 "${images[0]}"; echo '# Created by GIMP'; tail -n +2 "${images[0]}"; } >"$work/gimp/$name"
"$program" "$deploy" "$weights" "$work/drawn/gimp" "$work/gimp/$name" >"$work/of_gimp"
cmp "$work/drawn/gimp/$name" "$work/drawn/$name" || fail "comments change the boxes"
[[ -s $work/of_gimp ]] || fail "no boxes"

# Errors that come before anything is written.
refused "$program" "$deploy" "$weights" "$work/none" "${images[@]}" "$work/gimp/$name" -- \
  "'${images[0]}' and '$work/gimp/$name' would both be copied to '$work/none/$name'"
refused "$program" "$deploy" "$weights" "$work/gimp" "${images[1]}" "$work/gimp/$name" -- "would replace it"
[[ ! -e $work/none && $(ls "$work/gimp") == "$name" ]] || fail "it wrote something"

# A box of a net that is no detector.
row() {
  cat <<NET
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "quiet" type: "Silence" bottom: "data" }
layer { name: "row" type: "DummyData" top: "row"
  dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 7 } data_filler { type: "constant" value: $1 } } }
NET
}
for value in nan inf; do
  row $value >"$work/row.prototxt"
  refused "$program" "$work/row.prototxt" "$weights" "$work/none" "${images[0]}" -- "'${images[0]}': a box is not finite"
done
row 11 >"$work/row.prototxt"
refused "$program" "$work/row.prototxt" "$weights" "$work/none" "${images[0]}" -- "label 11 is no digit"

# Nets of other inputs and outputs.
sed 's/type: "Input"/type: "DummyData"/; s/input_param {/dummy_data_param {/' "$deploy" >"$work/data.prototxt"
refused "$program" "$work/data.prototxt" "$weights" "$work/none" "${images[0]}" -- \
  "'$work/data.prototxt' has no input; give a deploy.prototxt"
net "1 1 28 28" "Softmax prob"
refused "$program" "$work/net.prototxt" "$weights" "$work/none" "${images[0]}" -- \
  "input 'data' of '$work/net.prototxt' is 1x1x28x28; images in colour are N x 3 x H x W"
net "1 3 28 28" Silence
refused "$program" "$work/net.prototxt" "$weights" "$work/none" "${images[0]}" -- "has no output; give a deploy.prototxt"

# Where a copy does not fit, nothing is left of it, and an older copy stays.
small_disk() {
  (trap '' XFSZ; ulimit -f 8; "$@" >/dev/null)  # kB
}
refused small_disk "$program" "$deploy" "$weights" "$work/small" "${images[0]}" -- "cannot write '$work/small/$name'; is the disk full?"
[[ -z $(ls "$work/small") ]] || fail "a failed run left $(ls "$work/small")"
refused small_disk "$program" "$deploy" "$weights" "$work/drawn/gimp" "${images[0]}" -- "cannot write '$work/drawn/gimp/$name'"
cmp "$work/drawn/gimp/$name" "$work/drawn/$name" || fail "a failed run changed a copy"
[[ $(ls "$work/drawn/gimp") == "$name" ]] || fail "a failed run left $(ls "$work/drawn/gimp")"

sed 's/name: "conv8_loc"/name: "conv9_loc"/' "$deploy" >"$work/other.prototxt"
refused "$program" "$work/other.prototxt" "$weights" "$work/none" "${images[0]}" -- "has no weights for conv9_loc of"
refused to_full_disk "$program" "$deploy" "$weights" "$work/drawn" "${images[@]}" -- "cannot write to standard output"

usage="usage: detect_and_draw deploy.prototxt weights.caffemodel folder image.ppm..."
refused "$program" "$deploy" "$weights" "$work/drawn" -- "$usage"
refused "$program" "$deploy" /nowhere.caffemodel "$work/drawn" "${images[0]}" -- /nowhere.caffemodel
refused "$program" "$deploy" "$weights" "$work/drawn" /nowhere.ppm -- "cannot open '/nowhere.ppm'"
refused "$program" "$deploy" "$weights" "$work/drawn" "$deploy" -- "is no binary PPM image"
refused "$program" "$deploy" "$weights" "$scenes/images" "${images[0]}" -- "would replace it"
head -c 1000 "${images[0]}" >"$work/short.ppm"
refused "$program" "$deploy" "$weights" "$work/drawn" "$work/short.ppm" -- "short.ppm' is cut off"
