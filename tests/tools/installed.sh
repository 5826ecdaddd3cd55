# shellcheck shell=bash disable=SC2034  # its variables are for the tests
# Sourced by tests SOURCE_DIR SHARED_DIR that build against an installed copy of Crema: $installed is that of the build that
# CREMA_BUILD_DIR names, $crema its program, and $work a folder for the test.
set -euo pipefail
source_dir=$1
build_dir=${CREMA_BUILD_DIR:?names the build folder to install}
if grep -q '^CREMA_SANITIZE:STRING=.' "$build_dir/CMakeCache.txt"; then
  echo "skipped: needs a build without sanitizers, which what is built here would have to share"
  exit 77
fi
installed=$build_dir/tests/installed
crema=$installed/bin/crema
[[ -x $crema ]] || { echo "$crema is not there; install it: ctest --test-dir $build_dir -R '^tools[.]install$'"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$*"
  exit 1
}

# shown_if_failed LOG COMMAND...: what the command says goes to the file $work/LOG, and is shown if it fails.
shown_if_failed() {
  local log=$work/$1
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; exit 1; }
}

# build_against FOLDER NAME OPTION...: builds a CMake project that finds the installed copy, in $work/NAME.
build_against() {
  local folder=$1 name=$2
  shift 2
  shown_if_failed "$name.configure.log" cmake -S "$folder" -B "$work/$name" -DCMAKE_PREFIX_PATH="$installed" "$@"
  shown_if_failed "$name.build.log" cmake --build "$work/$name" --parallel 2
}

# fails_with COMMAND... -- WORDS...: the command ends with status 1, and says all words. $output is what it said.
fails_with() {
  local command=() status=0
  while [[ $1 != -- ]]; do command+=("$1"); shift; done
  shift
  output=$("${command[@]}" 2>&1 </dev/null) || status=$?
  ((status == 1)) || fail "status $status instead of 1: ${command[*]}: $output"
  for words; do
    [[ $output == *"$words"* ]] || fail "no '$words' in: $output"
  done
}
