#!/usr/bin/env bash
# An installed copy of Crema is found by find_package and by pkg-config, and a program built against it
# either way classifies digits: models/lenet/classify, with weights trained here on the digits that ship.
#   embedding_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
build_program lenet/classify

# The original pkg-config, unlike pkgconf, refuses a field that comes twice.
pc=$(find "$work/installed" -name crema.pc)
twice=$(sed -n 's/^\([A-Z][A-Za-z.]*\):.*/\1/p' "$pc" | sort | uniq -d)
[[ -z $twice ]] || fail "$pc has '$twice' twice"
flags=$(PKG_CONFIG_PATH=${pc%/*} pkg-config --cflags --libs crema)
# shellcheck disable=SC2086  # words are meant
"${CXX:-c++}" -std=c++20 "$source_dir/models/lenet/classify/classify.cpp" -o "$work/by_pkg_config" $flags

train_lenet
count=50
write_digits $count
"$work/classify/classify" "$deploy" "$lenet" "$work"/pgm/*.pgm >"$work/answers"
"$work/by_pkg_config" "$deploy" "$lenet" "$work"/pgm/*.pgm >"$work/others"
same_answers "$work/answers" "$work/others" || fail "the two programs disagree"
right=$(paste <(echo "$labels") <(sed 's/.*: \([0-9]\) .*/\1/' "$work/answers") | awk '$1 == $2' | wc -l)
echo "$right of $count digits right"
((right >= count * 8 / 10))

refused "$work/classify/classify" "$deploy" -- "usage: classify deploy.prototxt"
refused "$work/classify/classify" "$deploy" /nowhere.caffemodel "$work/pgm/000.pgm" -- "/nowhere.caffemodel"
refused "$work/classify/classify" "$deploy" "$lenet" /nowhere.pgm -- "cannot open '/nowhere.pgm'"
refused "$work/classify/classify" "$deploy" "$lenet" "$deploy" -- "is no binary PGM image of 28x28"
