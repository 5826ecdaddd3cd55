#!/usr/bin/env bash
# A CUDA that cannot compile Crema is left out where it was not asked for, and named where it was.
#   cuda_detection_test.sh SOURCE_DIR SHARED_DIR
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CUDACXX CUDA_PATH

# An nvcc that says it is of this release, and refuses every host compiler.
nvcc() {
  mkdir -p "$work/$1/bin"
  cat >"$work/$1/bin/nvcc" <<NVCC
#!/bin/sh
if [ "\$1" = --version ]; then echo "Cuda compilation tools, release $2, V$2.1"; exit 0; fi
echo "unsupported GNU version" >&2
exit 1
NVCC
  chmod +x "$work/$1/bin/nvcc"
}
nvcc old 11.8
nvcc refusing 12.4

# configure CUDA_HOME CREMA_CUDA: its exit status; $work/log holds what it said, in one line.
configure() {
  local status=0
  CUDA_HOME=$work/$1 cmake -G Ninja -S "$source_dir" -B "$work/build-$1-$2" -DCREMA_TESTS=OFF \
    -DCREMA_CUDA="$2" >"$work/lines" 2>&1 || status=$?
  tr -s ' \n' ' ' <"$work/lines" >"$work/log"
  return "$status"
}
says() {
  grep -qF -- "$1" "$work/log" || { cat "$work/lines"; echo "does not say: $1"; exit 1; }
}

configure old AUTO || { cat "$work/lines"; exit 1; }
says "CUDA is off: $work/old/bin/nvcc is of CUDA 11.8; 12.0 or later is needed"
configure refusing AUTO || { cat "$work/lines"; exit 1; }
says "CUDA is off: $work/refusing/bin/nvcc does not compile here"
if configure old ON; then
  echo "a CUDA that is too old was taken"
  exit 1
fi
says "CREMA_CUDA=ON, but"
says "12.0 or later is needed"
