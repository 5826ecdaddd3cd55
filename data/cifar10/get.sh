#!/usr/bin/env bash
# Gets CIFAR-10, 50,000 training and 10,000 test images, as its six binary files, *.bin or *.bin.gz (a download of 162 MB).
#
#   data/cifar10/get.sh [DIR]      DIR: where to put the files; default data/cifar10/full
#
# CREMA_DATA_DIR         when set, the files *.bin.gz in $CREMA_DATA_DIR/cifar10, or the archive there, are
#                        used before any download
# CREMA_CIFAR10_MIRRORS  base URLs, separated by blanks, in place of the built-in one
#
# Every file is verified; an interrupted download continues on the next run.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../fetch.sh"

FETCH_MIRRORS=(https://www.cs.toronto.edu/~kriz)
fetch_begin cifar10 CREMA_CIFAR10_MIRRORS "$@"

readonly archive=cifar-10-binary.tar.gz
readonly archive_md5=c32a1d4ab5d03f1284b67883e8d87530
# Of the uncompressed files.
declare -rA md5_of=(
  [data_batch_1]=5dd7e06a14cb22eb9f671a540d1b7c25
  [data_batch_2]=5ea93a67294ea407fff1d09f752e9692
  [data_batch_3]=942cd6a4bcdd0dd3c604fbe906cb4421
  [data_batch_4]=ae636b3ba5c66a11e91e8cb52e771fcb
  [data_batch_5]=53f37980c15c3d472c316c40844f3f0d
  [test_batch]=803d5f7f4d78ea53de84dbe85f74fb6d
)

# Whether all files are in $FETCH_DIR and correct, each as it is or packed; crema convert-cifar reads both.
have_files() {
  local name file FETCH_MD5_OF
  for name in "${!md5_of[@]}"; do
    file=$FETCH_DIR/$name.bin
    FETCH_MD5_OF="file"
    [[ ! -f $file || $(fetch_md5 "$file") != "${md5_of[$name]}" ]] || continue
    FETCH_MD5_OF=content
    [[ -f $file.gz && $(fetch_md5 "$file.gz") == "${md5_of[$name]}" ]] || return 1
  done
}

if have_files; then
  fetch_say "$FETCH_DIR: already there"
  exit
fi
if [[ -n $FETCH_LOCAL && -f $FETCH_LOCAL/data_batch_1.bin.gz ]]; then
  FETCH_MD5_OF=content
  for name in data_batch_{1..5} test_batch; do
    fetch_file "$name.bin.gz" "${md5_of[$name]}"
  done
  exit
fi
FETCH_MD5_OF="file"
fetch_file "$archive" "$archive_md5"
# Unpacked beside, so that a file with its own name is whole.
unpacked=$(mktemp -d "$FETCH_DIR/unpack.XXXXXX")
trap 'rm -rf -- "$unpacked"' EXIT
tar -xzf "$FETCH_DIR/$archive" -C "$unpacked" --strip-components=1 ||
  fetch_die "$FETCH_DIR/$archive cannot be unpacked; is the disk full?"
mv -f -- "$unpacked"/*.bin "$FETCH_DIR"
have_files || fetch_die "$FETCH_DIR: the files of $archive are not the expected ones"
rm -f -- "$FETCH_DIR/$archive"
fetch_say "$FETCH_DIR: unpacked $archive"
