#!/usr/bin/env bash
# scripts/bench on the CPU without its peers: programs that stand for crema and Python say what theirs would.
#   bench_test.sh SOURCE_DIR SHARED_DIR
set -euo pipefail
source_dir=$1
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*"
  exit 1
}
says() { grep -qF -- "$1" "$work/short" || { cat "$work/said"; fail "does not say: $1"; }; }
silent_of() { ! grep -qF -- "$1" "$work/short" || { cat "$work/said"; fail "says: $1"; }; }

cat >"$work/crema" <<CREMA
#!/usr/bin/env bash
printf '%s\n' "\$*" >>$work/calls
case "\$1 \$2" in
  'time --peak') echo 'fma peak: 100.0 GFLOP/s' ;;
  time*)
    echo 'a table'
    echo '{"forward_ms": 10.0, "backward_ms": 20.0, "total_ms": 30.0, "gflop_forward": 1.0, "gflop_total": 3.0}' ;;
  export-onnx*)
    while [[ \$1 != -o ]]; do shift; done
    echo model >"\$2" ;;
esac
CREMA
cat >"$work/python" <<PYTHON
#!/usr/bin/env bash
printf '%s\n' "\$*" >>$work/calls
if [[ \$1 == -c ]]; then
  module=\${2#import }
  [[ ! -e $work/no_\$module ]] || { echo "ModuleNotFoundError: No module named '\$module'" >&2; exit 1; }
  exit
fi
case "\$*" in
  *--engine\ onnxruntime*) echo '{"forward_ms": 8.0}' ;;
  *--engine\ openvino*) [[ ! -e $work/broken ]] || { echo 'RuntimeError: no such operator' >&2; exit 1; }; echo '{"forward_ms": 5.0}' ;;
  *--compile*) echo '{"forward_ms": 16.0, "backward_ms": 24.0, "total_ms": 40.0, "gflop_forward": 1.0, "gflop_total": 3.0}' ;;
  *bench_torch.py*) echo '{"forward_ms": 20.0, "backward_ms": 30.0, "total_ms": 50.0, "gflop_forward": 1.0, "gflop_total": 3.0}' ;;
esac
PYTHON
chmod +x "$work"/{crema,python}
bench() {
  : >"$work/calls"
  local status=0
  "$source_dir/scripts/bench" --binary "$work/crema" --python "$work/python" --rounds 2 "$@" >"$work/said" 2>&1 || status=$?
  tr -s ' ' <"$work/said" >"$work/short"
  return $status
}

# Training: eager and compiled, and the ratio in Crema's line is to the better one.
bench --nets resnet50 || { cat "$work/said"; fail "exit status $?"; }
says "resnet50 crema 10.00 20.00 30.00 30.0 to 30.0 100.0 1.00"
says "0.75"
says "resnet50 torch channels_last 20.00 30.00 50.00"
grep -q 'resnet50 torch.compile 16.00 24.00 40.00 .* 0.75 \*$' "$work/short" || { cat "$work/said"; fail "no line of torch.compile"; }
grep -q 'resnet50 crema .* 0.75$' "$work/short" || fail "the ratio is not to the better peer"
silent_of openvino
grep -q -- '--compile --memory-format channels_last' "$work/calls" || fail "$(<"$work/calls")"

# Inference: the models of ONNX are written once for both, and have the work that Crema counts.
bench --inference --nets mobilenet_v2,lstm --json "$work/result.json" || { cat "$work/said"; fail "exit status $?"; }
[[ $(grep -c '^export-onnx' "$work/calls") == 2 ]] || fail "$(<"$work/calls")"
grep -q 'mobilenet_v2 openvino 5.00 0.00 5.00 5.0 to 5.0 200.0 0.50 .* 2.00 \*$' "$work/short" || { cat "$work/said"; fail "no line of OpenVINO"; }
grep -q 'mobilenet_v2 onnxruntime 8.00 .* 1.25$' "$work/short" || { cat "$work/said"; fail "no line of onnxruntime"; }
grep -q 'mobilenet_v2 crema 10.00 .* 2.00$' "$work/short" || fail "the ratio is not to the best peer"
silent_of "lstm torch channels_last"
python3 -c 'import json, sys; net = json.load(open(sys.argv[1]))["nets"][0]; assert net["best_peer"] == "openvino" and net["engines"]["crema"]["ratio"] == 2, net' \
  "$work/result.json"

# A peer that is not there, and one that fails, have lines that say so.
touch "$work/no_openvino"
bench --inference --nets mobilenet_v2 || { cat "$work/said"; fail "a peer that is not there is an error"; }
says "mobilenet_v2 openvino not there: ModuleNotFoundError: No module named 'openvino'"
grep -q 'mobilenet_v2 crema .* 1.25$' "$work/short" || fail "the ratio is not to the best of those that are there"
rm "$work/no_openvino"
touch "$work/broken"
! bench --inference --nets mobilenet_v2 || fail "a peer that fails, and exit status 0"
says "mobilenet_v2 openvino failed: see above"
says "RuntimeError: no such operator"
[[ $(grep -c -- '--engine openvino' "$work/calls") == 1 ]] || fail "runs what has failed again"

# Which peers: chosen, left out, and words that are none.
bench --inference --nets mobilenet_v2 --peers onnxruntime || fail "--peers"
silent_of torch
says "mobilenet_v2 onnxruntime 8.00"
bench --nets mobilenet_v2 --skip torch || fail "--skip torch"
silent_of torch
bench --inference --nets mobilenet_v2 --onnxruntime || fail "--onnxruntime"
silent_of openvino
for words in "--peers tensorflow" "--peers openvino" "--inference --onnxruntime --peers torch" "--gpu --peers torch"; do
  # shellcheck disable=SC2086  # words are meant
  ! bench $words || fail "takes $words"
done
