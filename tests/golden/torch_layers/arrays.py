"""Rooms of arrays: Arithmetic, Where, Expand, Gather, Pad, StridedSlice, Reduce, TopK, CumSum,
RMSNorm and GridSample."""

import torch
from torch.nn import functional


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def broadcast(write):
    a = torch.rand(2, 3, 4, 5) + 0.5
    for name, function in (("ADD", torch.add), ("SUB", torch.sub), ("MUL", torch.mul),
                           ("DIV", torch.div), ("POW", torch.pow), ("MIN", torch.minimum),
                           ("MAX", torch.maximum)):
        for kind, shape in (("row", (5,)), ("channels", (3, 1, 1)), ("mixed", (2, 1, 4, 1))):
            write(f"arithmetic_{name.lower()}_{kind}",
                  f'type: "Arithmetic" arithmetic_param {{ operation: {name} }}',
                  {"a": a, "b": torch.rand(*shape) + 0.5},
                  lambda i, _, f=function: {"y": f(i["a"], i["b"])})
    equal = torch.tensor([1.0, 2, 3, 3])
    for name, function in (("MIN", torch.minimum), ("MAX", torch.maximum)):
        write(f"arithmetic_{name.lower()}_equal",
              f'type: "Arithmetic" arithmetic_param {{ operation: {name} }}',
              {"a": equal, "b": torch.tensor([1.0, 3, 2, 3])},
              lambda i, _, f=function: {"y": f(i["a"], i["b"])})
    write("where", 'type: "Where"',
          {"c": (torch.rand(3, 1, 5) > 0.5).float(), "x": draw(2, 3, 4, 5), "z": draw(4, 1)},
          lambda i, _: {"y": torch.where(i["c"] != 0, i["x"], i["z"])}, fixed=("c",))
    write("expand", 'type: "Expand" expand_param { dim: 4 dim: -1 dim: 5 dim: -1 }',
          {"x": draw(2, 1, 3)}, lambda i, _: {"y": i["x"].expand(4, -1, 5, -1)})


def moved(write):
    indices = torch.tensor([[2.0, 0, -1], [2, 1, 2]])
    write("gather", 'type: "Gather" gather_param { axis: 1 }', {"x": draw(2, 3, 4), "k": indices},
          lambda i, _: {"y": i["x"][:, i["k"].long() % 3]}, fixed=("k",))
    write("gather_settings", 'type: "Gather" gather_param { axis: -1 index: 3 index: 0 index: 3 }',
          {"x": draw(2, 3, 4)}, lambda i, _: {"y": i["x"][..., [3, 0, 3]]})
    write("gather_squeeze", 'type: "Gather" gather_param { axis: 1 index: -2 squeeze: true }',
          {"x": draw(2, 3, 4)}, lambda i, _: {"y": i["x"][:, -2]})
    for mode, name in (("CONSTANT", "constant"), ("REFLECT", "reflect"), ("EDGE", "replicate"),
                       ("WRAP", "circular")):
        write(f"pad_{mode.lower()}",
              f'type: "Pad" pad_param {{ begin: 1 begin: 3 end: 2 end: 0 mode: {mode} }}',
              {"x": draw(2, 3, 4, 5)},
              lambda i, _, m=name: {"y": functional.pad(i["x"], (3, 0, 1, 2), mode=m)})
    write("pad_crop", 'type: "Pad" pad_param { begin: -1 begin: 2 end: 2 end: -3 value: 0.5 }',
          {"x": draw(2, 3, 4, 5)},
          lambda i, _: {"y": functional.pad(i["x"], (2, -3, -1, 2), value=0.5)})
    write("strided_slice", 'type: "StridedSlice" strided_slice_param { '
          'axis: 1 axis: -1 begin: 1 begin: -1 end: 9 end: -9 step: 2 step: -2 }',
          {"x": draw(2, 5, 6)}, lambda i, _: {"y": i["x"][:, 1::2].flip(-1)[..., ::2]})


