#!/usr/bin/env bash
# scripts/bench --gpu without a GPU: programs that stand for crema and Python say what a machine with one would. The nets that
# it writes are those of models/ with another batch.
#   bench_gpu_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build)
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
says() { grep -qF -- "$1" "$work/said" || { cat "$work/said"; fail "does not say: $1"; }; }

# Times by the settings of the net; $work/no_math: a program without them.
cat >"$work/crema" <<CREMA
#!/usr/bin/env bash
case \$1 in
  help) [[ -e $work/no_math ]] || echo '  math                 TF32 | STRICT [TF32]' ;;
  device-query) [[ -e $work/no_device ]] && echo 'CUDA: no device: none is here' || echo 'CUDA 0: Test GPU, compute 9.0' ;;
  time)
    printf '%s\n' "\$*" >>$work/calls
    while [[ \$1 != --model ]]; do shift; done
    cp "\$2" "$work/nets/"
    ms=40.0
    grep -q '^math: STRICT' "\$2" && ms=200.0
    grep -q '^precision: BF16' "\$2" && ms=20.0
    echo 'a table'
    echo "{\"total_ms\": \$ms, \"planned_mb\": 800, \"taken_mb\": 900}" ;;
esac
CREMA
# A line for each column, one of which fails; with $work/hangs it does not end.
cat >"$work/python" <<PYTHON
#!/usr/bin/env bash
if [[ \$1 == -c ]]; then [[ ! -e $work/no_torch ]] || { echo "No module named 'torch'" >&2; exit 1; }; echo PyTorch 2.0; exit; fi
while [[ \$1 != --columns ]]; do shift; done
for column in \${2//,/ }; do
  case \$column in
    f32) ms=220 ;; tf32) ms=50 ;; bf16) ms=30 ;; *) ms=25 ;;
  esac
  if [[ \$column == graphs ]]; then
    echo '{"column": "graphs", "failed": "RuntimeError: no graphs here"}'
  else
    echo "{\"column\": \"\$column\", \"total_ms\": \$ms, \"memory_mb\": 1000, \"taken_mb\": 1100}"
  fi
  [[ ! -e $work/hangs ]] || sleep 60
done
PYTHON
chmod +x "$work"/{crema,python}
mkdir "$work/nets"
bench() { "$source_dir/scripts/bench" --gpu --binary "$work/crema" --python "$work/python" "$@" >"$work/said" 2>&1; }

bench --nets resnet50,vgg16 || { cat "$work/said"; fail "exit status $?"; }
says "Test GPU"
tr -s ' ' <"$work/said" >"$work/short" && mv "$work/short" "$work/said"
says "resnet50 b256 crema strict 200.000 1280 800 900 8.00 0.91 0.80"
says "resnet50 b256 crema tf32 40.000 6400 800 900 1.60 0.80 0.80"
says "resnet50 b256 crema bf16 20.000 12800 800 900 0.80 0.80"
says "resnet50 b256 torch compiled 25.000 10240 1000 1100 *"
says "vgg16 b128 torch f32 220.000"
grep -q -- '--gpu=0 .*--iterations=20' "$work/calls" || fail "$(<"$work/calls")"
grep -q 'dim: 256 dim: 3' "$work/nets/resnet50_bf16.prototxt" || fail "not the batch of the GPU"

# What fails and what has no time left is said, and the rest is there.
! bench --nets lenet --json "$work/result.json" || fail "a failed column, and exit status 0"
says "RuntimeError: no graphs here"
python3 -c 'import json, sys; row = json.load(open(sys.argv[1]))["nets"][0]; assert abs(row["samples"]["crema bf16"]["ratio"] - 20 / 30) < 1e-9, row' \
  "$work/result.json"
touch "$work/hangs"
! bench --nets resnet50 --columns tf32,bf16 --minutes 0.1 || fail "left something out, and exit status 0"
says "torch tf32"
says "took longer than"
rm "$work/hangs"
bench --quick --nets resnet50 || { cat "$work/said"; fail "--quick"; }
! grep -q 'strict' "$work/said" || fail "--quick measures f32"
touch "$work/no_math"
bench --nets resnet50 --columns f32,bf16 || { cat "$work/said"; fail "a program without math"; }
says "crema f32"
! grep -q '^math' "$work/nets/resnet50_f32.prototxt" || fail "a setting that the program does not know"
bench --inference --nets resnet50,ssd300_vgg --columns tf32,bf16,onnxruntime || { cat "$work/said"; fail "--inference"; }
says "onnxruntime"

# Machines that lack something, and words that are none.
touch "$work/no_device"
! bench --nets lenet || fail "without a device"
says "there is no GPU 0: none is here"
rm "$work/no_device"
touch "$work/no_torch"
! bench --nets lenet || fail "without PyTorch"
says "No module named 'torch'"
says "--skip leaves one out"
bench --nets vgg16 --skip torch --columns bf16 || { cat "$work/said"; fail "--skip torch"; }
for words in "--nets nosuch" "--columns f16x" "--simd avx2" "--minutes 0"; do
  # shellcheck disable=SC2086  # words are meant
  ! bench $words || fail "takes $words"
done
! "$source_dir/scripts/bench" --quick >"$work/said" 2>&1 || fail "--quick without --gpu"
says "are for --gpu"

# The nets: all are written, and the program reads them.
python3 - "$source_dir" "$work" <<'PYTHON'
import pathlib
import sys

sys.path.insert(0, sys.argv[1] + "/scripts")
import bench_gpu

for inference, nets in ((False, bench_gpu.TRAINING), (True, bench_gpu.INFERENCE)):
    for net in nets:
        text = (bench_gpu.ROOT / "models" / net / ("deploy.prototxt" if inference else "train_val.prototxt")).read_text()
        batch = 7 if inference else bench_gpu.TRAINING[net]
        new = bench_gpu.net_text(text, "" if inference else net, batch, ("precision: BF16",))
        assert new.startswith("precision: BF16\n") and '"Data"' not in new, net
        if batch:
            assert f"dim: {batch} " in new, (net, new[:500])
        pathlib.Path(sys.argv[2], f"{net}{'_deploy' if inference else ''}.prototxt").write_text(new)
PYTHON
for net in lenet lstm alexnet_deploy; do
  phase=TRAIN
  [[ $net != *_deploy ]] || phase=TEST
  "$CREMA_BUILD_DIR/bin/crema" summary --tune=false --tuning_file= --phase $phase --model "$work/$net.prototxt" >"$work/said" 2>&1 ||
    { cat "$work/said"; fail "$net is not read"; }
done
says "7x"

# The script for PyTorch, on the CPU.
if python3 -c 'import torch' 2>/dev/null; then
  python3 "$source_dir/scripts/bench_torch_gpu.py" --device cpu --net lenet --batch 2 --columns f32,bf16 --iterations 1 >"$work/said"
  [[ $(grep -c '"total_ms"' "$work/said") == 2 ]] || fail "$(<"$work/said")"
else
  echo "PyTorch is not installed: its script is not run"
fi
