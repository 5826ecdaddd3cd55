#!/usr/bin/env bash
# Tests data/cifar10/get.sh without a network. Run by ctest: get_cifar10_test.sh SOURCE_DIR SHARED_DIR.
# CREMA_SHARED_DIR overrides the folder whose data/cifar10 holds the official files, needed by the last
# cases.
set -euo pipefail

readonly get="$1/data/cifar10/get.sh"
readonly shared=${CREMA_SHARED_DIR:-$2}/data
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
unset CREMA_DATA_DIR
export CREMA_CIFAR10_MIRRORS="file://$scratch/mirror"
mkdir "$scratch/mirror"

fail() { echo "FAIL: $*"; echo "--- output:"; cat "$scratch/output"; exit 1; }
run_get() { status=0; "$get" "$scratch/$1" > "$scratch/output" 2>&1 || status=$?; }
expect_text() { grep -qF -- "$1" "$scratch/output" || fail "no '$1' in the output"; }

run_get nothing
((status != 0)) || fail "no error without a file"
expect_text "could not get cifar-10-binary.tar.gz"

echo "no images" > "$scratch/other"
tar -C "$scratch" -czf "$scratch/mirror/cifar-10-binary.tar.gz" other
run_get wrong
((status != 0)) || fail "another archive was taken"
expect_text "wrong checksum"
[[ -z $(ls "$scratch/wrong") ]] || fail "something stayed behind"

mkdir -p "$scratch/local/cifar10"
echo "no image" | gzip > "$scratch/local/cifar10/data_batch_1.bin.gz"
CREMA_DATA_DIR=$scratch/local run_get local
((status != 0)) || fail "a wrong local file was taken"
expect_text "replace that file"

if [[ ! -f $shared/cifar10/data_batch_1.bin.gz ]]; then
  echo "SKIP: needs $shared/cifar10"
  exit 77
fi
CREMA_DATA_DIR=$shared run_get good
((status == 0)) || fail "exit code $status"
for name in data_batch_{1..5} test_batch; do
  cmp -s "$scratch/good/$name.bin.gz" "$shared/cifar10/$name.bin.gz" || fail "$name.bin.gz differs"
done
gunzip "$scratch"/good/*.gz
run_get good
((status == 0)) || fail "exit code $status"
expect_text "already there"
