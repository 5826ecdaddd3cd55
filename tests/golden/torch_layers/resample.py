"""Resize, Interp, UpsampleDarknet, ResizeNearestNeighbor, Upsample, Unpooling and Reorg."""

import torch
from torch.nn import functional


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    def resize(name, settings, shape, size, **options):
        write(name, f'type: "Resize" resize_param {{ {settings} }}', {"x": draw(*shape)},
              lambda i, _: {"y": functional.interpolate(i["x"], size=size, **options)})

    shape = (2, 3, 5, 7)
    resize("resize_bilinear", "height: 9 width: 11", shape, (9, 11), mode="bilinear")
    resize("resize_bilinear_smaller", "height: 3 width: 4", shape, (3, 4), mode="bilinear")
    resize("resize_bilinear_corners", "height: 9 width: 3 align_corners: true", shape, (9, 3),
           mode="bilinear", align_corners=True)
    resize("resize_nearest", "height: 8 width: 4 mode: NEAREST", shape, (8, 4), mode="nearest")
    resize("resize_bicubic", "height: 9 width: 11 mode: BICUBIC", shape, (9, 11), mode="bicubic")
    resize("resize_bicubic_corners", "height: 4 width: 9 mode: BICUBIC align_corners: true", shape,
           (4, 9), mode="bicubic", align_corners=True)
    resize("resize_scale", "scale: 2", shape, (10, 14), mode="bilinear")
    write("resize_like", 'type: "Resize"', {"x": draw(*shape), "like": draw(1, 2, 6, 9)},
          lambda i, _: {"y": functional.interpolate(i["x"], size=(6, 9), mode="bilinear")},
          fixed=("like",))

    def interp(name, settings, size, cut=slice(None)):
        write(name, f'type: "Interp" interp_param {{ {settings} }}', {"x": draw(*shape)},
              lambda i, _: {"y": functional.interpolate(i["x"][:, :, cut, cut], size=size,
                                                        mode="bilinear", align_corners=True)})

    interp("interp_size", "height: 8 width: 10", (8, 10))
    interp("interp_zoom", "zoom_factor: 3", (13, 19))
    interp("interp_shrink", "shrink_factor: 2", (3, 4))
    interp("interp_both", "shrink_factor: 2 zoom_factor: 2", (5, 7))
    interp("interp_cut", "height: 6 width: 6 pad_beg: -1 pad_end: -2", (6, 6), slice(1, -2))

    def doubled(i, _):
        return {"y": functional.interpolate(i["x"], scale_factor=2, mode="nearest")}

    write("upsample_darknet", 'type: "UpsampleDarknet"', {"x": draw(*shape)}, doubled)
    write("upsample_nearest", 'type: "Upsample"', {"x": draw(*shape)}, doubled)
    write("resize_nearest_neighbor", 'type: "ResizeNearestNeighbor" '
          "resize_nearest_neighbor_param { output_height: 3 output_width: 9 }", {"x": draw(*shape)},
          lambda i, _: {"y": functional.interpolate(i["x"], size=(3, 9), mode="nearest")})

    pooled, mask = functional.max_pool2d(draw(2, 3, 5, 7), 2, 2, return_indices=True)

    def unpooled(size):
        return lambda i, _: {"y": functional.max_unpool2d(i["x"], i["mask"].long(), 2, 2,
                                                          output_size=size)}

    for name, settings in (
            ("upsample_mask", 'type: "Upsample" upsample_param { upsample_h: 5 upsample_w: 7 }'),
            ("unpooling_max",
             'type: "Unpooling" unpooling_param { kernel_size: 2 stride: 2 unpool_h: 5 unpool_w: 7 }'
             )):
        write(name, settings, {"x": draw(*pooled.shape), "mask": mask.double()}, unpooled((5, 7)),
              fixed=("mask",))

    def transposed_pool(i, _):
        # Average pooling is linear: its transpose is its gradient.
        x = i["x"]
        probe = torch.zeros(2, 3, 9, 7, dtype=x.dtype, requires_grad=True)
        pool = functional.avg_pool2d(probe, 3, 2, 1)
        return {"y": torch.autograd.grad(pool, probe, x, create_graph=True)[0]}

    write("unpooling_ave",
          'type: "Unpooling" unpooling_param { unpool: AVE kernel_size: 3 stride: 2 pad: 1 }',
          {"x": draw(2, 3, 5, 4)}, transposed_pool)
    write("unpooling_tile", 'type: "Unpooling" unpooling_param { unpool: TILE kernel_size: 2 stride: 2 }',
          {"x": draw(2, 3, 4, 5)}, doubled)

    for name, size in (("smaller", (3, 4)), ("larger", (8, 11)), ("one", (1, 1))):
        resize(f"resize_nearest_exact_{name}", f"height: {size[0]} width: {size[1]} mode: NEAREST_EXACT",
               shape, size, mode="nearest-exact")
    # Of a map of one row, or to one: with align_corners that row is the first one.
    resize("resize_row_corners", "height: 4 width: 9 align_corners: true", (2, 3, 1, 5), (4, 9),
           mode="bilinear", align_corners=True)
    resize("resize_to_row_corners", "height: 1 width: 4 align_corners: true", shape, (1, 4),
           mode="bilinear", align_corners=True)
    resize("resize_to_row", "height: 1 width: 4", shape, (1, 4), mode="bilinear")
    resize("resize_to_row_bicubic_corners", "height: 1 width: 4 mode: BICUBIC align_corners: true", shape,
           (1, 4), mode="bicubic", align_corners=True)

    # With channels first, Reorg is PyTorch's.
    for reverse, size, function in ((False, (2, 3, 4, 6), functional.pixel_unshuffle),
                                    (True, (2, 8, 3, 2), functional.pixel_shuffle)):
        write(f"reorg_channel_first_{'reverse' if reverse else 'forward'}",
              f'type: "Reorg" reorg_param {{ stride: 2 reverse: {str(reverse).lower()} '
              "order: CHANNEL_FIRST }", {"x": draw(*size)}, lambda i, _, f=function: {"y": f(i["x"], 2)})
