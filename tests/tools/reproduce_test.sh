#!/usr/bin/env bash
# scripts/reproduce runs a recipe. With --check, it runs it to its end on short trainings and finds what is wrong in it. The
# program is a script here that writes the log of a training.
#   reproduce_test.sh SOURCE_DIR SHARED_DIR
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/models/toy" "$work/models/other"
cp "$1/scripts/reproduce" "$work/scripts"
cd "$work"
printf '%s\n' '| `other` | x | 0% |' '| `toy` | x | 97% to 98% |' >models/README.md
export CREMA=$work/program

# Logs its arguments and the length of a training, whose loss falls, or rises where the solver has base_lr: 9, or stays where
# it has base_lr: 0. Where the file stop is, a training ends early, as crema does when it is interrupted; where the file wait
# is, it waits for that. A snapshot holds its seed; an empty one is of a program that writes none, as Caffe.
cat >program <<'PROGRAM'
#!/usr/bin/env bash
if [[ $1 == inspect ]]; then
  grep -q damaged "$2" && exit 1
  [[ ! -s $2 ]] || echo "seed: $(cat "$2")"
  exit 0
fi
arguments=$*
arguments=${arguments/ --overwrite/}  # all trainings have it
echo "${arguments/ --sighup_effect stop/}" >>calls
[[ $1 == train ]] || exit 0
if [[ -e wait ]]; then
  for signal in HUP INT TERM; do trap "echo got $signal >>calls; touch stop" $signal; done
  [[ $arguments != *"--sighup_effect stop"* ]] || echo "stops at HUP" >>calls
  echo waits >>calls
  until [[ -e stop ]]; do sleep 0.05; done
  sleep 0.3  # for a second signal
fi
iterations=$(sed -n 's/^max_iter: \([0-9]*\).*/\1/p' "$3")
echo "$iterations iterations, warm-up $(sed -n 's/^warmup_iter: //p' "$3")" >>calls
step=-10
! grep -q 'base_lr: 9' "$3" || step=10
! grep -q 'base_lr: 0' "$3" || step=-1
for ((i = 0; i < iterations && i < 30; ++i)); do echo "Iteration $i, loss = $((1000 + step * i))"; done >&2
if [[ -e stop ]]; then
  echo "Optimization stopped early." >&2
  exit 0
