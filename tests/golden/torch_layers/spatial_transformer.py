"""SpatialTransformer."""

import torch
from torch.nn.functional import affine_grid, grid_sample


def transposed(theta):
    """The map of (x, y), as PyTorch has it, for that of (y, x)."""
    return theta[:, [1, 0]][:, :, [1, 0, 2]]


def published(u, theta, height, width, padding_mode="zeros"):
    """Pixel i of n is at -1 + 2 i / n, in the top and in the bottom."""
    y = torch.arange(height, dtype=u.dtype) / height * 2 - 1
    x = torch.arange(width, dtype=u.dtype) / width * 2 - 1
    grid = torch.stack([y[:, None].expand(height, width), x.expand(height, width),
                        torch.ones(height, width, dtype=u.dtype)], -1)
    points = torch.einsum("hwk,njk->nhwj", grid, theta)
    size = torch.tensor(u.shape[2:], dtype=u.dtype)
    pixels = (points + 1) / 2 * size
    return grid_sample(u, (pixels / (size - 1) * 2 - 1).flip(-1), align_corners=True,
                       padding_mode=padding_mode)


def sampled(u, theta, height, width, align_corners, padding_mode="zeros"):
    grid = affine_grid(transposed(theta), [u.shape[0], u.shape[1], height, width],
                       align_corners=align_corners)
    return grid_sample(u, grid, align_corners=align_corners, padding_mode=padding_mode)


def cases(write):
    maps = torch.tensor([[[0.8, 0.3, 0.1], [-0.2, 1.1, -0.15]], [[1.3, -0.4, 0.2], [0.5, 0.6, 0.3]]])

    def case(name, settings, shape, size, function, fixed=None):
        inputs = {"u": torch.rand(*shape) * 2 - 1}
        places = [i for i in range(6) if i not in (fixed or {})]
        inputs["theta"] = maps.reshape(2, 6)[:, places]

        def run(i, _):
            columns = [torch.full_like(i["theta"][:, 0], fixed[k]) if k in (fixed or {})
                       else i["theta"][:, places.index(k)] for k in range(6)]
            return {"y": function(i["u"], torch.stack(columns, 1).reshape(2, 2, 3), *size)}

        write(name, f'type: "SpatialTransformer" st_param {{ {settings} }}', inputs, run)

    size = "output_H: 4 output_W: 7"
    case("spatial_transformer", "", (2, 3, 5, 6), (5, 6), published)
    case("spatial_transformer_size", size, (2, 2, 5, 6), (4, 7), published)
    case("spatial_transformer_fixed", size + " theta_1_2: 0 theta_2_1: 0.25 theta_1_1: 0.9",
         (2, 2, 5, 6), (4, 7), published, fixed={0: 0.9, 1: 0, 3: 0.25})
    for align in (True, False):
        text = "true" if align else "false"
        case(f"spatial_transformer_align_{text}", f"{size} align_corners: {text}", (2, 2, 5, 6),
             (4, 7), lambda *a, align=align: sampled(*a, align))
    border = size + " padding_mode: BORDER"
    case("spatial_transformer_border", border, (2, 2, 5, 6), (4, 7), lambda *a: published(*a, "border"))
    for align in (True, False):
        text = "true" if align else "false"
        case(f"spatial_transformer_border_align_{text}", f"{border} align_corners: {text}",
             (2, 2, 5, 6), (4, 7), lambda *a, align=align: sampled(*a, align, "border"))
    # Maps of one row, and few points of a large map, which are sampled in other ways.
    case("spatial_transformer_border_row", border + " align_corners: false", (2, 2, 1, 6), (4, 7),
         lambda *a: sampled(*a, False, "border"))
    case("spatial_transformer_border_sparse", "output_H: 2 output_W: 2 padding_mode: BORDER "
         "align_corners: true", (2, 1, 24, 30), (2, 2), lambda *a: sampled(*a, True, "border"))
