"""Activations, Axpy, and losses that compare element by element."""

import torch
from torch.nn import functional


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    x = draw(2, 3, 5, 4) * 5
    for name, layer, function in (
            ("gelu", 'type: "GELU"', functional.gelu),
            ("gelu_tanh", 'type: "GELU" gelu_param { approximate: TANH }',
             lambda v: functional.gelu(v, approximate="tanh")),
            ("mish", 'type: "Mish"', functional.mish),
            ("hard_swish", 'type: "HardSwish"', functional.hardswish),
            ("hard_sigmoid", 'type: "HardSigmoid"', functional.hardsigmoid),
            ("relu6", 'type: "ReLU6"', lambda v: functional.relu6(v * 1.0))):
        write(name, layer, {"x": x}, lambda i, _, f=function: {"y": f(i["x"])})

    for name, scales in (("axpy", (2, 3)), ("axpy_4d", (2, 3, 1, 1))):
        write(name, 'type: "Axpy"',
              {"s": draw(*scales), "x": draw(2, 3, 4, 5), "z": draw(2, 3, 4, 5)},
              lambda i, _: {"y": i["s"].reshape(2, 3, 1, 1) * i["x"] + i["z"]})

    a, b = draw(4, 3, 2) * 2, draw(4, 3, 2) * 2
    write("l1_loss", 'type: "L1Loss"', {"a": a, "b": b},
          lambda i, _: {"y": functional.l1_loss(i["a"], i["b"], reduction="sum") / 4},
          losses={"y": 1})
    inside, outside = torch.rand(4, 3, 2) * 2, torch.rand(4, 3, 2)

    def smooth_l1(i, _):
        beta = 1 / 9  # 1 / sigma^2
        d = i["inside"] * (i["a"] - i["b"])
        each = functional.smooth_l1_loss(d, torch.zeros_like(d), beta=beta, reduction="none")
        return {"y": (i["outside"] * each).sum() / 4}

    write("smooth_l1_loss_weights", 'type: "SmoothL1Loss" smooth_l1_loss_param { sigma: 3 }',
          {"a": a, "b": b, "inside": inside, "outside": outside}, smooth_l1,
          fixed=("inside", "outside"), losses={"y": 0.5})
