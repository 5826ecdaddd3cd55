#!/usr/bin/env python3
"""Compares nets of models/ with torchvision's: the same random weights, the same images, the scores.

    tests/golden/compare_torchvision.py                     all nets
    tests/golden/compare_torchvision.py resnet18 vgg16      some
    tests/golden/compare_torchvision.py --engine reference  with one engine (flags of `crema extract-features`)

For each net it writes the weights of torchvision's module into a .caffemodel, runs models/NET/deploy.prototxt on
two images of random pixels, and prints the largest difference of a score over the largest score. It fails when one
is above the tolerance. Needs PyTorch and torchvision, and build/release/bin/crema, or what CREMA names.
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
IMAGES = 2
# Layer types with parameters, and how many modules of torchvision one of them and those behind it take.
KINDS = {"Convolution": nn.Conv2d, "InnerProduct": (nn.Linear, nn.Conv2d), "BatchNorm": nn.BatchNorm2d, "Scale": nn.BatchNorm2d}


def first_version(module):
    """ResNet-50 and -101 of the paper: the stride is in the first convolution of a block, the pooling rounds up."""
    for block in module.modules():
        if isinstance(block, torchvision.models.resnet.Bottleneck):
            block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
    module.maxpool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return module


def shortcuts_first(names):
    """Modules of a residual net in the order of models/: the shortcut's before the rest of its block."""
    place = {name: i for i, name in enumerate(names)}
    return sorted(names, key=lambda name: place[name] if ".downsample." not in name else
                  place[name.split(".downsample.")[0] + ".conv1"] - 0.5 + 0.1 * int(name[-1]))


def inception_order(names, layers):
    """Modules in the order of the layers of models/inception_v3, whose names are much the same."""
    def layer(name):
        name = re.sub(r"^Conv2d_(\w\w)_\dx\d", r"stem/conv\1", name)
        name = re.sub(r"^Mixed_(\w\w)\.(branch_pool)?(?:branch)?", r"mixed\1/\2", name)
        return name.replace(".conv", "").replace(".bn", "/bn")

    return sorted((name for name in names if not name.startswith("AuxLogits")), key=lambda name: layers.index(layer(name)))


def unchanged(names, layers):
    return names


def residual(names, layers):
    return shortcuts_first(names)


# Folder in models/: torchvision's name, order of its modules, what else to do with it.
NETS = {
    "alexnet": ("alexnet", unchanged, None),
    "vgg_a": ("vgg11", unchanged, None),
    "vgg16": ("vgg16", unchanged, None),
    "vgg19": ("vgg19", unchanged, None),
    "resnet18": ("resnet18", residual, None),
    "resnet50": ("resnet50", residual, first_version),
    "resnet101": ("resnet101", residual, first_version),
    "resnext50": ("resnext50_32x4d", residual, None),
    "densenet121": ("densenet121", unchanged, None),
    "squeezenet_v1.1": ("squeezenet1_1", unchanged, None),
    "mobilenet_v2": ("mobilenet_v2", unchanged, None),
    "mobilenet_v3_large": ("mobilenet_v3_large", unchanged, None),
    "shufflenet_v2": ("shufflenet_v2_x1_0", unchanged, None),
    "efficientnet_b0": ("efficientnet_b0", unchanged, None),
    "inception_v3": ("inception_v3", inception_order, None),
}


def build(name):
    """The module with random weights and statistics."""
    settings = {"aux_logits": True, "init_weights": False} if name == "inception_v3" else {}
    module = getattr(torchvision.models, name)(weights=None, **settings).eval()
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            nn.init.uniform_(each.weight, 0.8, 1.2)
            nn.init.normal_(each.bias, 0, 0.1)
            nn.init.normal_(each.running_mean, 0, 0.1)
            nn.init.uniform_(each.running_var, 0.8, 1.2)
    return module


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
    # Scale takes the module of BatchNorm before it.
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
    module = build(name)
    module = change(module) if change else module
    text = (ROOT / "models" / net / "deploy.prototxt").read_text()
    side = int(re.search(r"dim: 3 dim: (\d+)", text)[1])
    scores = re.search(r'name: "prob"\s+type: "Softmax"\s+bottom: "([^"]+)"', text)[1]
    (folder / "weights.caffemodel").write_bytes(weights_file(module, list(layers_of(text)), order))

    pixels = torch.randint(0, 256, (IMAGES, side, side, 3), dtype=torch.uint8)
    for i, image in enumerate(pixels):
        (folder / f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (side, side) + image.numpy().tobytes())
    (folder / "images.txt").write_text("".join(f"{i}.ppm 0\n" for i in range(IMAGES)))
    data = ('layer {\n  name: "data"  type: "Data"  top: "data"\n  transform_param { mean_value: 128  scale: 0.015625 }\n'
            f'  data_param {{ source: "{folder}/images.txt"  root_folder: "{folder}/"  backend: IMAGE_LIST  batch_size: {IMAGES} }}\n}}\n')
    (folder / "net.prototxt").write_text(re.sub(r'^layer \{[^{]*type: "Input".*?^(?=layer|#|\n)', data, text, 1, re.M | re.S))
    subprocess.run([program, "extract-features", *flags, str(folder / "weights.caffemodel"), str(folder / "net.prototxt"), scores,
                    str(folder / "scores.csv"), "0", "csv", "--overwrite"], check=True, capture_output=True, text=True)
    rows = [line.split(",")[1:] for line in (folder / "scores.csv").read_text().splitlines()[1:]]
    ours = torch.tensor([[float(value) for value in row] for row in rows])

    # Data layers give blue, green, red.
    inputs = (pixels.flip(3).permute(0, 3, 1, 2).float() - 128) / 64
    with torch.no_grad():
        theirs = module(inputs)
    if ours.shape != theirs.shape:
        sys.exit(f"{net}: scores of {tuple(ours.shape)}, but torchvision's are {tuple(theirs.shape)}")
    return theirs, ((ours - theirs).abs().max() / theirs.abs().max()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="folders of models/; default: all of " + ", ".join(NETS))
    args, flags = parser.parse_known_args()
    unknown = [net for net in args.nets if net not in NETS]
    if unknown:
        parser.error(f"torchvision has no {unknown[0]}; nets: {', '.join(NETS)}")
    program = os.environ.get("CREMA", str(ROOT / "build/release/bin/crema"))
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}; two images, tolerance {TOLERANCE:g}\n")
    print("| net | torchvision | least and largest score | largest difference / largest score |\n|---|---|---|---|")
    failed = False
    for net in args.nets or NETS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                scores, difference = compare(net, program, flags, pathlib.Path(folder))
            except subprocess.CalledProcessError as error:
                sys.exit(f"{net}: {error.stderr}")
        print(f"| {net} | {NETS[net][0]} | {scores.min():.4g}, {scores.max():.4g} | {difference:.2g} |", flush=True)
        failed |= not difference <= TOLERANCE
    if failed:
        sys.exit("a net differs")


if __name__ == "__main__":
    main()
