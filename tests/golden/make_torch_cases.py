#!/usr/bin/env python3
"""Writes the solver cases torch_*: update rules, policies and clipping that Caffe 1.0 does not have,
computed in f64 by PyTorch.

    tests/golden/make_torch_cases.py

Net, first parameters and inputs are those of the case adam. Needs PyTorch and protoc.
"""

import pathlib
import re
import subprocess

import torch
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/golden/solvers"
ITERATIONS = 16


def protoc(mode, data):
    command = ["protoc", f"--{mode}=crema.NetParameter", "proto/net.proto"]
    return subprocess.run(command, cwd=ROOT, input=data, capture_output=True, check=True).stdout


def entries(kind):
    """{layer name: [tensor of each blob]} of the entries of that type in adam.golden."""
    text = protoc("decode", (FOLDER / "adam.golden").read_bytes()).decode()
    result = {}
    for layer in re.findall(r"^layer \{\n(.*?)^\}", text, re.M | re.S):
        if re.search(r'^  type: "(.*)"', layer, re.M)[1] != kind:
            continue
        blobs = re.findall(r"^  blobs \{\n(.*?)^  \}", layer, re.M | re.S)
        name = re.search(r'^  name: "(.*)"', layer, re.M)[1]
        result[name] = [
            torch.tensor([float(x) for x in re.findall(r"^    data: (.*)", blob, re.M)],
                         dtype=torch.float64).reshape(
                             [int(x) for x in re.findall(r"dim: (\d+)", blob)])
            for blob in blobs]
    return result


def layer_text(kind, name, tensors):
    blobs = ""
    for tensor in tensors:
        dims = " ".join(f"dim: {d}" for d in tensor.shape)
        data = " ".join(f"data: {x:.9g}" for x in tensor.flatten().tolist())
        blobs += f" blobs {{ shape {{ {dims} }} {data} }}"
    return f'layer {{ name: "{name}" type: "{kind}"{blobs} }}\n'


def write(name, settings, make, rate_of=lambda i: None, clip=None):
    """`make` gives the optimizer of parameter groups; rate_of(i) its learning rate and beta 1."""
    start, inputs = entries("Param"), entries("InputData")
    params = {layer: [t.clone().requires_grad_() for t in tensors]
              for layer, tensors in start.items()}
    conv, ip = params["conv"], params["ip"]
    multiplied = [conv[1]]  # lr_mult 2, decay_mult 0
    optimizer = make([{"params": [conv[0], *ip], "mult": 1},
                      {"params": multiplied, "mult": 2, "weight_decay": 0}])
    data, label = inputs["data"][0], inputs["label"][0].long()
    losses, half = [], None
    for i in range(ITERATIONS):
        if i == ITERATIONS // 2:
            half = {k: [t.detach().clone() for t in v] for k, v in params.items()}
        given = rate_of(i)
        for group in optimizer.param_groups:
            rate, beta = given or (optimizer.defaults["lr"], optimizer.defaults["betas"][0])
            group["lr"] = rate * group["mult"]
            group["betas"] = (beta, group["betas"][1])
        optimizer.zero_grad()
        hidden = functional.relu(functional.conv2d(data, conv[0], conv[1])).flatten(1)
        loss = functional.cross_entropy(functional.linear(hidden, ip[0], ip[1]), label)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_value_([p for v in params.values() for p in v], clip)
        optimizer.step()
        losses.append(loss.item())
    text = "".join(layer_text("InputData", k, v) for k, v in inputs.items())
    text += "".join(layer_text("Param", k, v) for k, v in start.items())
    text += layer_text("LossPerIter", "loss", [torch.tensor(losses)])
    text += "".join(layer_text("ParamHalf", k, v) for k, v in half.items())
    text += "".join(layer_text("ParamAfter", k, v) for k, v in params.items())
    (FOLDER / f"{name}.golden").write_bytes(protoc("encode", text.encode()))
    net = (FOLDER / "adam.prototxt").read_text().split("\n", 1)[1]
    (FOLDER / f"{name}.prototxt").write_text(
        f"{settings} max_iter: {ITERATIONS} snapshot_after_train: false\n{net}")


def schedule(make):
    """[(learning rate, beta 1) of each iteration] of a scheduler of PyTorch."""
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=0.02)
    scheduler = make(optimizer)
    given = []
    for i in range(ITERATIONS):
        given.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"][0]))
        optimizer.step()
        if i + 1 < ITERATIONS:
            scheduler.step()
    return given.__getitem__


def adamw(groups):
    return torch.optim.AdamW(groups, lr=0.02, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)


def main():
    base = 'type: "AdamW" base_lr: 0.02 momentum: 0.9 weight_decay: 0.1'
    write("torch_adamw", f'{base} lr_policy: "fixed"', adamw)
    cosine = schedule(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(
        o, T_max=ITERATIONS, eta_min=0.001))
    write("torch_adamw_cosine", f'{base} lr_policy: "cosine" min_lr: 0.001', adamw, cosine)
    cycle = schedule(lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, max_lr=0.02, total_steps=ITERATIONS, base_momentum=0.85, max_momentum=0.95))
    write("torch_adamw_onecycle",
          'type: "AdamW" base_lr: 0.02 momentum: 0.85 weight_decay: 0.1 lr_policy: "onecycle" '
          'momentum_policy: "onecycle" max_momentum: 0.95', adamw, cycle)
    restarts = schedule(lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        o, T_0=3, T_mult=2, eta_min=0.001))
    write("torch_adamw_cosine_restarts",
          f'{base} lr_policy: "cosine_restarts" restart_iter: 3 restart_mult: 2 min_lr: 0.001',
          adamw, restarts)
    for name, settings, arguments in (
            ("three_phase", "onecycle_three_phase: true", {"three_phase": True}),
            ("linear", "onecycle_anneal: LINEAR", {"anneal_strategy": "linear"}),
            ("three_phase_linear", "onecycle_three_phase: true onecycle_anneal: LINEAR",
             {"three_phase": True, "anneal_strategy": "linear"})):
        cycle = schedule(lambda o: torch.optim.lr_scheduler.OneCycleLR(
            o, max_lr=0.02, total_steps=ITERATIONS, base_momentum=0.85, max_momentum=0.95,
            **arguments))
        write(f"torch_adamw_onecycle_{name}",
              'type: "AdamW" base_lr: 0.02 momentum: 0.85 weight_decay: 0.1 lr_policy: "onecycle" '
              f'momentum_policy: "onecycle" max_momentum: 0.95 {settings}', adamw, cycle)
    # Means of squares that fall again soon.
    for kind, of in (("Adam", torch.optim.Adam), ("AdamW", torch.optim.AdamW)):
        write(f"torch_{kind.lower()}_amsgrad",
              f'type: "{kind}" base_lr: 0.02 momentum: 0.9 momentum2: 0.5 weight_decay: 0.1 '
              'lr_policy: "fixed" amsgrad: true',
              lambda groups: of(groups, lr=0.02, betas=(0.9, 0.5), eps=1e-8, weight_decay=0.1,
                                amsgrad=True))
    write("torch_adamw_clip_value", f'{base} lr_policy: "fixed" clip_gradient_value: 0.01', adamw,
          clip=0.01)


if __name__ == "__main__":
    main()