fi
seed=''
while (($#)); do
  [[ $1 != --seed ]] || seed=$2
  [[ $1 != --snapshot || -n $seed ]] || seed=$(cat "$2" 2>/dev/null)
  [[ $1 != --solver ]] || prefix=$(sed -n 's/^snapshot_prefix: "\(.*\)"/\1/p' "$2")
  shift
done
echo $seed >"${prefix}_iter_$iterations.solverstate"
touch "${prefix}_iter_$iterations.caffemodel"
PROGRAM
chmod +x program
for stage in 1 2; do
  cat >models/toy/solver$stage.prototxt <<SOLVER
net: "models/toy/net.prototxt"
max_iter: ${stage}000  # passes
warmup_iter: 20
snapshot_prefix: "models/toy/toy"
SOLVER
done
touch models/toy/net.prototxt

fail() {
  echo "$*"
  cat out calls 2>/dev/null || true
  exit 1
}
# recipe LINE...: reproduce --check with these lines for a recipe; sets status and writes to the file out.
recipe() {
  printf '%s\n' "check_iterations=20" "$@" >models/toy/recipe.sh
  rm -f calls
  touch calls
  status=0
  scripts/reproduce toy --check >out 2>&1 || status=$?
}
works() { ((status == 0)) || fail "status $status"; }
finds() {
  ((status == 1)) || fail "status $status instead of 1"
  grep -qF -- "$1" out || fail "no '$1' in the output"
}

# All lines of a recipe that is right: two stages, a fine-tuning from weights that are not there.
# shellcheck disable=SC2016  # the recipe expands them
right=(
  'needs_model other models/other/other.caffemodel'
  'train models/toy/solver1.prototxt'
  'train models/toy/solver2.prototxt --snapshot "$out/toy_iter_1000.solverstate" --weights models/other/other.caffemodel'
  'crema extract-features "$out/toy_iter_2000.caffemodel" models/toy/net.prototxt data'
  'result crema test --model models/toy/net.prototxt --weights "$out/toy_iter_2000.caffemodel"')
recipe "${right[@]}"
works
grep -q 'toy: the recipe runs to its end' out || fail "gives no verdict"
[[ -z $(compgen -G 'models/toy/*.solverstate') ]] || fail "keeps a snapshot"
grep -q 'from random weights: models/other/other.caffemodel' out || fail "says nothing of the weights"
[[ $(grep -c '^train' calls) == 2 ]] || fail "not two trainings"
[[ $(grep 'iterations' calls) == $'20 iterations, warm-up 6\n2 iterations, warm-up 0' ]] || fail "other iterations"
! grep -qE 'test|extract|--snapshot|--weights' calls || fail "runs what needs weights"

# Weights that are there are used.
touch models/other/other.caffemodel
recipe "${right[@]}"
works
grep -q -- '--weights models/other/other.caffemodel' calls || fail "does not load the weights"
# A net in another place.
# shellcheck disable=SC2016
recipe 'folder=models/toy' 'nets_with there/data here/data s/1000/500/' 'train "$folder/solver1.prototxt"' \
  'grep -q "max_iter: 500" "$out/net/solver1.prototxt" && grep -q "$out/net/net.prototxt" "$out/net/solver1.prototxt"' \
  'result crema test --model models/toy/net.prototxt --weights "$out/toy_iter_500.caffemodel"'
works
# Names with a meaning in patterns.
echo 'source: "there/data/db"  # "there.data/"' >>models/toy/net.prototxt
mkdir 't&m #1'
# shellcheck disable=SC2016
TMPDIR='t&m #1' recipe 'folder=models/toy' 'nets_with there/data "$out/d&t#a"' 'train "$folder/solver1.prototxt"' \
  'grep -qxF "source: \"$out/d&t#a/db\"  # \"there.data/\"" "$out/net/net.prototxt" || die no source' \
  'grep -qF "\"$out/net/net.prototxt\"" "$out/net/solver1.prototxt" || die no net' \
  'result crema test --model models/toy/net.prototxt --weights "$out/toy_iter_1000.caffemodel"'
works
mkdir 't"m'
TMPDIR='t"m' recipe true
finds 'name another folder in TMPDIR'
# A recipe that trains in its own way.
recipe true
works

needs_library="reproduce: error: models/toy is a C++ program, to build against Crema's library:"
recipe 'build models/toy'
finds "$needs_library $work/program is neither of a build folder nor of an installation. Name the program of one of these in CREMA"
mkdir -p tree/bin
cp program tree/bin
CREMA=$work/tree/bin/program recipe 'build models/toy'
finds "$needs_library $work/tree/bin/program is neither of a build folder nor of an installation (there is no CremaConfig.cmake \
below $work/tree/lib). Name the program of one of these in CREMA"

# Without --check, the recipe runs as it is.
printf '%s\n' "${right[@]}" >models/toy/recipe.sh
: >calls
scripts/reproduce toy --seed 3 --threads 2 >out 2>&1 || fail "a training fails"
[[ $(tail -n 1 out) == 'models/README.md has for toy: 97% to 98%' ]] || fail "the table's figure is not the last line"
weights="--weights models/other/other.caffemodel"
diff - <(grep -v iterations calls) <<CALLS || fail "other calls"
train --solver models/toy/solver1.prototxt --seed 3 --threads 2
train --solver models/toy/solver2.prototxt --seed 3 --threads 2 --snapshot models/toy/toy_iter_1000.solverstate $weights
extract-features models/toy/toy_iter_2000.caffemodel models/toy/net.prototxt data --threads 2
test --model models/toy/net.prototxt --weights models/toy/toy_iter_2000.caffemodel --threads 2
CALLS

# reproduces FLAG...: reproduce, without --check; sets status and writes to the file out.
reproduces() {
  : >calls
  status=0
  scripts/reproduce toy "$@" >out 2>&1 || status=$?
}
# trains LINE...: reproduce worked, and these are its trainings.
trains() {
  works
  [[ $(grep '^train' calls | cut -d' ' -f3-) == $(printf '%s\n' "$@") ]] || fail "other trainings"
}

# --resume goes on from a snapshot; a stage that is done is left out.
rm models/toy/toy_iter_*
reproduces --resume
trains "models/toy/solver1.prototxt --seed 1 --threads 0" \
  "models/toy/solver2.prototxt --threads 0 --snapshot models/toy/toy_iter_1000.solverstate"
rm models/toy/toy_iter_2000.solverstate
touch models/toy/toy_iter_500.{solverstate,caffemodel}
reproduces --resume --threads=2 --seed 1
trains "models/toy/solver2.prototxt --threads 2 --snapshot models/toy/toy_iter_1000.solverstate"
reproduces --resume
trains
reproduces --resume --seed 001
trains
reproduces --resume --seed=2
finds 'toy_iter_1000.solverstate is of a training with the seed 1, not 2'
# A damaged snapshot counts as none, and one of a later stage is none of an earlier one.
echo damaged >models/toy/toy_iter_1000.caffemodel
reproduces --resume
trains "models/toy/solver1.prototxt --threads 0 --snapshot models/toy/toy_iter_500.solverstate"
rm models/toy/toy_iter_*
scripts/reproduce toy --resume --check >out 2>&1 || status=$?
finds 'leave --resume out'

# Without --seed, all trainings take the seed of the snapshots that are there, whichever training they are of.
sed 's#toy/toy"#toy/b"#' models/toy/solver1.prototxt >models/toy/solver_b.prototxt
# shellcheck disable=SC2016
printf '%s\n' 'train models/toy/solver1.prototxt' 'train models/toy/solver_b.prototxt' 'is_trained models/toy/solver_b.prototxt' \
  >models/toy/recipe.sh
touch models/toy/{toy,b}_iter_{500,1000}.caffemodel
echo 3 >models/toy/toy_iter_500.solverstate
reproduces --resume
trains "models/toy/solver1.prototxt --threads 0 --snapshot models/toy/toy_iter_500.solverstate" \
  "models/toy/solver_b.prototxt --seed 3 --threads 0"
rm models/toy/toy_iter_*.solverstate
reproduces --resume --seed 03
trains "models/toy/solver1.prototxt --seed 3 --threads 0"
echo 4 >models/toy/toy_iter_500.solverstate
rm models/toy/toy_iter_1000.solverstate
reproduces --resume
finds 'b_iter_1000.solverstate is of a training with the seed 3, and models/toy/toy_iter_500.solverstate of one with the seed 4'
trained=$(cat calls)
[[ -z $trained ]] || fail "trains with another seed"
rm models/toy/{toy,b}_iter_* models/toy/solver_b.prototxt

# A data set is made unless the one that is asked for is there; databases of an earlier one are removed.
cat >make_set <<'MAKE'
#!/usr/bin/env bash
echo "makes $*" >>calls
mkdir -p set
echo "$1" >set/sha256
MAKE
chmod +x make_set
recipe 'made set aaa ./make_set aaa'
works
mkdir set/train_lmdb
recipe 'made set aaa ./make_set aaa'
works
[[ ! -s calls && -e set/train_lmdb ]] || fail "makes a set again"
recipe 'made set bbb ./make_set bbb'
works
[[ $(cat calls) == "makes bbb" && ! -e set/train_lmdb ]] || fail "keeps the database of another set"
recipe 'made set aaa ./make_set ccc' 'touch went_on'
finds 'set has a data set with the sha256 ccc, not aaa'
[[ ! -e went_on ]] || fail "goes on with another set"
recipe 'made set aaa rm set/sha256'
finds 'set has no data set'
printf '%s\n' "${right[@]}" >models/toy/recipe.sh

# A training that was interrupted ends the recipe, even where there is the last snapshot of an earlier one.
touch stop
touch -d '1 hour ago' models/toy/toy_iter_1000.solverstate
: >calls
status=0
scripts/reproduce toy >out 2>&1 || status=$?
((status == 130)) || fail "status $status instead of 130"
grep -q 'stopped; --resume goes on' out || fail "does not say that it stopped"
[[ $(grep -c '^train' calls) == 1 ]] || fail "goes on after an interruption"
status=0
scripts/reproduce toy --check >out 2>&1 || status=$?
((status == 130)) || fail "status $status instead of 130 with --check"
rm stop models/toy/toy_iter_*

# A signal to the script alone stops the training that runs, with a snapshot. It gets no second SIGINT or SIGTERM where it had
# one itself.
# signalled SIGNAL: the status of a training that gets the signal.
signalled() {
  rm -f stop
  : >calls
  (trap - INT && exec scripts/reproduce toy) >out 2>&1 &
  local script=$!
  for ((i = 0; i < 200; ++i)); do ! grep -q waits calls || break; sleep 0.05; done
  kill -s "$1" "$script"
  status=0
  wait "$script" || status=$?
  grep -q 'stopped; --resume goes on' out || fail "does not say that it stopped"
  [[ $(grep -c '^train' calls) == 1 ]] || fail "goes on after $1"
}
touch wait
if [[ $(trap : HUP; trap -p HUP) != *"''"* ]]; then  # this test does not run with nohup
  signalled TERM
  [[ $status == 143 && $(grep HUP calls) == $'stops at HUP\ngot HUP' ]] || fail "status $status after SIGTERM"
  signalled INT
  [[ $status == 130 && $(grep HUP calls) == $'stops at HUP\ngot HUP' ]] || fail "status $status after SIGINT"
fi
# With nohup, a hang-up stops nothing.
(trap '' HUP && signalled TERM && [[ $status == 143 && $(grep -E 'HUP|got' calls) == 'got TERM' ]]) || fail "other signals with nohup"
rm -f wait stop models/toy/toy_iter_*

# Another folder, whose name has a blank and letters with a meaning in patterns; the recipe of another model is run first.
rm models/other/other.caffemodel
cp models/toy/solver1.prototxt models/other/solver.prototxt
sed -i 's#models/toy/toy#models/other/other#' models/other/solver.prototxt
echo 'train models/other/solver.prototxt' >models/other/recipe.sh
: >calls
scripts/reproduce toy --output 'to [x]' --threads 1 >out 2>&1 || fail "a training fails"
[[ -e 'to [x]/toy_iter_2000.solverstate' && -e models/other/other_iter_1000.solverstate ]] || fail "no snapshots there"
[[ ! -e models/toy/toy_iter_2000.solverstate ]] || fail "a snapshot in the model's folder"
: >calls
scripts/reproduce toy --output 'to [x]' --resume >out 2>&1 || fail "does not resume"
! grep -q '^train' calls || fail "trains what was trained"
touch models/other/other.caffemodel
rm models/other/recipe.sh

# Wrong names.
status=0
scripts/reproduce tou >out 2>&1 || status=$?
finds "there is no model 'tou'; these were trained here: toy"
mkdir models/published
touch models/published/README.md
status=0
scripts/reproduce published >out 2>&1 || status=$?
finds 'published was not trained here: it has no recipe'

# What is wrong.
recipe 'train models/toy/solver1.prototxt'
finds 'does not use toy_iter_1000.caffemodel, which models/toy/solver1.prototxt writes'
recipe "${right[@]//toy_iter_2000/toy_iter_3000}"
finds 'reads toy_iter_3000.caffemodel, which no training before writes'
recipe "${right[@]//toy_iter_1000/toy_iter_1500}"
finds 'reads toy_iter_1500.solverstate'
recipe "${right[@]//toy\/net/toy\/nets}"
finds 'names models/toy/nets.prototxt, which is not there'
recipe 'train models/toy/solver1.prototxt' "${right[@]}"
finds 'trains toy_iter_1000.caffemodel twice, the second time with models/toy/solver1.prototxt'
recipe 'if false; then' "${right[@]}" 'fi'
finds "has lines 'train', but none has run"
echo 'base_lr: 0' >>models/toy/solver1.prototxt
recipe "${right[@]}"
finds 'the loss of models/toy/solver1.prototxt does not fall'
sed -i '/base_lr/d' models/toy/solver1.prototxt
echo 'base_lr: 9' >>models/toy/solver1.prototxt
recipe "${right[@]}"
finds 'the loss of models/toy/solver1.prototxt does not fall'

# The scripts that make data sets write the checksum of a whole set, and refuse what gives none.
if ! python3 -c 'import random; random.randbytes' 2>/dev/null; then
  echo "without the scripts that make data sets: they need python3 of version 3.9"
  exit 0
fi
# made_by SCRIPT ARGUMENT...: runs data/SCRIPT/make.py; sets status and writes to the file out.
made_by() {
  local script=$data/$1/make.py
  shift
  : >calls
  status=0
  timeout 60 python3 "$script" "$@" >out 2>&1 || status=$?
}
data=$1/data
for set in lines scenes; do
  made_by digit_$set $set --mnist "$data/mnist/mini" --train 3 --test 2
  works
  grep -q "sha256 $(cat $set/sha256)\$" out || fail "prints another checksum than it writes"
  cp $set/sha256 sum
  made_by digit_$set $set --mnist "$data/mnist/mini" --train 4 --test 2
  works
  ! cmp -s $set/sha256 sum || fail "the same checksum of another set"
  # What begins to write and fails leaves no checksum beside a part of a set.
  mkdir -p half
  cp "$data"/mnist/mini/train-* half
  made_by digit_$set $set --mnist half --train 3 --test 2
  finds 'half/t10k-images-idx3-ubyte.gz: No such file'
  [[ ! -e $set/sha256 ]] || fail "a checksum of half a set"
  made_by digit_$set $set --mnist "$data/mnist/mini" --train 0
  ((status == 2)) || fail "takes --train 0"
  grep -q "argument --train: '0' is no whole number above 0" out || fail "another error of --train 0"
  made_by digit_$set $set --mnist "$data/mnist/mini" --test -4
  ((status == 2)) || fail "takes --test -4"
  # Files of no digits would be drawn from forever.
  mkdir -p none
  for part in train t10k; do
    printf '\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c' | gzip >none/$part-images-idx3-ubyte.gz
    printf '\0\0\x08\x01\0\0\0\0' | gzip >none/$part-labels-idx1-ubyte.gz
  done
  made_by digit_$set $set --mnist none --train 3 --test 2
  finds 'none/train-labels-idx1-ubyte.gz holds no digits'
done
for ((i = 0; i < 100; ++i)); do echo "line $i of a text"; done >text
made_by text text of_text --streams 2 --length 8
works
grep -q "sha256 $(cat of_text/sha256)\$" out || fail "prints another checksum than it writes"
cp -r of_text before
for ((i = 0; i < 20; ++i)); do echo "xyz"; done >text
made_by text text of_text --streams 2 --length 8
finds 'test.tar would have 4 characters'
diff -r of_text before || fail "changes a set, though it cannot write another"
