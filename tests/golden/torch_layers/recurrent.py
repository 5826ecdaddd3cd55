"""RNN, LSTM and GRU in one and in two directions, with sequences that end within the batch."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils import rnn

STEPS, INPUTS, UNITS = 5, 3, 4
LENGTHS = [5, 3, 1, 4]
BLOCKS = {"RNN": 1, "LSTM": 4, "GRU": 3}


def draw(*shape):
    return torch.rand(*shape) * 1.6 - 0.8


def make_params(kind, directions):
    """In the order of the layer."""
    params = []
    for _ in range(directions):
        rows = BLOCKS[kind] * UNITS
        params += [draw(rows, INPUTS), draw(rows), draw(rows, UNITS)]
        params += {"RNN": [draw(UNITS, UNITS), draw(UNITS)], "LSTM": [], "GRU": [draw(UNITS)]}[kind]
    return params


def run(kind, params, directions, packed, first):
    """What torch.nn gives for a packed batch, with the layer's parameters: outputs, last states."""
    module = getattr(nn, kind)(INPUTS, UNITS, bidirectional=directions == 2).double()
    each = len(params) // directions
    weights = {}
    for d in range(directions):
        end = "_l0" + "_reverse" * d
        w_x, b, w_h, *more = params[d * each:(d + 1) * each]
        other = torch.zeros_like(b)
        if kind == "LSTM":  # the layer's gates are i, f, o, g; those of torch i, f, g, o
            order = torch.cat([torch.arange(2 * UNITS), torch.arange(3 * UNITS, 4 * UNITS),
                               torch.arange(2 * UNITS, 3 * UNITS)])
            w_x, b, w_h = w_x[order], b[order], w_h[order]
        if kind == "GRU":
            other = torch.cat([torch.zeros(2 * UNITS, dtype=torch.float64), more[0]])
        weights.update({"weight_ih" + end: w_x, "weight_hh" + end: w_h, "bias_ih" + end: b,
                        "bias_hh" + end: other})
    return functional_call(module, weights, (packed, first))


def outputs(kind, params, y, directions):
    """RNN has an output layer, which torch.nn.RNN does not have."""
    if kind != "RNN":
        return y
    each = len(params) // directions
    halves = y.split(UNITS, -1)
    return torch.cat([torch.tanh(half @ params[d * each + 3].T + params[d * each + 4])
                      for d, half in enumerate(halves)], -1)


def case(kind, directions, exposes):
    def function(i, params):
        x, count = i["x"], len(LENGTHS)
        first = None
        if exposes:
            states = [i[k] for k in ("h0", "c0") if k in i]
            first = tuple(states) if len(states) == 2 else states[0]
            y, last = run(kind, params, directions, x, first)
            last = last if isinstance(last, tuple) else (last,)
            return {"y": outputs(kind, params, y, directions)} | dict(zip(("h", "c"), last))
        # What follows the end of a sequence is another sequence, of the layer's zeros.
        parts = [x[:length, n] for n, length in enumerate(LENGTHS)]
        rests = [(n, x[length:, n]) for n, length in enumerate(LENGTHS) if length < STEPS]
        packed = rnn.pack_sequence(parts + [rest for _, rest in rests], enforce_sorted=False)
        y, _ = rnn.pad_packed_sequence(run(kind, params, directions, packed, first)[0])
        columns = []
        after = {n: y[:STEPS - LENGTHS[n], count + k] for k, (n, _) in enumerate(rests)}
        for n, length in enumerate(LENGTHS):
            columns.append(torch.cat([y[:length, n]] + ([after[n]] if n in after else [])))
        return {"y": outputs(kind, params, torch.stack(columns, 1), directions)}
    return function


def cases(write):
    cont = torch.ones(STEPS, len(LENGTHS))
    cont[0] = 0
    for n, length in enumerate(LENGTHS):
        if length < STEPS:
            cont[length, n] = 0
    for kind in BLOCKS:
        for directions in (1, 2):
            for exposes in (False, True):
                if directions == 1 and kind != "GRU":
                    continue  # results of Caffe have them
                inputs = {"x": draw(STEPS, len(LENGTHS), INPUTS) * 2,
                          "cont": torch.ones_like(cont) if exposes else cont}
                if exposes:
                    for name in ("h0", "c0")[:2 if kind == "LSTM" else 1]:
                        inputs[name] = draw(directions, len(LENGTHS), UNITS)
                settings = f"num_output: {UNITS}" + " bidirectional: true" * (directions == 2)
                settings += " expose_hidden: true" * exposes
                name = "_".join([kind.lower()] + ["bidirectional"] * (directions == 2)
                                + ["exposed"] * exposes)
                write(name, f'type: "{kind}" recurrent_param {{ {settings} }}', inputs,
                      case(kind, directions, exposes), params=make_params(kind, directions),
                      fixed=("cont",))
