#!/usr/bin/env python3
"""Times the nets of models/ in PyTorch, for comparison with `crema time` (see scripts/bench).

    scripts/bench_torch.py --net resnet50 --memory-format channels_last

One step is forward, loss, backward to the weights (not to the input), on made-up data. Prints one
line of JSON: medians in milliseconds, the work in GFLOP as `crema time` counts it (convolutions,
inner products, LSTM and GRU only; a multiply and an add are two, a bias of a convolution one), parameters, and the peak memory of the process.
Needs PyTorch (Debian: python3-torch) and nothing else.
"""

import argparse
import json
import resource
import statistics
import time

import torch
from torch import nn

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def pool(kernel, stride, pad=0):
    # The pooling of models/ rounds up.
    return nn.MaxPool2d(kernel, stride, pad, ceil_mode=True)


def conv_relu(inputs, outputs, kernel, stride=1, pad=0):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, pad), nn.ReLU(inplace=True))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), pool(2, 2), nn.Conv2d(20, 50, 5), pool(2, 2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def fc_head(inputs):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 1000))


def alexnet():
    return nn.Sequential(
        conv_relu(3, 64, 11, 4, 2), pool(3, 2), conv_relu(64, 192, 5, 1, 2), pool(3, 2),
        conv_relu(192, 384, 3, 1, 1), conv_relu(384, 256, 3, 1, 1), conv_relu(256, 256, 3, 1, 1),
        pool(3, 2), fc_head(256 * 6 * 6))


def vgg_a():
    layers, inputs = [], 3
    for block in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for outputs in block:
            layers.append(conv_relu(inputs, outputs, 3, 1, 1))
            inputs = outputs
        layers.append(pool(2, 2))
    return nn.Sequential(*layers, fc_head(512 * 7 * 7))


class Inception(nn.Module):
    def __init__(self, inputs, n1x1, reduce3, n3x3, reduce5, n5x5, projection):
        super().__init__()
        self.branches = nn.ModuleList([
            conv_relu(inputs, n1x1, 1),
            nn.Sequential(conv_relu(inputs, reduce3, 1), conv_relu(reduce3, n3x3, 3, 1, 1)),
            nn.Sequential(conv_relu(inputs, reduce5, 1), conv_relu(reduce5, n5x5, 5, 1, 2)),
            nn.Sequential(pool(3, 1, 1), conv_relu(inputs, projection, 1))])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def googlenet():
    return nn.Sequential(
        conv_relu(3, 64, 7, 2, 3), pool(3, 2), conv_relu(64, 64, 1), conv_relu(64, 192, 3, 1, 1), pool(3, 2),
        Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), pool(3, 2),
        Inception(480, 192, 96, 208, 16, 48, 64), Inception(512, 160, 112, 224, 24, 64, 64),
        Inception(512, 128, 128, 256, 24, 64, 64), Inception(512, 112, 144, 288, 32, 64, 64),
        Inception(528, 256, 160, 320, 32, 128, 128), pool(3, 2),
        Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128),
        nn.AvgPool2d(7, 1), nn.Dropout(0.4), nn.Flatten(), nn.Linear(1024, 1000))


def conv_bn(inputs, outputs, kernel, stride=1, pad=0, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            conv_bn(inputs, width, 1, stride), nn.ReLU(inplace=True),
            conv_bn(width, width, 3, 1, 1), nn.ReLU(inplace=True), conv_bn(width, outputs, 1))
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv_bn(inputs, outputs, 1, stride)

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [conv_bn(3, 64, 7, 2, 3), nn.ReLU(inplace=True), pool(3, 2)]
    inputs = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AvgPool2d(7, 1), nn.Flatten(), nn.Linear(2048, 1000))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        width = expansion * inputs
        expand = [conv_bn(inputs, width, 1), nn.ReLU(inplace=True)] if expansion > 1 else []
        self.body = nn.Sequential(
            *expand, conv_bn(width, width, 3, stride, 1, width), nn.ReLU(inplace=True), conv_bn(width, outputs, 1))
        self.has_shortcut = inputs == outputs and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.has_shortcut else self.body(x)


