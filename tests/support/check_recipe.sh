#!/usr/bin/env bash
# The first iterations of models/NAME/recipe.sh, in a copy of the files that it needs, lower the loss.
#   check_recipe.sh SOURCE_DIR SHARED_DIR NAME   (CREMA_BUILD_DIR names the build)
# Skips when a data set is not in SHARED_DIR/data and cannot be made without a download.
set -euo pipefail
source_dir=$1
shared_dir=${CREMA_SHARED_DIR:-$2}
name=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/models"
cp -r "$source_dir/scripts" "$work"
cp -r "$source_dir/models/$name" "$work/models"
# The data that ship and the scripts, not the sets and databases that were made there.
(cd "$source_dir" && find data \( -name full -o -name '*_lmdb' \) -prune -o -type f -print0) |
  tar -C "$source_dir" -c --null -T - | tar -C "$work" -x
cd "$work"

export CREMA=$CREMA_BUILD_DIR/bin/crema CREMA_OFFLINE=1
# Times that are measured beside other tests are no use to the user's trainings.
export XDG_CACHE_HOME=$work/cache
[[ ! -d $shared_dir/data ]] || export CREMA_DATA_DIR=$shared_dir/data
for set in $(sed -nE 's#^ *data/([a-z0-9_-]+)/get\.sh.*#\1#p' "models/$name/recipe.sh"); do
  if ! "data/$set/get.sh" >get.log 2>&1; then
    cat get.log
    [[ ! -d $shared_dir/data/$set ]] || exit 1
    echo "skipped: needs the data set $set; set CREMA_SHARED_DIR to a folder that has it as data/$set"
    exit 77
  fi
done
scripts/reproduce "$name" --check --threads 2
