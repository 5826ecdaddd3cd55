"""LocallyConnected."""

import torch
from torch.nn.functional import unfold


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    def case(name, kind, settings, shape, outputs, kernel, stride=(1, 1), pad=(0, 0), bias=True):
        height, width = ((size + 2 * p - k) // s + 1
                         for size, p, k, s in zip(shape[2:], pad, kernel, stride))
        taps = shape[1] * kernel[0] * kernel[1]
        params = [draw(outputs, 1, taps, height * width)]
        if bias:
            params.append(draw(1, 1, outputs, height * width))

        def run(inputs, p):
            columns = unfold(inputs["x"], kernel, stride=stride, padding=pad)
            y = torch.einsum("okp,nkp->nop", p[0][:, 0], columns)
            y = y + p[1][0, 0] if bias else y
            return {"y": y.reshape(shape[0], outputs, height, width)}

        write(name, f'type: "{kind}" local_param {{ num_output: {outputs} {settings} }}',
              {"x": draw(*shape)}, run, params=params)

    case("local", "Local", "kernel_size: 3", (2, 2, 5, 6), 3, (3, 3))
    case("locally_connected", "LocallyConnected", "kernel_size: 3 stride: 2 pad: 1 bias_term: false",
         (3, 2, 5, 6), 2, (3, 3), (2, 2), (1, 1), False)
    case("locally_connected_pairs", "LocallyConnected",
         "kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 3 pad_h: 2 pad_w: 1", (2, 3, 4, 8), 2, (2, 3),
         (1, 3), (2, 1))
