#!/usr/bin/env bash
# scripts/from_torchvision.py: a state_dict becomes weights with which crema gives PyTorch's scores, and files that are none are
# errors. A stub stands for torchvision; its net is the counterpart of models/squeezenet_v1.1 in scripts/torch_nets.py.
#   from_torchvision_test.sh SOURCE_DIR SHARED_DIR
set -euo pipefail
source_dir=$1
python=${PYTHON:-python3}
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }
said=$(python3 -S "$source_dir/scripts/from_torchvision.py" --help)
[[ $said == usage* ]] || { echo "no help without PyTorch"; exit 1; }
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: needs a Python with PyTorch; PYTHON names it"; exit 77; }
grep -q '^CREMA_OPENCV:BOOL=ON' "$CREMA_BUILD_DIR/CMakeCache.txt" || { echo "skipped: needs CREMA_OPENCV"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/stub/torchvision"
cat >"$work/stub/torchvision/__init__.py" <<PYTHON
import sys
import types
import urllib.error

sys.path.insert(0, "$source_dir/scripts")
import torch_nets

__version__ = "stub"


def squeezenet1_1(weights=None):
    if weights:
        raise urllib.error.URLError("no network")
    return torch_nets.NETS["squeezenet_v1.1"][0]()


def normalize(images, mean, deviation):
    import torch
    return (images - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(deviation).view(1, 3, 1, 1)


models = types.SimpleNamespace(
    squeezenet1_1=squeezenet1_1, get_model=lambda name, weights=None: globals()[name](weights),
    get_model_weights=lambda name: {"IMAGENET1K_V1": types.SimpleNamespace(url=f"https://there/{name}.pth")},
    resnet=types.SimpleNamespace(Bottleneck=type(None)))
transforms = types.SimpleNamespace(functional=types.SimpleNamespace(normalize=normalize))
PYTHON
export PYTHONPATH=$work/stub CREMA=$CREMA_BUILD_DIR/bin/crema PYTHONDONTWRITEBYTECODE=1
script=$source_dir/scripts/from_torchvision.py
cd "$work"

fail() {
  echo "$*"
  exit 1
}
OMP_NUM_THREADS=1 "$python" "$source_dir/tests/golden/compare_torchvision.py" squeezenet_v1.1 --threads=1 || fail "other scores"

"$python" - <<'PYTHON'
import torch
import torchvision

state = torchvision.models.squeezenet1_1().state_dict()
first = next(iter(state))
torch.save(state, "good.pth")
torch.save({"epoch": 3, "state_dict": {f"module.{key}": value for key, value in state.items()}}, "checkpoint.pth")
torch.save(state[first], "tensor.pth")
torch.save({3: state[first]}, "numbers.pth")
torch.save(state | {first: "text"}, "text.pth")
torch.save(state | {first: state[first][:1]}, "shape.pth")
torch.save(state | {first: state[first] * float("nan")}, "nan.pth")
torch.save(state | {"more": state[first]}, "more.pth")
torch.save({key: value for key, value in state.items() if key != first}, "less.pth")
PYTHON
echo nothing >no.pth

"$python" "$script" squeezenet_v1.1 good.caffemodel --weights good.pth >said || fail "refuses a state_dict"
grep -q -- '--mean 103.53,116.28,123.675 .*227x227 (normalization: imagenet)' said || fail "$(<said)"
"$python" "$script" squeezenet_v1.1 checkpoint.caffemodel --weights checkpoint.pth >said || fail "refuses a checkpoint"
cmp good.caffemodel checkpoint.caffemodel || fail "a checkpoint gives other weights"
"$python" "$script" squeezenet_v1.1 halves.caffemodel --weights good.pth --normalization halves >said
grep -q -- '--mean 127.5,127.5,127.5 .*(normalization: halves)' said || fail "$(<said)"
! cmp -s good.caffemodel halves.caffemodel || fail "the normalization has no effect"

# refused TEXT ARGUMENTS...: an error of one line with the text, and no file.
refused() {
  local text=$1
  shift
  ! "$python" "$script" "$@" bad.caffemodel >said 2>&1 || fail "takes $*"
  grep -q -- "$text" said || fail "$* does not say '$text': $(<said)"
  ! grep -q Traceback said || fail "$*: $(<said)"
  [[ ! -e bad.caffemodel ]] || fail "$* leaves a file"
}
refused 'no network.*get https://there/squeezenet1_1.pth .*--weights' squeezenet_v1.1
refused 'no.pth is no state_dict' squeezenet_v1.1 --weights no.pth
refused 'absent.pth' squeezenet_v1.1 --weights absent.pth
refused 'tensor.pth is no state_dict, but Tensor' squeezenet_v1.1 --weights tensor.pth
refused 'numbers.pth is no state_dict' squeezenet_v1.1 --weights numbers.pth
refused 'is no tensor, but str' squeezenet_v1.1 --weights text.pth
refused 'not (64, 3, 3, 3)' squeezenet_v1.1 --weights shape.pth
refused 'not finite' squeezenet_v1.1 --weights nan.pth
refused 'there is no more' squeezenet_v1.1 --weights more.pth
refused 'it has no ' squeezenet_v1.1 --weights less.pth
refused 'stride of version 1' resnet50
refused 'is for --weights' squeezenet_v1.1 --normalization halves
refused 'invalid choice' squeezenet --weights good.pth
