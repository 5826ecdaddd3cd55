"""FocalLoss, TripletLoss and DiceLoss. sigmoid_focal_loss is that of torchvision."""

import torch
from torch.nn import functional
from torchvision.ops import sigmoid_focal_loss


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

    weights = torch.tensor([0.5, 2, 1.25], dtype=torch.float64)
    weighting = ("loss_param { weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 2 "
                 "class_weighting: 1.25 %s}")

    def weighted_focal(gamma, alpha, ignored):
        def function(i, _):
            label = i["label"].long()
            counted = label != ignored
            label = label.clamp(0, 2)
            each = functional.cross_entropy(i["x"], label, reduction="none")
            each = weights[label] * alpha * (1 - (-each).exp()) ** gamma * each
            return {"y": each[counted].sum() / counted.sum()}
        return function

    def sigmoid_focal(gamma, alpha, background=-1, by_class=1):
        """`by_class`: factors of the classes."""
        def function(i, _):
            if "target" in i:
                target = i["target"]
            else:
                label = i["label"].long()
                known = label != background
                target = functional.one_hot(label.where(known, torch.zeros_like(label)), 3).double()
                target = target * known.unsqueeze(-1)
            each = sigmoid_focal_loss(i["x"], target, alpha=alpha, gamma=gamma)
            return {"y": (each * by_class).sum() / len(i["x"])}
        return function

    write("focal_loss_weights",
          'type: "FocalLoss" focal_loss_param { gamma: 1.5 alpha: 0.5 } ' +
          weighting % "ignore_label: 255 ",
          {"x": draw(6, 3) * 4, "label": torch.tensor([0., 2, 1, 1, 255, 2])},
          weighted_focal(1.5, 0.5, 255), fixed=("label",), losses={"y": 2})
    write("focal_loss_sigmoid",
          'type: "FocalLoss" focal_loss_param { activation: SIGMOID background_label_id: 3 }',
          {"x": draw(6, 3) * 4, "label": torch.tensor([0., 2, 3, 1, 3, 2])},
          sigmoid_focal(2, 0.25, 3), fixed=("label",), losses={"y": 1})
    write("focal_loss_sigmoid_weights",
          'type: "FocalLoss" focal_loss_param { activation: SIGMOID gamma: 0.5 alpha: 0.6 } ' +
          weighting % "",
          {"x": draw(5, 3) * 4, "label": torch.tensor([0., 2, 0, 1, 2])},
          sigmoid_focal(0.5, 0.6, by_class=weights), fixed=("label",), losses={"y": 1})
    write("focal_loss_sigmoid_targets",
          'type: "FocalLoss" focal_loss_param { activation: SIGMOID gamma: 3 alpha: 0.4 }',
          {"x": draw(4, 3) * 4,
           "target": torch.tensor([[0, 1, 1], [0.25, 0, 0.75], [0, 0, 0], [1, 0.5, 0.9]])},
          sigmoid_focal(3, 0.4), fixed=("target",), losses={"y": 1})

    def dice(smooth, axes):
        def function(i, _):
            overlap = (i["p"] * i["t"]).sum(axes)
            area = (i["p"] ** 2).sum(axes) + (i["t"] ** 2).sum(axes)
            return {"y": (1 - (2 * overlap + smooth) / (area + smooth)).mean()}
        return function

    masks = {"p": torch.rand(2, 3, 4, 5), "t": (torch.rand(2, 3, 4, 5) > 0.6).float()}
    write("dice_loss_squared", 'type: "DiceLoss" dice_loss_param { squared: true }', masks,
          dice(1, (0, 1, 2, 3)), fixed=("t",), losses={"y": 1})
    write("dice_loss_squared_channels",
          'type: "DiceLoss" dice_loss_param { squared: true per_channel: true smooth: 0.25 }', masks,
          dice(0.25, (2, 3)), fixed=("t",), losses={"y": 0.5})

    def swapped(margin):
        loss = torch.nn.TripletMarginLoss(margin=margin, swap=True, eps=0)
        return lambda i, _: {"y": loss(i["a"], i["p"], i["n"])}

    write("triplet_loss_swap",
          'type: "TripletLoss" triplet_loss_param { margin: 0.3 squared: false swap: true }',
          points, swapped(0.3), losses={"y": 1})
