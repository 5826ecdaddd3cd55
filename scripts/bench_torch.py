#!/usr/bin/env python3
"""Times the nets of models/ in PyTorch, for comparison with `crema time` (see scripts/bench).

    scripts/bench_torch.py --net resnet50 --memory-format channels_last

One step is forward, loss, backward to the weights (not to the input), on made-up data. Prints one
line of JSON: medians in milliseconds, the work in GFLOP as `crema time` counts it (convolutions,
inner products, attention, LSTM and GRU only; a multiply and an add are two, a bias of a convolution
one), parameters, and the peak memory of the process.
Needs PyTorch (Debian: python3-torch) and nothing else; --compile needs a C++ compiler too, and ssd300_vgg needs torchvision.
"""

import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn

from torch_nets import NETS, Heads

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def count_gflop(net, data):
    """Work of forward, and of a step: backward has a product for the weights, one for the input but at
    the first layer, and the sums of the biases."""
    products, sums, attention = [], [], []

    def note(module, inputs, output):
        if isinstance(module, Heads):  # two products; backward computes the first one again
            attention.append(4e-9 * output.numel() * output.shape[1])
            return
        enlarges = isinstance(module, nn.ConvTranspose2d)
        products.append(2e-9 * (inputs[0] if enlarges else output).numel() * module.weight[0].numel())
        is_convolution = not isinstance(module, nn.Linear)
        sums.append(1e-9 * output.numel() if is_convolution and module.bias is not None else 0)

    def note_recurrent(module, inputs, output):
        blocks = 4 if isinstance(module, nn.LSTM) else 3
        for layer in range(module.num_layers):
            for columns in (module.input_size if layer == 0 else module.hidden_size, module.hidden_size):
                products.append(2e-9 * blocks * output[0].numel() * columns)

    counted = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, Heads)
    hooks = [m.register_forward_hook(note) for m in net.modules() if isinstance(m, counted)]
    hooks += [m.register_forward_hook(note_recurrent) for m in net.modules()
              if isinstance(m, (nn.LSTM, nn.GRU))]
    with torch.no_grad():
        net(data)
    for hook in hooks:
        hook.remove()
    forward = sum(products) + sum(sums) + sum(attention)
    return forward, forward + 2 * sum(products) - products[0] + sum(sums) + 2.5 * sum(attention)


def training_step(net, data, label):
    """Returns the milliseconds of forward and of backward."""
    net.zero_grad(set_to_none=True)
    start = time.perf_counter()
    scores = net(data)
    # Labels of the shape of the scores are images.
    loss = (nn.functional.mse_loss if label.shape == scores.shape else nn.functional.cross_entropy)(scores, label)
    middle = time.perf_counter()
    loss.backward()
    return 1e3 * (middle - start), 1e3 * (time.perf_counter() - middle)


def inference_step(net, data, label):
    start = time.perf_counter()
    with torch.no_grad():
        scores = net(data)
        if label.shape != scores.shape:
            torch.softmax(scores, 1)
    return 1e3 * (time.perf_counter() - start), 0.0


def measure(args):
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    build, shape, classes = NETS[args.net]
    shape = (args.batch or shape[0], *shape[1:])
    memory_format = FORMATS[args.memory_format]
    net = build().to(memory_format=memory_format).train(not args.inference)
    # Words of a text are numbers from 0 on.
    data = torch.rand(shape).contiguous(memory_format=memory_format) if len(shape) > 2 else torch.randint(2, shape)
    with torch.no_grad():
        scores = net(data)
        label = torch.randint(classes, (len(scores), *scores.shape[2:])) if classes else torch.rand_like(scores)
    gflop_forward, gflop_step = count_gflop(net, data)

    step = inference_step if args.inference else training_step
    if args.compile:
        # Weights do not change in inference, so that the compiler may pack them.
        from torch._inductor import config as inductor  # releases before 2 have none
        inductor.freezing = args.inference
        net = torch.compile(net)
    for _ in range(args.warmup):
        step(net, data, label)
    times = [step(net, data, label) for _ in range(args.iterations)]
    return {
        "net": args.net,
        "engine": f"PyTorch {torch.__version__}",
        "memory_format": args.memory_format,
        "batch": shape[0],
        "forward_ms": statistics.median(f for f, _ in times),
        "backward_ms": statistics.median(b for _, b in times),
        "total_ms": statistics.median(f + b for f, b in times),
        "gflop_forward": gflop_forward,
        "gflop_total": gflop_forward if args.inference else gflop_step,
        "parameters": sum(p.numel() for p in net.parameters()),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "threads": args.threads,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--net", required=True, choices=NETS)
    parser.add_argument("--memory-format", default="contiguous", choices=FORMATS)
    parser.add_argument("--iterations", type=int, default=10, help="timed steps (default 10)")
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps before (default 2)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, help="default: as in models/NET/train_val.prototxt")
    parser.add_argument("--inference", action="store_true", help="forward only, in eval mode")
    parser.add_argument("--compile", action="store_true", help="compiled by torch.compile (inductor)")
    args = parser.parse_args()
    if args.net == "ssd300_vgg" and not args.inference:
        parser.error("ssd300_vgg is for --inference")
    if args.iterations < 1 or args.warmup < 0 or args.threads < 1:
        parser.error("--iterations and --threads have to be at least 1, --warmup at least 0")
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
