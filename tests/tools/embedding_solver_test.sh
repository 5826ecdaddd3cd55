#!/usr/bin/env bash
# models/cartpole_dqn steps a solver in a loop of its own: a seed gives the same weights again, and the cart-pole falls when
# it should. CTest recipe.cartpole_dqn shows that it learns.
#   embedding_solver_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
build_program cartpole_dqn
program=$work/cartpole_dqn/cartpole_dqn
model=$source_dir/models/cartpole_dqn
deploy=$model/deploy.prototxt

# solver NAME NET SETTINGS: a solver whose snapshots are $work/NAME_iter_N.
solver() {
  printf 'net: "%s"\ntype: "Adam" momentum: 0.9 lr_policy: "fixed" snapshot_prefix: "%s"\n%s\n' "$2" "$work/$1" "$3" \
    >"$work/$1.prototxt"
}
for run in first again other; do
  solver $run "$model/train_val.prototxt" "base_lr: 0.001 max_iter: 1000"
  seed=7
  [[ $run != other ]] || seed=8
  lines=$("$program" train "$work/$run.prototxt" "$deploy" $seed)
  grep -qE '^1000 updates, [0-9]+ episodes; 10 without random actions: mean return [0-9.]+$' <<<"$lines" || fail "it says $lines"
  grep -qxF "$work/${run}_iter_1000.solverstate" <<<"$lines" || fail "it says $lines"
done
"$crema" diff --tolerance=0 "$work/first_iter_1000.caffemodel" "$work/again_iter_1000.caffemodel" >"$work/diff" ||
  { cat "$work/diff"; fail "the same seed gave other weights"; }
status=0
"$crema" diff --tolerance=0.001 "$work/first_iter_1000.caffemodel" "$work/other_iter_1000.caffemodel" >"$work/diff" || status=$?
((status == 1)) || fail "another seed gave the same weights"

# Weights of 0 push to the left until the pole falls. The same again, written here in awk.
sed -E 's/  weight_filler \{[^}]*\}//' "$model/train_val.prototxt" >"$work/zero_train_val.prototxt"
solver zero "$work/zero_train_val.prototxt" "base_lr: 0 max_iter: 1"
"$program" train "$work/zero.prototxt" "$deploy" >"$work/zero.log"
played=$("$program" play "$deploy" "$work/zero_iter_1.caffemodel")
awk -v played="${played##* }" '
  function start() { return 0.1 * rand() - 0.05 }
  BEGIN {
    episodes = 4000
    for (i = 0; i < episodes; ++i) {
      x = start(); v = start(); a = start(); w = start()
      for (steps = 1; ; ++steps) {
        f = (-10 + 0.05 * w * w * sin(a)) / 1.1
        dw = (9.8 * sin(a) - cos(a) * f) / (0.5 * (4 / 3 - 0.1 * cos(a) ^ 2 / 1.1))
        dv = f - 0.05 * dw * cos(a) / 1.1
        x += 0.02 * v; v += 0.02 * dv; a += 0.02 * w; w += 0.02 * dw
        if (x < -2.4 || x > 2.4 || a < -0.20943951 || a > 0.20943951) break
      }
      sum += steps
    }
    printf "pushed to the left, the pole stands for %.2f steps; the program says %.1f\n", sum / episodes, played
    exit !(played - sum / episodes < 0.35 && sum / episodes - played < 0.35)
  }' || fail "the cart-pole moves in another way"

# edited FROM TO: $work/edited.prototxt, a solver of a net in which FROM is TO.
edited() {
  sed "s/$1/$2/" "$model/train_val.prototxt" >"$work/edited_train_val.prototxt"
  solver edited "$work/edited_train_val.prototxt" "base_lr: 0.001 max_iter: 1000"
}
# The batch is that of the solver's net. That of the other one does not count.
sed 's/dim: 1 /dim: 5 /' "$deploy" >"$work/five.prototxt"
for batch in 32 64 96; do
  edited "dim: 64  dim" "dim: $batch  dim"
  lines=$("$program" train "$work/edited.prototxt" "$work/five.prototxt" 7) || fail "batch $batch: it says $lines"
  mv "$work/edited_iter_1000.caffemodel" "$work/batch_$batch.caffemodel"
done
# They name different solvers.
"$crema" diff --tolerance=0 "$work/batch_64.caffemodel" "$work/first_iter_1000.caffemodel" >"$work/diff" ||
  { cat "$work/diff"; fail "a batch of 64 is another one"; }
# Columns are the program's.
edited "dim: 4 " "dim: 3 "
refused "$program" train "$work/edited.prototxt" "$deploy" -- "input 'state' is 64x3; make it 64x4"
[[ $played == "$("$program" play "$work/five.prototxt" "$work/zero_iter_1.caffemodel")" ]] || fail "five states are played"
refused to_full_disk "$program" play "$deploy" "$work/zero_iter_1.caffemodel" -- "cannot write to standard output"

usage="usage: cartpole_dqn train solver.prototxt deploy.prototxt [seed] | play deploy.prototxt weights.caffemodel"
refused "$program" -- "$usage"
refused "$program" learn "$work/first.prototxt" "$deploy" -- "$usage"
refused "$program" play "$deploy" -- "$usage"
refused "$program" train "$work/first.prototxt" "$deploy" -1 -- "seed '-1' is no whole number"
refused "$program" train /nowhere.prototxt "$deploy" -- /nowhere.prototxt
refused "$program" train "$work/first.prototxt" /nowhere.prototxt -- /nowhere.prototxt
refused "$program" play "$deploy" /nowhere.caffemodel -- /nowhere.caffemodel
