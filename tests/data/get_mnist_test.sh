#!/usr/bin/env bash
# Tests data/mnist/get.sh without a network: what it must refuse, and what it must do with good files.
# Run by ctest: get_mnist_test.sh SOURCE_DIR SHARED_DIR. CREMA_SHARED_DIR overrides the folder whose
# data/mnist holds the official files, needed only by the last cases.
set -euo pipefail

readonly get="$1/data/mnist/get.sh"
readonly official=${CREMA_SHARED_DIR:-$2}/data/mnist
readonly first=train-images-idx3-ubyte.gz
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
unset CREMA_DATA_DIR CREMA_MNIST_MIRRORS

fail() { echo "FAIL: $*"; echo "--- output:"; cat "$scratch/output"; exit 1; }

# Runs get.sh into folder $1; sets status.
run_get() { status=0; "$get" "$scratch/$1" > "$scratch/output" 2>&1 || status=$?; }

expect_text() { grep -qF -- "$1" "$scratch/output" || fail "no '$1' in the output"; }

expect_good() {
  local name
  ((status == 0)) || fail "exit code $status"
  for name in {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz; do
    cmp -s "$scratch/$1/$name" "$official/$name" || fail "$1/$name is not the official file"
  done
  [[ -z $(find "$scratch/$1" -name '*.part') ]] || fail "a .part file stayed behind"
}

mkdir -p "$scratch/bad/mnist" "$scratch/bad/fashion-mnist"
echo "no digits" | gzip -n > "$scratch/bad/mnist/$first"

CREMA_DATA_DIR=$scratch/bad run_get refused
((status == 1)) || fail "a wrong checksum below CREMA_DATA_DIR gave exit code $status, not 1"
expect_text "$scratch/bad/mnist/$first: wrong checksum"
expect_text "expected f68b3c2dcbeaaa9fbdd348bbdeb94873"
[[ ! -e $scratch/refused/$first ]] || fail "a bad file was put in place"

CREMA_MNIST_MIRRORS="file://$scratch/absent file://$scratch/bad/mnist" run_get unreachable
((status == 1)) || fail "no working mirror gave exit code $status, not 1"
expect_text "file://$scratch/absent: download failed"
expect_text "file://$scratch/bad/mnist: wrong checksum"
expect_text "CREMA_DATA_DIR=DIR"
[[ ! -e $scratch/unreachable/$first ]] || fail "a bad file was put in place"

status=0
"$get" --no-such-option > "$scratch/output" 2>&1 || status=$?
((status == 1)) || fail "an unknown option gave exit code $status, not 1"
expect_text "unknown option --no-such-option"

if [[ ! -f $official/$first ]]; then
  echo "SKIP the rest: $official/$first is absent; set CREMA_SHARED_DIR"
  exit 77
fi

CREMA_DATA_DIR=${official%/mnist} run_get copied
expect_good copied

CREMA_MNIST_MIRRORS="file://$scratch/bad/mnist file://$official" run_get fallback
expect_good fallback

# An interrupted download continues; one that cannot be continued starts anew.
mkdir "$scratch/resumed"
head -c 1000000 "$official/$first" > "$scratch/resumed/$first.part"
head -c 2000000 /dev/zero > "$scratch/resumed/t10k-images-idx3-ubyte.gz.part"
CREMA_MNIST_MIRRORS="file://$official" run_get resumed
expect_good resumed

# A damaged file is replaced, a good one left alone.
echo damaged > "$scratch/resumed/$first"
CREMA_MNIST_MIRRORS="file://$official" run_get resumed
expect_good resumed
expect_text "$scratch/resumed/t10k-labels-idx1-ubyte.gz: already there"

echo "PASS"
