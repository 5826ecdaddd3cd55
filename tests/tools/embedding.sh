# shellcheck shell=bash disable=SC2034  # its variables are for the tests
# Sourced by embedding*_test.sh SOURCE_DIR SHARED_DIR: installed.sh, and what those tests share.
# shellcheck source=tests/tools/installed.sh
. "${BASH_SOURCE[0]%/*}/installed.sh"

# Builds the program of a folder of models/, without a warning, in $work/NAME.
build_program() {
  build_against "$source_dir/models/$1" "${1##*/}" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror"
}

# Trains LeNet on the digits that ship: $lenet names the weights, $work/digits has the databases.
train_lenet() {
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
  shown_if_failed train.log "$crema" train --threads=1 --solver="$work/solver.prototxt"
  deploy=$source_dir/models/lenet/deploy.prototxt
  lenet=$work/lenet_iter_300.caffemodel
}

# The first test digits as PGM images $work/pgm/000.pgm and so on, and their labels in $labels.
write_digits() {
  local count=$1 i
  gunzip -c "$work/digits/t10k-images-idx3-ubyte.gz" >"$work/images"
  gunzip -c "$work/digits/t10k-labels-idx1-ubyte.gz" >"$work/labels"
  mkdir "$work/pgm"
  for ((i = count - 1; i >= 0; --i)); do
    { printf 'P5\n28 28\n255\n'; tail -c +$((17 + 784 * i)) "$work/images" | head -c 784; } \
      >"$work/pgm/$(printf %03d "$i").pgm" || true
  done
  labels=$(tail -c +9 "$work/labels" | head -c "$count" | od -An -v -tu1 -w1 | tr -d ' ')
}

# same_answers FILE FILE: lines "image: class (probability)". Programs that start anew may choose other engines, which round
# differently: probabilities may differ in their last figure.
same_answers() {
  diff <(sed 's/ (.*//' "$1") <(sed 's/ (.*//' "$2") >"$work/diff" || { head "$work/diff"; return 1; }
  paste <(sed -n 's/.* (\(.*\))$/\1/p' "$1") <(sed -n 's/.* (\(.*\))$/\1/p' "$2") | awk '
    NF != 2 || $1 - $2 > 0.0011 || $2 - $1 > 0.0011 { print "probabilities " $0; wrong = 1 } END { exit wrong || NR == 0 }'
}

# net SHAPE LAYER...: $work/net.prototxt, which has an input "data" of the shape, such as "1 1 28 28", and these layers, as
# "Softmax prob" for one that makes prob of the input. It has no weights: those of all nets fit.
net() {
  local shape=$1 layer type top
  shift
  {
    echo "layer { name: \"data\" type: \"Input\" top: \"data\" input_param { shape { dim: ${shape// / dim: } } } }"
    for layer; do
      read -r type top <<<"$layer"
      echo "layer { name: \"$type$top\" type: \"$type\" bottom: \"data\" ${top:+top: \"$top\"} }"
    done
  } >"$work/net.prototxt"
}

# to_full_disk COMMAND...: the command, with a standard output that takes nothing.
to_full_disk() {
  "$@" >/dev/full
}

# refused COMMAND... -- WORDS...: the command ends with status 1 and one line that has all words.
refused() {
  fails_with "$@"
  (($(wc -l <<<"$output") == 1)) || fail "not one line: $output"
}
