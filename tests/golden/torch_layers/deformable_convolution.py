"""DeformableConvolution against torchvision.ops.deform_conv2d."""

import torch
from torchvision.ops import deform_conv2d


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    def case(name, settings, shape, outputs, kernel, *, stride=1, pad=0, dilation=1, group=1,
             deformable_group=1, mask=False, bias=True, reach=1.5):
        images, channels, height, width = shape

        def both(value):
            return value if isinstance(value, tuple) else (value, value)

        kernel, stride, pad, dilation = map(both, (kernel, stride, pad, dilation))
        extents = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d
                   in zip((height, width), kernel, stride, pad, dilation)]
        taps = kernel[0] * kernel[1] * deformable_group
        # Points in the middle between halves of pixels: no difference meets a kink.
        offsets = (draw(images, 2 * taps, *extents) * reach * 4).round() / 4 + 0.125
        inputs = {"x": draw(*shape), "offset": offsets}
        if mask:
            inputs["mask"] = torch.rand(images, taps, *extents)
        params = [draw(outputs, channels // group, *kernel)]
        if bias:
            params.append(draw(outputs))

        def function(i, p):
            return {"y": deform_conv2d(i["x"], i["offset"], p[0], p[1] if bias else None, stride, pad,
                                       dilation, i.get("mask"))}

        write(name, f'type: "DeformableConvolution" deformable_convolution_param {{ '
              f"num_output: {outputs} {settings} }}", inputs, function, params)

    case("deformable_convolution", "kernel_size: 3 pad: 1", (2, 3, 6, 7), 4, 3, pad=1)
    case("deformable_convolution_mask", "kernel_size: 3 pad: 1", (2, 3, 6, 7), 4, 3, pad=1, mask=True)
    case("deformable_convolution_stride", "kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 2 "
         "pad_w: 1 dilation: 2 dilation: 1", (1, 2, 7, 6), 3, (3, 2), stride=(1, 2), pad=(2, 1),
         dilation=(2, 1), mask=True)
    case("deformable_convolution_groups", "kernel_size: 3 pad: 1 group: 2", (2, 6, 5, 6), 4, 3, pad=1,
         group=2)
    case("deformable_convolution_offset_groups", "kernel_size: 3 pad: 1 deformable_group: 3",
         (2, 6, 5, 6), 4, 3, pad=1, deformable_group=3, mask=True)
    # Groups of weights and groups of offsets that overlap.
    case("deformable_convolution_both_groups", "kernel_size: 2 group: 3 deformable_group: 2",
         (1, 6, 5, 4), 6, 2, group=3, deformable_group=2, mask=True)
    case("deformable_convolution_far", "kernel_size: 3 pad: 1 stride: 2 bias_term: false",
         (2, 2, 5, 6), 3, 3, stride=2, pad=1, bias=False, mask=True, reach=12)
    case("deformable_convolution_pointwise", "kernel_size: 1", (2, 3, 4, 5), 2, 1)