def joined(write):
    def product(x, axes):
        for axis in axes:
            x = x.prod(axis, keepdim=True)
        return x

    functions = {
        "SUM": lambda x, d: x.sum(d, keepdim=True),
        "MEAN": lambda x, d: x.mean(d, keepdim=True),
        "MAX": lambda x, d: x.amax(d, keepdim=True),
        "MIN": lambda x, d: x.amin(d, keepdim=True),
        "PROD": product,
        "L1": lambda x, d: x.abs().sum(d, keepdim=True),
        "L2": lambda x, d: x.norm(dim=d, keepdim=True),
        "SUM_SQUARE": lambda x, d: (x * x).sum(d, keepdim=True),
        "LOG_SUM": lambda x, d: x.sum(d, keepdim=True).log(),
        "LOG_SUM_EXP": lambda x, d: x.logsumexp(d, keepdim=True),
    }
    for name, function in functions.items():
        x = torch.rand(2, 3, 4, 5) + 0.5 if name == "LOG_SUM" else draw(2, 3, 4, 5)
        for kind, axes in (("last", (3,)), ("mixed", (0, 2))):
            text = " ".join(f"axis: {a}" for a in axes)
            write(f"reduce_{name.lower()}_{kind}",
                  f'type: "Reduce" reduce_param {{ operation: {name} {text} }}', {"x": x},
                  lambda i, _, f=function, d=axes: {"y": f(i["x"], d)})
    equal = torch.tensor([[1.0, 3, 3, 0], [2, 2, 2, 5]])
    for name in ("MAX", "MIN"):
        write(f"reduce_{name.lower()}_equal",
              f'type: "Reduce" reduce_param {{ operation: {name} axis: 1 keep_dims: false }}',
              {"x": equal}, lambda i, _, f=functions[name]: {"y": f(i["x"], (1,)).squeeze(1)})
    write("reduce_prod_zero", 'type: "Reduce" reduce_param { operation: PROD axis: 1 }',
          {"x": torch.tensor([[2.0, 0, 3], [0, 4, 0], [1, 2, 3]])},
          lambda i, _: {"y": i["x"].prod(1, keepdim=True)})
    for name, settings, largest, axis in (("topk", "k: 3", True, -1),
                                          ("topk_least", "k: 2 axis: 1 largest: false", False, 1)):
        k = 3 if largest else 2
        write(name, f'type: "TopK" topk_param {{ {settings} }}', {"x": draw(2, 4, 5)},
              lambda i, _, k=k, a=axis, g=largest: {"y": i["x"].topk(k, a, g).values})
    write("cumsum", 'type: "CumSum" cumsum_param { axis: 1 }', {"x": draw(2, 5, 3)},
          lambda i, _: {"y": i["x"].cumsum(1)})
    write("cumsum_reverse", 'type: "CumSum" cumsum_param { exclusive: true reverse: true }',
          {"x": draw(2, 5)},
          lambda i, _: {"y": i["x"].flip(-1).cumsum(-1).flip(-1) - i["x"]})
    write("rms_norm", 'type: "RMSNorm"', {"x": draw(3, 4, 24)},
          lambda i, p: {"y": functional.rms_norm(i["x"], (24,), p[0], 1e-5)},
          params=[draw(24) + 1])
    write("rms_norm_axes", 'type: "RMSNorm" rms_norm_param { axis: 1 eps: 0.01 affine: false }',
          {"x": draw(3, 4, 5)}, lambda i, _: {"y": functional.rms_norm(i["x"], (4, 5), None, 0.01)})


def sampled(write):
    for mode in ("BILINEAR", "NEAREST", "BICUBIC"):
        for padding in ("ZEROS", "BORDER", "REFLECTION"):
            for corners in (False, True):
                name = f"grid_sample_{mode.lower()}_{padding.lower()}" + "_corners" * corners
                settings = (f"mode: {mode} padding: {padding} "
                            f"align_corners: {str(corners).lower()}")
                write(name, f'type: "GridSample" grid_sample_param {{ {settings} }}',
                      {"x": draw(2, 3, 4, 5), "grid": draw(2, 3, 2, 2) * 1.6},
                      lambda i, _, m=mode, p=padding, c=corners: {"y": functional.grid_sample(
                          i["x"], i["grid"], mode=m.lower(), padding_mode=p.lower(),
                          align_corners=c)},
                      fixed=("grid",) if mode == "NEAREST" else ())


def cases(write):
    broadcast(write)
    moved(write)
    joined(write)
    sampled(write)
