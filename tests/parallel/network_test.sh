#!/usr/bin/env bash
# Two machines, as two network namespaces with a cable between them: sums over TCP, and a cable that is cut.
# Skipped without MPI, and where namespaces cannot be made (it takes root).
set -euo pipefail
runner=$CREMA_BUILD_DIR/tests/parallel_runner
scratch=$(mktemp -d)
first=crema-$$-a second=crema-$$-b
clean() {
  for name in "$first" "$second"; do
    ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
    ip netns del "$name" 2>/dev/null || true
  done
  rm -rf -- "$scratch"
}
trap clean EXIT
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
fail() { printf 'FAILED: %s\n' "$*"; cat "$scratch"/*.log; exit 1; }

command -v mpirun >/dev/null || skip "needs mpirun: apt install openmpi-bin"
grep -q '^CREMA_MPI:STRING=OFF' "$CREMA_BUILD_DIR/CMakeCache.txt" && skip "needs MPI: configure with CREMA_MPI=ON"
[[ -x $runner ]] || skip "needs $runner"
command -v ip >/dev/null || skip "needs ip: apt install iproute2"
ip netns add "$first" 2>/dev/null && ip netns add "$second" || skip "network namespaces cannot be made here"
ip -n "$first" link add cable type veth peer name cable netns "$second" 2>/dev/null || skip "no cable can be made here"
ip -n "$first" addr add 10.213.77.1/24 dev cable
ip -n "$second" addr add 10.213.77.2/24 dev cable
for name in "$first" "$second"; do
  ip -n "$name" link set cable up
  ip -n "$name" link set lo up
done

# What ssh does elsewhere.
cat >"$scratch/agent" <<EOF
#!/bin/bash
shift
exec ip netns exec $second bash -c "\$*"
EOF
chmod +x "$scratch/agent"
network=10.213.77.0/24
run=(ip netns exec "$first" env OMP_NUM_THREADS=1 mpirun --allow-run-as-root --bind-to none
  --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca btl_tcp_if_include "$network"
  --mca oob_tcp_if_include "$network" --host 10.213.77.1:1,10.213.77.2:1 -np 2 "$runner")

timeout 100 "${run[@]}" operations >"$scratch/operations.log" 2>&1 || fail "sums over TCP"
grep -q 'all done' "$scratch/operations.log" || fail "sums over TCP"

cat >"$scratch/solver.prototxt" <<EOF
net_param {
  name: 'cut'
  layer {
    name: 'data' type: 'DummyData' top: 'data' top: 'label'
    dummy_data_param { shape { dim: 8 dim: 20 } shape { dim: 8 } data_filler { type: 'gaussian' } data_filler { value: 1 } }
  }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 2000 weight_filler { type: 'xavier' } } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
}
base_lr: 0.01 lr_policy: 'fixed' max_iter: 100000000 solver_mode: CPU
snapshot: 20 snapshot_keep: 2 snapshot_prefix: '$scratch/cut'
EOF
"${run[@]}" train "$scratch/solver.prototxt" "$scratch/out" >"$scratch/cut.log" 2>&1 &
launcher=$!
for ((i = 0; i < 600; ++i)); do
  [[ $(grep -c '^loss' "$scratch/cut.log") -gt 100 ]] && break
  sleep 0.1
done
ip -n "$first" link set cable down
# mpirun itself may wait for the other machine; the processes do not.
for ((i = 0; i < 300; ++i)); do
  pgrep -f "^$runner train $scratch/solver.prototxt" >/dev/null || break
  sleep 0.1
done
((i < 300)) || fail "processes live 30 s behind the cut"
kill -KILL "$launcher" 2>/dev/null || true
wait "$launcher" 2>/dev/null || true
grep -Eq '^rank [01] \(host .*\): rank [01] \(host .*\) has not been heard from for 4 s' "$scratch/cut.log" ||
  fail "nobody names the process behind the cut cable"
state=$(ls -t "$scratch"/cut_iter_*.solverstate | head -1)
[[ -s ${state%.solverstate}.caffemodel ]] || fail "no whole snapshot"
echo "passed"
