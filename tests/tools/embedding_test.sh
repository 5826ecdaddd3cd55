#!/usr/bin/env bash
# An installed copy of Crema is found by find_package and by pkg-config, and a program built against it
# either way classifies digits: models/lenet/classify, with weights trained here on the digits that ship.
#   embedding_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
build_program lenet/classify

# The original pkg-config, unlike pkgconf, refuses a field that comes twice.
pc=$(find "$installed" -name crema.pc)
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

# Comments, as GIMP writes them, are no part of the image.
pgm=$work/pgm/000.pgm
{ printf 'P5\n# Created by GIMP\n#\n28 # wide\n 28\n# 8 bits\n255\n'; tail -c 784 "$pgm"; } >"$work/comments.pgm"
sed "1!d; s#.*/000.pgm#$work/comments.pgm#" "$work/answers" >"$work/expected"
"$work/classify/classify" "$deploy" "$lenet" "$work/comments.pgm" >"$work/answer"
same_answers "$work/expected" "$work/answer" || fail "comments change the answer"
sed '2,4s/^255$/255;/' "$pgm" >"$work/no_header.pgm"

# The file may have more layers than the net, but not fewer.
sed '/relu1/q' "$deploy" >"$work/short.prototxt"
"$work/classify/classify" "$work/short.prototxt" "$lenet" "$pgm" >"$work/answer" || fail "unused weights are refused"
sed 's/name: "ip2"/name: "ip2_fashion"/' "$deploy" >"$work/other.prototxt"
refused "$work/classify/classify" "$work/other.prototxt" "$lenet" "$pgm" -- \
  "lenet_iter_300.caffemodel' has no weights for ip2_fashion of '$work/other.prototxt'"
no_input="'$work/train_val.prototxt' has no input; give a deploy.prototxt"
refused "$work/classify/classify" "$work/train_val.prototxt" "$lenet" "$pgm" -- "$no_input"
net "1 3 28 28" "Softmax prob"
refused "$work/classify/classify" "$work/net.prototxt" "$lenet" "$pgm" -- \
  "input 'data' of '$work/net.prototxt' is 1x3x28x28; grey images are N x 1 x H x W"
net "1 784" "Softmax prob"
refused "$work/classify/classify" "$work/net.prototxt" "$lenet" "$pgm" -- "is 1x784; grey images"
net "1 1 28 28" Silence
refused "$work/classify/classify" "$work/net.prototxt" "$lenet" "$pgm" -- "net.prototxt' has no output; give a deploy.prototxt"
net "1 1 28 28" "Softmax one" "Softmax two"
refused "$work/classify/classify" "$work/net.prototxt" "$lenet" "$pgm" -- "has several outputs, one, two; give a net with one"
# The sides are those of the input.
net "1 1 14 56" "Flatten pixels"
{ printf 'P5\n56 14\n255\n'; head -c 783 /dev/zero; printf '\200'; } >"$work/wide.pgm"
line=$("$work/classify/classify" "$work/net.prototxt" "$lenet" "$work/wide.pgm")
[[ $line == "$work/wide.pgm: 783 (0.500)" ]] || fail "it says '$line' of another size"

refused to_full_disk "$work/classify/classify" "$deploy" "$lenet" "$pgm" -- "cannot write to standard output"
refused "$work/classify/classify" "$deploy" "$lenet" "$work/no_header.pgm" -- "is no binary PGM image of 28x28"
refused "$work/classify/classify" "$deploy" -- "usage: classify deploy.prototxt"
refused "$work/classify/classify" "$deploy" /nowhere.caffemodel "$work/pgm/000.pgm" -- "/nowhere.caffemodel"
refused "$work/classify/classify" "$deploy" "$lenet" /nowhere.pgm -- "cannot open '/nowhere.pgm'"
refused "$work/classify/classify" "$deploy" "$lenet" "$deploy" -- "is no binary PGM image of 28x28"

# The program of the front page, on digits without ink.
sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$source_dir/README.md" >"$work/front.cpp"
# shellcheck disable=SC2086  # words are meant
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror "$work/front.cpp" -o "$work/front" $flags
cp "$deploy" "$work/net.prototxt"
cp "$lenet" "$work/net.caffemodel"
scores=$(cd "$work" && awk 'BEGIN { while (n++ < 64 * 28 * 28) print 0 }' | ./front)
awk '{ sum += $1 } END { exit !(NR == 640 && sum > 63.9 && sum < 64.1) }' <<<"$scores" || fail "of 64 digits: $scores"
