#!/usr/bin/env bash
# scripts/cmake/compile_cached: an old precompiled header beside a changed header is not taken for the new one.
set -euo pipefail
source_dir=$1
command -v ccache >/dev/null || { echo 'skipped: needs ccache; on Debian and Ubuntu: apt install ccache'; exit 77; }
compiler=$(command -v "${CXX:-c++}")
"$compiler" --version | grep -q 'Free Software Foundation' || { echo 'skipped: needs GCC'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export CCACHE_DIR=$work/cache

compile() { "$source_dir/scripts/cmake/compile_cached" ccache "$compiler" "$@"; }
# value N: what a program says whose header says N, by a precompiled header.
value() {
  echo "constexpr int kValue = $1;" >header.hxx
  compile -x c++-header -include ./header.hxx -o header.hxx.gch -c header.cxx
  compile -include ./header.hxx -o main.o -c main.cpp
  "$compiler" main.o -o main
  ./main
}
: >header.cxx
echo 'int main() { return __builtin_printf("%d", kValue) != 1; }' >main.cpp
[[ $(value 1) == 1 ]]
cp header.hxx.gch first.gch
for next in 2 3; do
  # Folders that are copies of one another have the same precompiled header, whatever their cache knows.
  cp first.gch header.hxx.gch
  got=$(value "$next")
  [[ $got == "$next" ]] || { echo "the header says $next, the program $got"; exit 1; }
done
