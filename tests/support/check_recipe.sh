#!/usr/bin/env bash
# The first iterations of models/NAME/recipe.sh, in a copy of the files that it needs, lower the loss.
#   check_recipe.sh SOURCE_DIR SHARED_DIR NAME   (CREMA_BUILD_DIR names the build)
# Skips when a data set can neither be copied from SHARED_DIR/data nor be fetched.
set -euo pipefail
source_dir=$1
shared_dir=$2
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

export CREMA=$CREMA_BUILD_DIR/bin/crema
[[ ! -d $shared_dir/data ]] || export CREMA_DATA_DIR=$shared_dir/data
for get in $(grep -oE '^data/[a-z0-9_-]+/get\.sh' "models/$name/recipe.sh"); do
  if ! timeout 60 "$get" >get.log 2>&1; then
    cat get.log
    echo "skipped: needs a data set; set CREMA_SHARED_DIR to a folder with data/, or run with a network"
    exit 77
  fi
done
scripts/reproduce "$name" --check --threads 2
