#!/usr/bin/env bash
# Gets the full MNIST set, 60,000 training and 10,000 test digits, as four IDX .gz files (11 MB).
#
#   data/mnist/get.sh [DIR]        DIR: where to put the files; default data/mnist/full
#
# CREMA_DATA_DIR       when set, $CREMA_DATA_DIR/mnist is used before any download
# CREMA_MNIST_MIRRORS  base URLs, separated by blanks, in place of the built-in mirrors
#
# Every file is verified; an interrupted download continues on the next run.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../fetch.sh"

FETCH_MD5_OF="file"
FETCH_MIRRORS=(
  https://ossci-datasets.s3.amazonaws.com/mnist
  https://storage.googleapis.com/cvdf-datasets/mnist
)
fetch_begin mnist CREMA_MNIST_MIRRORS "$@"

fetch_file train-images-idx3-ubyte.gz f68b3c2dcbeaaa9fbdd348bbdeb94873
fetch_file train-labels-idx1-ubyte.gz d53e105ee54ea40749a09fcbcd1e9432
fetch_file t10k-images-idx3-ubyte.gz 9fb629c4189551a2d022fa330f9573f3
fetch_file t10k-labels-idx1-ubyte.gz ec29112dd5afa0611ce80d1b7f02629c
