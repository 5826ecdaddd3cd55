#!/usr/bin/env bash
# Gets Fashion-MNIST, 60,000 training and 10,000 test images, as four IDX .gz files (31 MB).
#
#   data/fashion-mnist/get.sh [DIR]   DIR: where to put the files; default data/fashion-mnist/full
#
# CREMA_DATA_DIR         when set, $CREMA_DATA_DIR/fashion-mnist is used first
# CREMA_FASHION_MIRRORS  base URLs, separated by blanks, in place of the built-in mirrors
#
# Then, where it can: the files of the Debian package dataset-fashion-mnist, as installed or fetched
# with apt-get (nothing is installed); else the mirrors. Every file is verified.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../fetch.sh"

# Debian's files are compressed anew, so only the contents can be compared.
FETCH_MD5_OF=content
FETCH_MIRRORS=(
  http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
  https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion
)
fetch_begin fashion-mnist CREMA_FASHION_MIRRORS "$@"

readonly package=dataset-fashion-mnist
readonly installed=usr/share/datasets/fashion-mnist

readonly files=(
  train-images-idx3-ubyte.gz:f4a8712d7a061bf5bd6d2ca38dc4d50a
  train-labels-idx1-ubyte.gz:9018921c3c673c538a1fc5bad174d6f9
  t10k-images-idx3-ubyte.gz:8181f5470baa50b63fa0f6fddb340f0a
  t10k-labels-idx1-ubyte.gz:15d484375f8d13e6eb1aabb0c3f46965
)

have_all() {
  local file
  for file in "${files[@]}"; do [[ -f $1/${file%:*} ]] || return 1; done
}

if { [[ -z $FETCH_LOCAL ]] || ! have_all "$FETCH_LOCAL"; } && ! have_all "$FETCH_DIR"; then
  if have_all "/$installed"; then
    FETCH_LOCAL=/$installed
  else
    scratch=$(mktemp -d)
    trap 'rm -rf -- "$scratch"' EXIT
    if fetch_debian_package $package "$scratch"; then
      FETCH_LOCAL=$scratch/$installed
    else
      fetch_say "$FETCH_DIR: no such package here (apt-get update may help); trying the mirrors"
    fi
  fi
fi

for file in "${files[@]}"; do fetch_file "${file%:*}" "${file#*:}"; done
