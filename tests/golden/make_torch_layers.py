#!/usr/bin/env python3
"""Writes the cases of tests/golden/torch: layers that Caffe 1.0 does not have, computed in f64 by
PyTorch, in the format of the other golden cases (tests/golden/README.md).

    tests/golden/make_torch_layers.py            all groups
    tests/golden/make_torch_layers.py resample   those of torch_layers/resample.py

Each file in torch_layers/ has a function cases(write), which calls write() once a case. Needs
PyTorch, torchvision and protoc.
"""

import importlib.util
import pathlib
import subprocess
import sys
import zlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/golden/torch"
GROUPS = ROOT / "tests/golden/torch_layers"


def encode(text):
    command = ["protoc", "--encode=crema.NetParameter", "proto/net.proto"]
    return subprocess.run(command, cwd=ROOT, input=text.encode(), capture_output=True,
                          check=True).stdout


def numbers(field, tensor):
    return " ".join(f"{field}: {x:.9g}" for x in tensor.detach().flatten().tolist())


def entry(kind, name, blobs, loss_weight=None):
    """`blobs`: pairs of data and diff, the second of which may be None."""
    text = f'layer {{ name: "{name}" type: "{kind}"'
    if loss_weight is not None:
        text += f" loss_weight: {loss_weight}"
    for data, diff in blobs:
        dims = " ".join(f"dim: {d}" for d in data.shape)
        text += f" blobs {{ shape {{ {dims} }} {numbers('data', data)}"
        if diff is not None:
            text += f" {numbers('diff', diff)}"
        text += " }"
    return text + " }\n"


def write(name, layer, inputs, function, params=(), fixed=(), losses=None, phase=None):
    """One case.

    layer     `type: "..." ...` of the layer "op", its bottoms are the inputs in order, unless the
              text names bottoms itself; tops are the names that `function` gives
    inputs    {name: tensor}
    function  (inputs, params) -> {top: tensor}, in the order of the tops
    params    values of the layer's parameters
    fixed     names of inputs without a gradient, such as labels
    losses    {top: loss weight}
    phase     "TEST" for a case without backward
    """
    losses = losses or {}
    backward = phase != "TEST"
    inputs = {k: v.to(torch.float32).to(torch.float64).requires_grad_(k not in fixed)
              for k, v in inputs.items()}
    params = [p.to(torch.float32).to(torch.float64).requires_grad_() for p in params]
    tops = function(inputs, params)
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    seeds = {k: torch.full_like(v, losses[k]) if k in losses else
             torch.rand(v.shape, generator=generator, dtype=torch.float32).double() * 2 - 1
             for k, v in tops.items()}
    if backward:
        objective = sum((v * seeds[k]).sum() for k, v in tops.items() if v.requires_grad)
        objective.backward()

    values = "".join(entry("InputData", k, [(v, None)]) for k, v in inputs.items())
    if params:
        values += entry("Param", "op", [(p, None) for p in params])
    for k, v in inputs.items():
        values += entry("Blob", k, [(v, v.grad if backward else None)], 0)
    for k, v in tops.items():
        values += entry("Blob", k, [(v, seeds[k] if backward else None)], losses.get(k, 0))
    if params:
        values += entry("ParamAfter", "op", [(p, p.grad if backward else None) for p in params])
    loss = sum((v * losses[k]).sum() for k, v in tops.items() if k in losses)
    values += entry("Loss", "loss", [(torch.as_tensor(loss).reshape(1), None)])

    text = "".join([f"# phase {phase}\n# nobackward\n" if phase else "", f'name: "{name}"\n'])
    for k, v in inputs.items():
        dims = " ".join(f"dim: {d}" for d in v.shape)
        text += (f'layer {{ name: "{k}" type: "Input" top: "{k}" '
                 f"input_param {{ shape {{ {dims} }} }} }}\n")
    bottoms = "" if "bottom:" in layer else "".join(f' bottom: "{k}"' for k in inputs)
    names = "".join(f' top: "{k}"' for k in tops)
    weights = "".join(f" loss_weight: {losses[k]:g}" for k in tops) if losses else ""
    text += f'layer {{ name: "op" {layer}{bottoms}{names}{weights} }}\n'
    (FOLDER / f"{name}.prototxt").write_text(text)
    (FOLDER / f"{name}.golden").write_bytes(encode(f'name: "{name}"\n' + values))


def main():
    FOLDER.mkdir(exist_ok=True)
    groups = sys.argv[1:] or sorted(path.stem for path in GROUPS.glob("*.py"))
    for group in groups:
        spec = importlib.util.spec_from_file_location(group, GROUPS / f"{group}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.manual_seed(zlib.crc32(group.encode()))
        module.cases(write)


if __name__ == "__main__":
    main()
