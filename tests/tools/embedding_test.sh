#!/usr/bin/env bash
# An installed copy of Crema is found by find_package and by pkg-config, and a program built against it
# either way classifies digits: models/lenet/classify, with weights trained here on the digits that ship.
#   embedding_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
set -euo pipefail
source_dir=$1
build_dir=${CREMA_BUILD_DIR:?names the build folder to install}
if grep -q '^CREMA_SANITIZE:STRING=.' "$build_dir/CMakeCache.txt"; then
  echo "skipped: needs a build without sanitizers, which a program would have to share"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/installed" >"$work/install.log"
cmake -S "$source_dir/models/lenet/classify" -B "$work/classify" -DCMAKE_PREFIX_PATH="$work/installed" \
  >"$work/configure.log"
cmake --build "$work/classify" >"$work/build.log" || { cat "$work/build.log"; exit 1; }

# The original pkg-config, unlike pkgconf, refuses a field that comes twice.
pc=$(find "$work/installed" -name crema.pc)
twice=$(sed -n 's/^\([A-Z][A-Za-z.]*\):.*/\1/p' "$pc" | sort | uniq -d)
[[ -z $twice ]] || { echo "$pc has '$twice' twice"; exit 1; }
flags=$(PKG_CONFIG_PATH=${pc%/*} pkg-config --cflags --libs crema)
# shellcheck disable=SC2086  # words are meant
"${CXX:-c++}" -std=c++20 "$source_dir/models/lenet/classify/classify.cpp" -o "$work/by_pkg_config" $flags

crema=$work/installed/bin/crema
mkdir "$work/digits"
cp "$source_dir"/data/mnist/mini/*.gz "$work/digits"
"$crema" convert-mnist "$work/digits" 2>"$work/convert.log"
sed "s#data/mnist/mini/#$work/digits/#" "$source_dir/models/lenet/quickstart_train_val.prototxt" \
  >"$work/train_val.prototxt"
cat >"$work/solver.prototxt" <<SOLVER
net: "$work/train_val.prototxt"
base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
max_iter: 300 snapshot_prefix: "$work/lenet" random_seed: 1
SOLVER
"$crema" train --solver="$work/solver.prototxt" 2>"$work/train.log" || { cat "$work/train.log"; exit 1; }

# The first test digits as PGM images, and their labels.
count=50
gunzip -c "$work/digits/t10k-images-idx3-ubyte.gz" >"$work/images"
gunzip -c "$work/digits/t10k-labels-idx1-ubyte.gz" >"$work/labels"
for ((i = 0; i < count; ++i)); do
  { printf 'P5\n28 28\n255\n'; tail -c +$((17 + 784 * i)) "$work/images" | head -c 784; } \
    >"$work/$(printf %03d "$i").pgm" || true
done
labels=$(tail -c +9 "$work/labels" | head -c $count | od -An -v -tu1 -w1 | tr -d ' ')
classify() {
  "$1" "$source_dir/models/lenet/deploy.prototxt" "$work/lenet_iter_300.caffemodel" "$work"/0*.pgm
}
lines=$(classify "$work/classify/classify")
[[ $lines == "$(classify "$work/by_pkg_config")" ]] || { echo "the two programs disagree"; exit 1; }
answers=$(sed 's/.*: \([0-9]\) .*/\1/' <<<"$lines")
right=$(paste <(echo "$labels") <(echo "$answers") | awk '$1 == $2' | wc -l)
echo "$right of $count digits right"
((right >= count * 8 / 10))

# Errors reach the user as one message.
if "$work/classify/classify" "$source_dir/models/lenet/deploy.prototxt" /nowhere.caffemodel "$work/000.pgm" \
  2>"$work/error.log"; then
  exit 1
fi
grep -q nowhere "$work/error.log"
