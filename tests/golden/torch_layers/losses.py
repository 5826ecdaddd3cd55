"""FocalLoss and TripletLoss."""

import torch
from torch.nn import functional


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    def focal(gamma, alpha, ignored=None):
        def function(i, _):
            log_p = functional.log_softmax(i["x"], 1)
            label = i["label"].long()
            counted = torch.ones_like(label, dtype=torch.bool) if ignored is None else label != ignored
            log_p = log_p.gather(1, label.clamp(0, i["x"].shape[1] - 1).unsqueeze(1)).squeeze(1)
            each = -alpha * (1 - log_p.exp()) ** gamma * log_p
            return {"y": each[counted].sum() / counted.sum()}
        return function

    write("focal_loss", 'type: "FocalLoss"',
          {"x": draw(5, 4) * 4, "label": torch.tensor([0., 3, 1, 1, 2])}, focal(2, 0.25),
          fixed=("label",), losses={"y": 1})
    write("focal_loss_maps",
          'type: "FocalLoss" focal_loss_param { gamma: 0.5 alpha: 1 } loss_param { ignore_label: 255 }',
          {"x": draw(2, 3, 2, 2) * 4,
           "label": torch.tensor([[[0., 255], [2, 1]], [[1, 1], [255, 0]]])}, focal(0.5, 1, 255),
          fixed=("label",), losses={"y": 0.5})

    def triplet(margin, squared):
        def function(i, _):
            if squared:
                gap = ((i["a"] - i["p"]) ** 2).sum(1) - ((i["a"] - i["n"]) ** 2).sum(1)
                return {"y": functional.relu(gap + margin).sum() / (2 * len(gap))}
            return {"y": functional.triplet_margin_loss(i["a"], i["p"], i["n"], margin=margin, eps=0)}
        return function

    points = {k: draw(6, 5) for k in "apn"}
    write("triplet_loss", 'type: "TripletLoss"', points, triplet(1, True), losses={"y": 1})
    write("triplet_loss_distance", 'type: "TripletLoss" triplet_loss_param { margin: 0.3 squared: false }',
          points, triplet(0.3, False), losses={"y": 1})
