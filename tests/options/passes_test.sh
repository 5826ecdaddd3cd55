#!/usr/bin/env bash
# In a build with CUDA, nvcc compiled all passes (scripts/check_passes says what that is). Looks at the
# objects of the library.
set -euo pipefail
source_dir=$1

if ! grep -q '^#define CREMA_BUILD_HAS_CUDA 1' "$CREMA_BUILD_DIR/generated/crema/cuda_build.hpp"; then
  echo 'skipped: needs CUDA: configure with CREMA_CUDA=ON'
  exit 77
fi
"$source_dir/scripts/check_passes" "@$CREMA_BUILD_DIR/crema_objects.txt"
