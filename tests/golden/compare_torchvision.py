#!/usr/bin/env python3
"""Compares nets of models/ with torchvision's: the same random weights, the same images, the scores.

    tests/golden/compare_torchvision.py                     all nets
    tests/golden/compare_torchvision.py resnet18 vgg16      some
    tests/golden/compare_torchvision.py --engine=reference  with one engine (flags of `crema extract-features`)

For each net it writes the weights of torchvision's module into a .caffemodel and runs models/NET/deploy.prototxt on
two random images. The error is the largest difference to a score of torchvision in f64, over the largest difference between
the scores of both images: weights that make the same scores of all images would hide a mistake. It fails when an error is
above the tolerance. The last column has the error of PyTorch in f32. Needs PyTorch and torchvision, and build/release/bin/crema, or what CREMA names.
"""

import argparse
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import torch
import torchvision
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
# Layer types with parameters, and the modules that they are in PyTorch.
KINDS = {"Convolution": nn.Conv2d, "InnerProduct": (nn.Linear, nn.Conv2d), "BatchNorm": nn.BatchNorm2d, "Scale": nn.BatchNorm2d}


def first_version(module):
    """ResNet-50 and -101 of the paper: the stride is in the first convolution of a block, the pooling rounds up."""
    for block in module.modules():
        if isinstance(block, torchvision.models.resnet.Bottleneck):
            block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
    module.maxpool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return module


def plain_relu(module):
    """MobileNet v2 of models/ has ReLU in place of ReLU6."""
    for parent in list(module.modules()):
        for name, each in parent.named_children():
            if isinstance(each, nn.ReLU6):
                setattr(parent, name, nn.ReLU())
    return module


def in_order(names, layers):
    return names


def shortcuts_first(names, layers):
    """Modules of a residual net in the order of models/: the shortcut's before the rest of its block."""
    place = {name: i for i, name in enumerate(names)}
    return sorted(names, key=lambda name: place[name] if ".downsample." not in name else
                  place[name.split(".downsample.")[0] + ".conv1"] - 0.5 + 0.1 * int(name[-1]))


def by_name(names, layers):
    """Modules of Inception v3 in the order of the layers of models/, whose names are much the same."""
    def layer(name):
        name = re.sub(r"^Conv2d_(\w\w)_\dx\d", r"stem/conv\1", name)
        name = re.sub(r"^Mixed_(\w\w)\.(branch_pool)?(?:branch)?", r"mixed\1/\2", name)
        return name.replace(".conv", "").replace(".bn", "/bn")

    return sorted((name for name in names if not name.startswith("AuxLogits")), key=lambda name: layers.index(layer(name)))


# Folder in models/: torchvision's name, order of its modules, what else to do with it.
NETS = {
    "alexnet": ("alexnet", in_order, None),
    "vgg_a": ("vgg11", in_order, None),
    "vgg16": ("vgg16", in_order, None),
    "vgg19": ("vgg19", in_order, None),
    "resnet18": ("resnet18", shortcuts_first, None),
    "resnet50": ("resnet50", shortcuts_first, first_version),
    "resnet101": ("resnet101", shortcuts_first, first_version),
    "resnext50": ("resnext50_32x4d", shortcuts_first, None),
    "densenet121": ("densenet121", in_order, None),
    "squeezenet_v1.1": ("squeezenet1_1", in_order, None),
    "mobilenet_v2": ("mobilenet_v2", in_order, plain_relu),
    "mobilenet_v3_large": ("mobilenet_v3_large", in_order, None),
    "shufflenet_v2": ("shufflenet_v2_x1_0", in_order, None),
    "efficientnet_b0": ("efficientnet_b0", in_order, None),
    "inception_v3": ("inception_v3", by_name, None),
}


def build(name, change):
    settings = {"aux_logits": True, "init_weights": False} if name == "inception_v3" else {}
    module = getattr(torchvision.models, name)(weights=None, **settings).eval()
    for each in module.modules():
        if isinstance(each, nn.Conv2d):
            nn.init.kaiming_normal_(each.weight, nonlinearity="relu")
        if isinstance(each, nn.BatchNorm2d):
            nn.init.uniform_(each.weight, 0.8, 1.2)
            nn.init.normal_(each.bias, 0, 0.1)
    for each in module.modules():
        if isinstance(each, torchvision.models.resnet.Bottleneck):
            # Else rounding grows with the depth: PyTorch's scores of ResNet-101 in f32 and in f64 differ by 3e-4.
            nn.init.uniform_(each.bn3.weight, 0.2, 0.4)
    return change(module) if change else module


def learn_statistics(module, inputs):
    """The statistics of BatchNorm become those of the inputs: else scores may be the same for all images."""
    norms = [each for each in module.modules() if isinstance(each, nn.BatchNorm2d)]
    for each in norms:
        each.momentum = 1
        each.train()
    with torch.no_grad():
        module(inputs)
    for each in norms:
        each.eval()


# The few fields of proto/net.proto that a weights file needs, on the wire.
def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def blob(tensor):
    shape = field(1, b"".join(varint(size) for size in tensor.shape))
    values = tensor.detach().float().contiguous().flatten().numpy().tobytes()
    return field(7, field(7, shape) + field(5, values))


