"""LayerNorm, GroupNorm and InstanceNorm."""

import torch
from torch.nn import functional


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    def case(name, layer, shape, parameter_shape, function):
        parameters = [draw(*parameter_shape) + 1, draw(*parameter_shape)] if parameter_shape else []
        write(name, layer, {"x": draw(*shape) * 3 + 0.5},
              lambda i, p: {"y": function(i["x"], *(p or (None, None)))}, params=parameters)

    case("layer_norm", 'type: "LayerNorm"', (2, 5, 24), (24,),
         lambda x, w, b: functional.layer_norm(x, (24,), w, b))
    case("layer_norm_axes", 'type: "LayerNorm" layer_norm_param { axis: 1 eps: 0.001 }', (3, 4, 5),
         (4, 5), lambda x, w, b: functional.layer_norm(x, (4, 5), w, b, 0.001))
    case("layer_norm_plain",
         'type: "LayerNorm" layer_norm_param { scale_term: false bias_term: false }', (4, 7), None,
         lambda x, w, b: functional.layer_norm(x, (7,)))
    case("group_norm", 'type: "GroupNorm" group_norm_param { group: 3 }', (2, 6, 4, 5), (6,),
         lambda x, w, b: functional.group_norm(x, 3, w, b))
    case("group_norm_2d", 'type: "GroupNorm" group_norm_param { group: 2 }', (3, 8), (8,),
         lambda x, w, b: functional.group_norm(x, 2, w, b))
    case("group_norm_plain",
         'type: "GroupNorm" group_norm_param { group: 2 scale_term: false bias_term: false }',
         (2, 4, 3, 3), None, lambda x, w, b: functional.group_norm(x, 2))
    case("instance_norm", 'type: "InstanceNorm"', (2, 3, 4, 5), None,
         lambda x, w, b: functional.instance_norm(x))
    case("instance_norm_affine",
         'type: "InstanceNorm" instance_norm_param { scale_term: true bias_term: true }',
         (2, 3, 4, 5), (3,), lambda x, w, b: functional.instance_norm(x, weight=w, bias=b))
