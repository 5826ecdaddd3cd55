"""Proposal, the losses of each region (SoftmaxWithLossOHEM, SmoothL1LossOHEM), and PSROIAlign."""

import math

import torch
from torch.nn import functional
from torchvision.ops import ps_roi_align


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def anchors(base, ratios, scales):
    boxes = []
    for ratio in ratios:
        width = round(math.sqrt(base * base / ratio))
        height = round(width * ratio)
        for scale in scales:
            half = torch.tensor([width * scale - 1, height * scale - 1], dtype=torch.float64) / 2
            boxes.append(torch.cat([(base - 1) / 2 - half, (base - 1) / 2 + half]))
    return torch.stack(boxes)


def overlap(a, b):
    sides = torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2]) + 1
    both = sides.clamp(min=0).prod()
    return both / ((a[2:] - a[:2] + 1).prod() + (b[2:] - b[:2] + 1).prod() - both)


def proposals(stride, base, least, ratios, scales, before, after, threshold):
    def function(i, _):
        kinds = anchors(base, ratios, scales)
        images, _, height, width = i["offsets"].shape
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        shift = torch.stack([columns, rows, columns, rows], -1)[:, :, None] * stride
        rois, kept_scores = [], []
        for n in range(images):
            boxes = (kinds + shift).reshape(-1, 4)
            offsets = i["offsets"][n].reshape(len(kinds), 4, height, width).permute(2, 3, 0, 1).reshape(-1, 4)
            scores = i["scores"][n, len(kinds):].permute(1, 2, 0).flatten()
            sides = boxes[:, 2:] - boxes[:, :2] + 1
            centre = boxes[:, :2] + sides / 2 + offsets[:, :2] * sides
            half = offsets[:, 2:].exp() * sides / 2
            info = i["images"][n]
            last = torch.stack([info[1], info[0]]) - 1
            low = torch.minimum((centre - half).clamp(min=0), last)
            high = torch.minimum((centre + half).clamp(min=0), last)
            large = ((high - low + 1) >= least * info[2]).all(1)
            boxes, scores = torch.cat([low, high], 1)[large], scores[large]
            order = scores.argsort(descending=True, stable=True)[:before]
            kept = []
            for k in order.tolist():
                if len(kept) < after and all(overlap(boxes[k], boxes[j]) <= threshold for j in kept):
                    kept.append(k)
            rois.append(torch.cat([torch.full((len(kept), 1), float(n)), boxes[kept]], 1))
            kept_scores.append(scores[kept].unsqueeze(1))
        return {"rois": torch.cat(rois).detach(), "best": torch.cat(kept_scores).detach()}
    return function


def cases(write):
    write("proposal",
          'type: "Proposal" proposal_param { scale: 2 scale: 4 min_size: 20 pre_nms_topn: 90 '
          'post_nms_topn: 25 nms_thresh: 0.6 }',
          {"scores": torch.rand(2, 12, 6, 7), "offsets": draw(2, 24, 6, 7) * 0.4,
           "images": torch.tensor([[90., 110, 1.2], [96, 100, 0.9]])},
          proposals(16, 16, 20, (0.5, 1, 2), (2, 4), 90, 25, 0.6),
          fixed=("scores", "offsets", "images"), phase="TEST")
    write("proposal_stride_8",
          'type: "Proposal" proposal_param { feat_stride: 8 base_size: 12 ratio: 0.8 ratio: 1.5 '
          'scale: 1.5 scale: 3 min_size: 6 post_nms_topn: 0 }',
          {"scores": torch.rand(1, 8, 5, 9), "offsets": draw(1, 16, 5, 9) * 0.3,
           "images": torch.tensor([[40., 70, 1]])},
          proposals(8, 12, 6, (0.8, 1.5), (1.5, 3), 6000, 10 ** 6, 0.7),
          fixed=("scores", "offsets", "images"), phase="TEST")

    def softmax(ignored, divisor):
        def function(i, _):
            each = functional.cross_entropy(i["x"], i["label"].long(), reduction="none",
                                            ignore_index=ignored)
            return {"y": each.sum() / divisor, "p": i["x"].softmax(1).detach(), "each": each.detach()}
        return function

    write("softmax_loss_ohem",
          'type: "SoftmaxWithLossOHEM" '
          'loss_param { ignore_label: -1 normalization: PRE_FIXED pre_fixed_normalizer: 5 }',
          {"x": draw(6, 4) * 3, "label": torch.tensor([0., 3, -1, 1, 2, 2])}, softmax(-1, 5),
          fixed=("label",), losses={"y": 1, "p": 0, "each": 0})

    def smooth(sigma, divisor):
        def function(i, _):
            each = functional.smooth_l1_loss(i["w"] * i["a"], i["w"] * i["b"], reduction="none",
                                             beta=1 / sigma ** 2)
            return {"y": each.sum() / divisor, "each": each.sum(1, keepdim=True).detach()}
        return function

    values = {"a": draw(5, 8, 1, 1) * 2, "b": draw(5, 8, 1, 1) * 2, "w": torch.rand(5, 8, 1, 1)}
    write("smooth_l1_loss_ohem", 'type: "SmoothL1LossOHEM"', values,
          smooth(1, 5), fixed=("w",), losses={"y": 1, "each": 0})
    write("smooth_l1_loss_ohem_batch",
          'type: "SmoothL1LossOHEM" smooth_l1_loss_param { sigma: 1.5 } '
          'loss_param { normalization: NONE }', values, smooth(1.5, 1), fixed=("w",), losses={"y": 1, "each": 0})

    # The second is outside of the map in part, the third has less than a pixel a cell.
    rois = torch.tensor([[0., 2, 3, 50, 41], [1, -12, 8, 75, 60], [1, 20, 20, 24, 27], [0, 30.5, 6.25, 61, 38]])

    def aligned(name, settings, outputs, side, ratio, scale=0.125):
        write(name, f'type: "PSROIAlign" psroi_align_param {{ spatial_scale: {scale} output_dim: {outputs} '
              f"group_size: {side} {settings} }}", {"x": draw(2, outputs * side * side, 6, 8), "rois": rois},
              lambda i, _: {"y": ps_roi_align(i["x"], i["rois"], side, scale, ratio)}, fixed=("rois",))

    aligned("psroi_align", "", 2, 3, -1)
    aligned("psroi_align_ratio", "sampling_ratio: 2", 3, 2, 2)