def blobs_of(kind, module):
    if kind == "BatchNorm":
        return [module.running_mean, module.running_var, torch.ones(1)]
    weight = module.weight
    if kind == "InnerProduct" and weight.dim() == 4:
        weight = weight.flatten(1)
    return [weight] + ([] if module.bias is None else [module.bias])


def layers_of(text):
    """(name, type) of each layer with parameters. A Scale of two bottoms has none."""
    for block in re.findall(r"^layer \{.*?(?=^layer \{|\Z)", text, re.M | re.S):
        kind = re.search(r'type: "(\w+)"', block)[1]
        if kind in KINDS and len(re.findall(r'bottom: "', block)) == 1:
            yield re.search(r'name: "([^"]+)"', block)[1], kind


def weights_file(module, layers, order):
    names = [name for name, each in module.named_modules() if isinstance(each, (nn.Conv2d, nn.Linear, nn.BatchNorm2d))]
    # Scale takes the module of the BatchNorm before it.
    needed = [name for name, kind in layers if kind != "Scale"]
    modules = [module.get_submodule(name) for name in order(names, needed)]
    if len(modules) != len(needed):
        sys.exit(f"{len(needed)} layers, but torchvision has {len(modules)} modules")
    data, index = [], -1
    for name, kind in layers:
        index += kind != "Scale"
        if not isinstance(modules[index], KINDS[kind]):
            sys.exit(f"layer {name} is {kind}, but torchvision has {modules[index]} in its place")
        blobs = b"".join(blob(each) for each in blobs_of(kind, modules[index]))
        data.append(field(100, field(1, name.encode()) + field(2, kind.encode()) + blobs))
    return b"".join(data)


def compare(net, program, flags, folder):
    name, order, change = NETS[net]
    torch.manual_seed(1)
    module = build(name, change)
    text = (ROOT / "models" / net / "deploy.prototxt").read_text()
    side = int(re.search(r"dim: 3 dim: (\d+)", text)[1])
    scores = re.search(r'name: "prob"\s+type: "Softmax"\s+bottom: "([^"]+)"', text)[1]

    # Fields of colour, and noise.
    fields = nn.functional.interpolate(torch.rand(2, 3, 8, 8) * 200, size=(side, side), mode="bilinear")
    pixels = (fields + torch.rand(fields.shape) * 55).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    # Data layers give blue, green, red.
    inputs = (pixels.flip(3).permute(0, 3, 1, 2).float() - 128) / 64
    learn_statistics(module, inputs)
    (folder / "weights.caffemodel").write_bytes(weights_file(module, list(layers_of(text)), order))
    for i, image in enumerate(pixels):
        (folder / f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (side, side) + image.numpy().tobytes())
    (folder / "images.txt").write_text("".join(f"{i}.ppm 0\n" for i in range(len(pixels))))
    data = ('layer {\n  name: "data"  type: "Data"  top: "data"\n  transform_param { mean_value: 128  scale: 0.015625 }\n'
            f'  data_param {{ source: "{folder}/images.txt"  root_folder: "{folder}/"  backend: IMAGE_LIST  batch_size: {len(pixels)} }}\n}}\n')
    (folder / "net.prototxt").write_text(re.sub(r'^layer \{[^{]*type: "Input".*?^(?=layer|#|\n)', data, text, 1, re.M | re.S))
    subprocess.run([program, "extract-features", *flags, str(folder / "weights.caffemodel"), str(folder / "net.prototxt"), scores,
                    str(folder / "scores.csv"), "0", "csv", "--overwrite"], check=True, capture_output=True, text=True)
    rows = [line.split(",")[1:] for line in (folder / "scores.csv").read_text().splitlines()[1:]]
    ours = torch.tensor([[float(value) for value in row] for row in rows])

    with torch.no_grad():
        theirs = module(inputs)
        exact = module.double()(inputs.double())
    if ours.shape != exact.shape:
        sys.exit(f"{net}: scores of {tuple(ours.shape)}, but torchvision's are {tuple(exact.shape)}")
    between = (exact[0] - exact[1]).abs().max().item()
    return exact, between, *(((scores - exact).abs().max() / between).item() for scores in (ours, theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="folders of models/; default: all of " + ", ".join(NETS))
    args, flags = parser.parse_known_args()
    unknown = [net for net in args.nets if net not in NETS]
    if unknown:
        parser.error(f"torchvision has no {unknown[0]}; nets: {', '.join(NETS)}")
    program = os.environ.get("CREMA", str(ROOT / "build/release/bin/crema"))
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}; two images, tolerance {TOLERANCE:g}\n")
    print("| net | torchvision | least and largest score | largest difference between the images | error | PyTorch's in f32 |\n"
          "|---|---|---|---|---|---|")
    failed = False
    for net in args.nets or NETS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                scores, between, error, torch_error = compare(net, program, flags, pathlib.Path(folder))
            except subprocess.CalledProcessError as failure:
                sys.exit(f"{net}: {failure.stderr}")
        print(f"| {net} | {NETS[net][0]} | {scores.min():.4g}, {scores.max():.4g} | {between:.4g} | {error:.2g} | {torch_error:.2g} |",
              flush=True)
        failed |= not error <= TOLERANCE
    if failed:
        sys.exit("a net differs")


if __name__ == "__main__":
    main()
