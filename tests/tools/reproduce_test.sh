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
export CREMA=$work/program

# Logs its arguments and the length of a training, whose loss falls, or rises where the solver has base_lr: 9, or stays where
# it has base_lr: 0. Where the file
# stop is, a training ends early, as crema does when it is interrupted.
cat >program <<'PROGRAM'
#!/usr/bin/env bash
echo "$*" >>calls
[[ $1 != inspect ]] || echo "seed: 1"
[[ $1 == train ]] || exit 0
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
touch "$(sed -n 's/^snapshot_prefix: "\(.*\)"/\1/p' "$3")_iter_$iterations.solverstate"
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
recipe 'folder=models/toy' 'nets_with s/1000/500/' 'train "$folder/solver1.prototxt"' \
  'grep -q "max_iter: 500" "$out/net/solver1.prototxt" && grep -q "$out/net/net.prototxt" "$out/net/solver1.prototxt"' \
  'result crema test --model models/toy/net.prototxt --weights "$out/toy_iter_500.caffemodel"'
works
# A recipe that trains in its own way.
recipe true
works

# Without --check, the recipe runs as it is.
printf '%s\n' "${right[@]}" >models/toy/recipe.sh
: >calls
scripts/reproduce toy --seed 3 --threads 2 >out 2>&1 || fail "a training fails"
weights="--weights models/other/other.caffemodel"
diff - <(grep -v iterations calls) <<CALLS || fail "other calls"
train --solver models/toy/solver1.prototxt --seed 3 --threads 2
train --solver models/toy/solver2.prototxt --seed 3 --threads 2 --snapshot models/toy/toy_iter_1000.solverstate $weights
extract-features models/toy/toy_iter_2000.caffemodel models/toy/net.prototxt data --threads 2
test --model models/toy/net.prototxt --weights models/toy/toy_iter_2000.caffemodel --threads 2
CALLS

# --resume goes on from a snapshot; a stage that is done is left out.
rm models/toy/toy_iter_*
: >calls
scripts/reproduce models/toy/ --resume >out 2>&1 || fail "a training fails"
[[ $(grep '^train' calls) == *"solver1.prototxt --seed 1"*"solver2.prototxt --threads 0 --resume" ]] || fail "other trainings"
rm models/toy/toy_iter_2000.solverstate
touch models/toy/toy_iter_500.solverstate
: >calls
scripts/reproduce toy --resume --threads=2 --seed 1 >out 2>&1 || fail "a training fails"
[[ $(grep '^train' calls) == "train --solver models/toy/solver2.prototxt --threads 2 --resume" ]] || fail "does not resume the second stage"
status=0
scripts/reproduce toy --resume --seed=2 >out 2>&1 || status=$?
finds 'toy_iter_2000.solverstate is of a training with the seed 1, not 2'
rm models/toy/toy_iter_*
status=0
scripts/reproduce toy --resume --check >out 2>&1 || status=$?
finds 'leave --resume out'

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
