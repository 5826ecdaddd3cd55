#!/usr/bin/env bash
# The first iterations of each training of models/NAME/recipe.sh, in a copy of the files that it needs, lower the loss.
#   check_recipe.sh SOURCE_DIR SHARED_DIR NAME   (CREMA_BUILD_DIR names the build)
# Skips when something is missing: an option of the build or a program that the recipe names in a line "# Needs a build with
# CREMA_..." or "# Needs the program ...", a module of Python that its make.py imports, or a data set that --check needs (a
# line data/SET/get.sh without blanks before it), is not in SHARED_DIR/data and cannot be made without a download.
set -euo pipefail
source_dir=$1
shared_dir=${CREMA_SHARED_DIR:-$2}
name=$3
recipe=models/$name/recipe.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
  echo "skipped: $*"
  exit 77
}

cd "$source_dir"
for option in $(sed -n 's/^# Needs a build with //p' "$recipe" | grep -oE 'CREMA_[A-Z0-9]+'); do
  ! grep -q "^$option:BOOL=OFF" "$CREMA_BUILD_DIR/CMakeCache.txt" || skip "needs a build with $option"
done
for script in $(grep -oE 'data/[a-z0-9_-]+/make\.py' "$recipe" | sort -u); do
  ! grep -q randbytes "$script" || python3 -c 'import random; random.randbytes' 2>/dev/null ||
    skip "$script needs python3 of version 3.9"
  "$script" --help >/dev/null || skip "$script finds that a module of Python is missing: see above"
done
for program in $(sed -n 's/^# Needs the program \(.*\)\.$/\1/p' "$recipe"); do
  command -v "$program" >/dev/null || skip "needs the program $program"
done

# The data that ship and the scripts, not the sets and databases that were made there. Of models/, what the recipe names,
# without the weights that were trained there.
{
  find README.md models/README.md scripts -type f -print0
  find data \( -name full -o -name '*_lmdb' \) -prune -o -type f -print0
  for folder in $(grep -oE 'models/[A-Za-z0-9_.-]+' "$recipe" | sort -u) "models/$name"; do
    [[ ! -d $folder ]] || find "$folder" -type f ! -name '*.caffemodel' ! -name '*.solverstate' -print0
  done
} | sort -zu | tar -c --null -T - | tar -C "$work" -x
cd "$work"

export CREMA=$CREMA_BUILD_DIR/bin/crema CREMA_OFFLINE=1
# Times that are measured beside other tests are no use to the user's trainings.
export XDG_CACHE_HOME=$work/cache
[[ ! -d $shared_dir/data ]] || export CREMA_DATA_DIR=$shared_dir/data
for set in $(sed -nE 's#^data/([a-z0-9_-]+)/get\.sh.*#\1#p' "$recipe"); do
  if ! "data/$set/get.sh" >get.log 2>&1; then
    cat get.log
    [[ ! -d $shared_dir/data/$set ]] || exit 1
    skip "needs the data set $set; set CREMA_SHARED_DIR to a folder that has it as data/$set"
  fi
done
scripts/reproduce "$name" --check --threads 2
