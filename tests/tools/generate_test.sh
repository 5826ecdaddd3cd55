#!/usr/bin/env bash
# models/char_lm/generate, built against an installed copy of Crema, writes text with an LSTM and with a net of
# attention that were trained here on a text of a small grammar.
#   generate_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
if ! command -v python3 >/dev/null; then
  echo "skipped: needs python3, for data/text/make.py"
  exit 77
fi
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
build_program char_lm/generate
generate=$work/generate/generate

awk 'BEGIN {
  split("cat dog bird fish", who); split("sees likes hears", does)
  for (i = 0; i < 4000; ++i) printf "the %s %s the %s.\n", who[i * 7 % 11 % 4 + 1], does[i * 5 % 13 % 3 + 1], who[i * 3 % 17 % 4 + 1]
}' >"$work/grammar.txt"
python3 "$source_dir/data/text/make.py" "$work/grammar.txt" "$work" --streams 8 >"$work/make.log"
characters=$work/characters.txt
count=$(wc -c <"$characters")

# The net $1 (a prefix of its files) for the characters of the grammar, trained for $2 iterations.
train() {
  local file
  for file in train_val deploy; do
    sed "s/\(input_dim\|num_output\): 63/\1: $count/; s#data/text/full/#$work/#; s/batch_size: [0-9]*/batch_size: 8/" \
      "$source_dir/models/char_lm/$1$file.prototxt" >"$work/$1$file.prototxt"
  done
  cat >"$work/$1solver.prototxt" <<SOLVER
net: "$work/$1train_val.prototxt"
type: "Adam" base_lr: 0.004 momentum: 0.9 lr_policy: "fixed" clip_gradients: 1
max_iter: $2 snapshot_prefix: "$work/$1net" random_seed: 1
SOLVER
  "$crema" train --threads=1 --solver "$work/$1solver.prototxt" 2>"$work/train.log" || { cat "$work/train.log"; exit 1; }
}
train "" 150
train attention_ 20

lstm=("$work/deploy.prototxt" "$work/net_iter_150.caffemodel" "$characters")
attention=("$work/attention_deploy.prototxt" "$work/attention_net_iter_20.caffemodel" "$characters")

"$generate" "${lstm[@]}" --length 700 >"$work/text"
[[ $(wc -c <"$work/text") == 700 ]] || fail "wrote $(wc -c <"$work/text") characters, not 700"
[[ -z $(tr -d "$(cat "$characters")\n" <"$work/text") ]] || fail "wrote characters that the text does not have"
"$generate" "${lstm[@]}" --length 700 --seed 1 | cmp - "$work/text" || fail "the same seed gives another text"
"$generate" "${lstm[@]}" --length 100 | cmp - <(head -c 100 "$work/text") || fail "a shorter text begins otherwise"
! "$generate" "${lstm[@]}" --length 700 --seed 2 | cmp -s - "$work/text" || fail "another seed gives the same text"

# It has learned the grammar: nearly all lines are of it.
lines=$("$generate" "${lstm[@]}" --length 3000 --temperature 0.5 | sed '$d')
right=$(grep -cxE 'the (cat|dog|bird|fish) (sees|likes|hears) the (cat|dog|bird|fish)\.' <<<"$lines") || true
all=$(wc -l <<<"$lines")
echo "$right of $all lines are of the grammar"
((right * 10 >= all * 9 && all > 50)) || { echo "$lines"; exit 1; }
# What it reads in one pass and in steps gives the same states: the most probable text goes on as it did.
best=$("$generate" "${lstm[@]}" --start $'\nthe' --length 80 --temperature 0)
[[ $best == "$("$generate" "${lstm[@]}" --start $'\nthe' --length 80 --temperature 0 --seed 5)" ]] ||
  fail "the seed changes a text without chance"
[[ ${best:20} == "$("$generate" "${lstm[@]}" --start $'\nthe'"${best:0:20}" --length 60 --temperature 0)" ]] ||
  fail "a longer start goes on otherwise"

# More characters than the net of attention sees at once.
"$generate" "${attention[@]}" --length 300 >"$work/text"
[[ $(wc -c <"$work/text") == 300 ]] || fail "attention wrote $(wc -c <"$work/text") characters, not 300"
best=$("$generate" "${attention[@]}" --start $'\nthe' --length 40 --temperature 0)
[[ ${best:10} == "$("$generate" "${attention[@]}" --start $'\nthe'"${best:0:10}" --length 30 --temperature 0)" ]] ||
  fail "attention: a longer start goes on otherwise"

# Errors reach the user as one message.
refused "$generate" -- "usage: generate"
refused "$generate" "${lstm[@]}" --words 3 -- "no flag --words"
refused "$generate" "${lstm[@]}" --length many -- "length is 'many'"
refused "$generate" "${lstm[@]}" --length -1 -- "length is '-1'"
refused "$generate" "${lstm[@]}" --temperature nan -- "temperature is 'nan'"
refused "$generate" "${lstm[@]}" --seed -- "--seed needs a value"
refused "$generate" "${lstm[@]}" --start Quick -- "character 'Q', which is not in" characters.txt
refused "$generate" "${lstm[@]}" --start "" -- "one character at least"
refused "$generate" "$work/deploy.prototxt" /nowhere.caffemodel "$characters" -- /nowhere.caffemodel
refused "$generate" "$work/deploy.prototxt" "$work/net_iter_150.caffemodel" /nowhere.txt -- /nowhere.txt
refused "$generate" "$work/deploy.prototxt" "$work/attention_net_iter_20.caffemodel" "$characters" -- embedding
sed 's/"scores"/"other"/g' "$work/deploy.prototxt" >"$work/other.prototxt"
refused to_full_disk "$generate" "${lstm[@]}" --length 9000 -- "cannot write to standard output"
refused "$generate" "$work/other.prototxt" "${lstm[@]:1}" -- "no weights of the layer 'other'"
refused "$generate" "$work/train_val.prototxt" "${lstm[@]:1}" -- "'$work/train_val.prototxt' has no input; give a deploy.prototxt"
net 8 Silence
refused "$generate" "$work/net.prototxt" "${lstm[@]:1}" -- "input 'data' of '$work/net.prototxt' is 8; characters are 1 x N"
# A net that diverged, at a temperature of 0 too.
for value in nan inf -1 0; do
  net "1 8" Silence
  cat >>"$work/net.prototxt" <<NET
layer { name: "prob" type: "DummyData" top: "prob"
  dummy_data_param { shape { dim: 1 dim: 8 dim: $count } data_filler { type: "constant" value: $value } } }
NET
  words=("a probability of $value; was the training unstable?")
  [[ $value != 0 ]] || words=("no character a probability above 0")
  for temperature in 0 1; do
    refused "$generate" "$work/net.prototxt" "${lstm[@]:1}" --temperature $temperature -- "${words[@]}"
  done
done
printf ab >"$work/two.txt"
refused "$generate" "${lstm[@]:0:2}" "$work/two.txt" --start a -- "2 characters, but the net" "has $count outputs"
