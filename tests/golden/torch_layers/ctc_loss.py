"""CTCLoss with the bottoms of its names, and with lengths."""

import torch
from torch.nn import functional

STEPS, CLASSES = 7, 5
LABELS = [[1, 1, 3], [2, 3, 2, 1], [3], []]
LENGTHS = [7, 6, 4, 3]


def draw(*shape):
    return torch.rand(*shape) * 6 - 3


def columns(shift, length=6):
    """(labels, sequences), ended by -1."""
    labels = torch.full((length, len(LABELS)), -1.)
    for n, label in enumerate(LABELS):
        labels[:len(label), n] = torch.tensor(label) + shift
    return labels


def cases(write):
    def function(blank, shift, lengths, reduce):
        def loss(i, _):
            targets = torch.tensor([c + shift for label in LABELS for c in label])
            each = functional.ctc_loss(
                i["x"].log_softmax(2), targets, torch.tensor(lengths),
                torch.tensor([len(label) for label in LABELS]), blank, reduction="none")
            return {"y": reduce(each)}
        return loss

    count = len(LABELS)
    cont = torch.ones(STEPS, count)
    cont[0] = 0
    for n, length in enumerate(LENGTHS):
        if length < STEPS:
            cont[length, n] = 0
    x = draw(STEPS, count, CLASSES)
    whole = [STEPS] * count
    write("ctc_loss", 'type: "CTCLoss"', {"x": x, "cont": cont, "label": columns(-1)},
          function(CLASSES - 1, -1, LENGTHS, torch.mean), fixed=("cont", "label"), losses={"y": 1})
    write("ctc_loss_sum", 'type: "CTCLoss" ctc_loss_param { blank_index: 0 } loss_param { normalization: NONE }',
          {"x": x, "cont": cont, "label": columns(0)}, function(0, 0, LENGTHS, torch.sum),
          fixed=("cont", "label"), losses={"y": 0.5})
    write("warp_ctc_loss_lengths", 'type: "WarpCTCLoss"',
          {"x": x, "steps": torch.tensor(LENGTHS, dtype=torch.float32),
           "lengths": torch.tensor([len(label) for label in LABELS], dtype=torch.float32),
           "label": columns(0, STEPS).clamp(min=1)},
          function(0, 0, LENGTHS, torch.mean), fixed=("steps", "lengths", "label"), losses={"y": 1})
    rows = columns(0).T.clone()
    rows[rows < 0] = 4
    write("ctc_loss_rows",
          f'type: "CtcLoss" ctc_loss_param {{ blank_label: 4 alphabet_size: {CLASSES} time_step: {STEPS} }}',
          {"x": x, "label": rows}, function(4, 0, whole, torch.mean), fixed=("label",), losses={"y": 1})
    peaked = draw(STEPS, count, CLASSES) * 300
    write("ctc_loss_peaked", 'type: "CtcLoss" ctc_loss_param { blank_label: 4 }',
          {"x": peaked, "label": rows}, function(4, 0, whole, torch.mean), fixed=("label",),
          losses={"y": 1})
