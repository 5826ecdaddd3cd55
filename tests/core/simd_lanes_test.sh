#!/usr/bin/env bash
# No function compiled for AVX-512 gave up its lanes (scripts/check_simd says what that is). Looks at
# the library that the other tests run, so the compiler and its flags are those of this build.
set -euo pipefail
source_dir=$1

cache=$CREMA_BUILD_DIR/CMakeCache.txt
if ! grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Rel' "$cache"; then
  echo 'skipped: only optimised builds vectorize'
  exit 77
fi
if [[ $(uname -m) != x86_64 ]]; then
  echo 'skipped: AVX-512 is of x86-64'
  exit 77
fi
if grep -q '^#define CREMA_HAS_AVX512 0' "$CREMA_BUILD_DIR/generated/crema/vector_sets.hpp"; then
  echo 'skipped: CREMA_VECTOR_SETS leaves AVX-512 out'
  exit 77
fi
libraries=("$CREMA_BUILD_DIR"/libcrema.a)
[[ -f ${libraries[0]} ]] || libraries=("$CREMA_BUILD_DIR"/libcrema.so)
"$source_dir/scripts/check_simd" "${libraries[@]}"