def mobilenet_v2():
    layers, inputs = [conv_bn(3, 32, 3, 2, 1), nn.ReLU(inplace=True)], 32
    for expansion, outputs, blocks, stride in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            layers.append(InvertedResidual(inputs, outputs, stride if block == 0 else 1, expansion))
            inputs = outputs
    return nn.Sequential(
        *layers, conv_bn(320, 1280, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(1280, 1000))


class Recurrent(nn.Module):
    """Scores (steps * sequences, classes) of the sequences (steps, sequences, values)."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(512, 512, 2)
        self.scores = nn.Linear(512, 10)

    def forward(self, data):
        return self.scores(self.layers(data)[0]).flatten(0, 1)


# Builder, input shape (N, C, H, W), or (steps, sequences, values), and classes.
NETS = {
    "lenet": (lenet, (64, 1, 28, 28), 10),
    "alexnet": (alexnet, (32, 3, 224, 224), 1000),
    "vgg_a": (vgg_a, (8, 3, 224, 224), 1000),
    "googlenet": (googlenet, (16, 3, 224, 224), 1000),
    "resnet50": (resnet50, (8, 3, 224, 224), 1000),
    "mobilenet_v2": (mobilenet_v2, (16, 3, 224, 224), 1000),
    "lstm": (lambda: Recurrent(nn.LSTM), (64, 32, 512), 10),
    "gru": (lambda: Recurrent(nn.GRU), (64, 32, 512), 10),
}


def count_gflop(net, data):
    """Work of forward, and of a step: backward has a product for the weights, one for the input but at
    the first layer, and the sums of the biases."""
    products, sums = [], []

    def note(module, _, output):
        is_convolution = isinstance(module, nn.Conv2d)
        per_output = module.weight[0].numel() if is_convolution else module.in_features
        products.append(2e-9 * output.numel() * per_output)
        sums.append(1e-9 * output.numel() if is_convolution and module.bias is not None else 0)

    def note_recurrent(module, inputs, output):
        blocks = 4 if isinstance(module, nn.LSTM) else 3
        for layer in range(module.num_layers):
            for columns in (module.input_size if layer == 0 else module.hidden_size, module.hidden_size):
                products.append(2e-9 * blocks * output[0].numel() * columns)

    weighted = [m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    hooks = [m.register_forward_hook(note) for m in weighted]
    hooks += [m.register_forward_hook(note_recurrent) for m in net.modules()
              if isinstance(m, (nn.LSTM, nn.GRU))]
    with torch.no_grad():
        net(data)
    for hook in hooks:
        hook.remove()
    return sum(products) + sum(sums), 3 * sum(products) - products[0] + 2 * sum(sums)


def training_step(net, data, label):
    """Returns the milliseconds of forward and of backward."""
    net.zero_grad(set_to_none=True)
    start = time.perf_counter()
    loss = nn.functional.cross_entropy(net(data), label)
    middle = time.perf_counter()
    loss.backward()
    return 1e3 * (middle - start), 1e3 * (time.perf_counter() - middle)


def inference_step(net, data, _):
    start = time.perf_counter()
    with torch.no_grad():
        torch.softmax(net(data), 1)
    return 1e3 * (time.perf_counter() - start), 0.0


def measure(args):
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    build, shape, classes = NETS[args.net]
    shape = (args.batch or shape[0], *shape[1:])
    memory_format = FORMATS[args.memory_format]
    net = build().to(memory_format=memory_format).train(not args.inference)
    data = torch.rand(shape).contiguous(memory_format=memory_format)
    with torch.no_grad():
        label = torch.randint(classes, net(data).shape[:1])
    gflop_forward, gflop_step = count_gflop(net, data)

    step = inference_step if args.inference else training_step
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
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
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
    args = parser.parse_args()
    if args.iterations < 1 or args.warmup < 0 or args.threads < 1:
        parser.error("--iterations and --threads have to be at least 1, --warmup at least 0")
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
