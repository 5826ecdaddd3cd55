#!/usr/bin/env bash
# models/lenet/features writes the values that `crema extract-features` writes for the same digits.
#   embedding_features_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
build_program lenet/features
features=$work/features/features
train_lenet
cd "$work"  # the program keeps its file of times in the current folder
count=150  # two batches of 64, and one of 22
write_digits $count
echo "no image" >"$work/pgm/notes.txt"

# The values of an .npy file, one a line.
values() {
  local header
  header=$(od -An -tu2 -j8 -N2 "$1" | tr -d ' ')
  od -An -v -tf4 -w4 -j$((10 + header)) "$1"
}

"$crema" extract-features --format=npy "$lenet" "$work/train_val.prototxt" ip1,ip2 \
  "$work/of_ip1.npy,$work/of_ip2.npy" 2 2>"$work/extract.log" || { cat "$work/extract.log"; exit 1; }
for blob in ip1:500 ip2:10; do
  size=${blob#*:} blob=${blob%:*}
  out=$work/$blob
  line=$("$features" "$deploy" "$lenet" "$blob" "$work/pgm" "$out")
  [[ $line == "$count rows in $out.npy, their names in $out.txt" ]] || fail "it says '$line'"
  head -c 128 "$out.npy" | grep -aq "'<f4', 'fortran_order': False, 'shape': ($count, $size), }" ||
    fail "another header: $(head -c 128 "$out.npy")"
  diff <(seq -f %03g.pgm 0 $((count - 1))) "$out.txt" || fail "other names, or another order"
  values "$out.npy" >"$work/here"
  values "$work/of_$blob.npy" >"$work/all"
  head -n $((count * size)) "$work/all" >"$work/there"
  (($(wc -l <"$work/here") == count * size)) || fail "$(wc -l <"$work/here") values of $blob"
  paste "$work/here" "$work/there" | awk -v blob="$blob" '
    { difference = $1 > $2 ? $1 - $2 : $2 - $1; sum += $1 * $1; if (difference > most) most = difference }
    END { printf "%s: at most %g apart, mean square %g\n", blob, most, sum / NR; exit !(most < 1e-4 && sum > NR / 10) }' ||
    fail "$blob is not as extract-features has it"
  "$features" "$deploy" "$lenet" "$blob" "$work/pgm" "$work/again" >"$work/again.log"
  cmp "$out.npy" "$work/again.npy" || fail "a second run gave other bytes"
done

# The file of weights may have more layers than the net, but not fewer.
sed '/relu1/q' "$deploy" >"$work/short.prototxt"
"$features" "$work/short.prototxt" "$lenet" ip1 "$work/pgm" "$work/short" >"$work/short.log" || fail "unused weights are refused"
sed 's/name: "ip2"/name: "ip2_fashion"/' "$deploy" >"$work/other.prototxt"
refused "$features" "$work/other.prototxt" "$lenet" ip1 "$work/pgm" "$work/bad" -- \
  "lenet_iter_300.caffemodel' has no weights for ip2_fashion of '$work/other.prototxt'"
refused "$features" "$work/train_val.prototxt" "$lenet" ip1 "$work/pgm" "$work/bad" -- \
  "'$work/train_val.prototxt' has no input; give a deploy.prototxt"
net "1 3 28 28" "Softmax prob"
refused "$features" "$work/net.prototxt" "$lenet" prob "$work/pgm" "$work/bad" -- \
  "input 'data' of '$work/net.prototxt' is 1x3x28x28; grey images are N x 1 x H x W"
refused to_full_disk "$features" "$deploy" "$lenet" ip1 "$work/pgm" "$work/full" -- "cannot write to standard output"

usage="usage: features deploy.prototxt weights.caffemodel blob folder output"
refused "$features" -- "$usage"
refused "$features" "$deploy" "$lenet" ip1 "$work/pgm" -- "$usage"
refused "$features" "$deploy" /nowhere.caffemodel ip1 "$work/pgm" "$work/bad" -- /nowhere.caffemodel
refused "$features" "$deploy" "$lenet" ip9 "$work/pgm" "$work/bad" -- "no blob 'ip9'"
refused "$features" "$deploy" "$lenet" ip1 /nowhere "$work/bad" -- "'/nowhere' is no folder"
refused "$features" "$deploy" "$lenet" ip1 "$work/digits" "$work/bad" -- "has no file *.pgm"
refused "$features" "$deploy" "$lenet" ip1 "$work/pgm" /nowhere/bad -- "cannot write '/nowhere/bad.npy.part'"
head -c 700 "$work/pgm/070.pgm" >"$work/pgm/100.pgm"
refused "$features" "$deploy" "$lenet" ip1 "$work/pgm" "$work/bad" -- "100.pgm' is cut off"
left=$(find "$work" -name 'bad*')
[[ -z $left ]] || fail "a failed run left $left"
