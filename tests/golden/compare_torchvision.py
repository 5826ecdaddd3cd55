#!/usr/bin/env python3
"""Compares nets of models/ with torchvision's: the same random weights, the same images, the scores.

    tests/golden/compare_torchvision.py                     all nets
    tests/golden/compare_torchvision.py resnet18 vgg16      some
    tests/golden/compare_torchvision.py --engine=reference  with one engine (flags of `crema extract-features`)

For each net scripts/from_torchvision.py turns the weights of torchvision's module into a .caffemodel, with which this runs models/NET/deploy.prototxt on
two random images. The error is the largest difference to a score of torchvision in f64, over the largest difference between
the scores of both images: weights that make the same scores of all images would hide a mistake. It fails when an error is
above the tolerance and above twice that of PyTorch in f32, in the last column: deep nets with weights of no training enlarge rounding. Needs PyTorch and torchvision, and build/release/bin/crema, or what CREMA names.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import torchvision
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from from_torchvision import NETS, NORMALIZATIONS, deploy_of, layers_of, normalization, weights_file  # noqa: E402  (the path comes first)

TOLERANCE = 1e-4


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


# What makes a module of torchvision the net of models/.
CHANGES = {"resnet50": first_version, "resnet101": first_version, "mobilenet_v2": plain_relu}


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


def compare(net, program, flags, folder):
    name, order, _ = NETS[net]
    mean, deviation = NORMALIZATIONS[normalization(net)]
    torch.manual_seed(1)
    module = build(name, CHANGES.get(net))
    text = deploy_of(net)
    side = int(re.search(r"dim: 3 dim: (\d+)", text)[1])
    scores = re.search(r'name: "prob"\s+type: "Softmax"\s+bottom: "([^"]+)"', text)[1]

    # Fields of colour, and noise.
    fields = nn.functional.interpolate(torch.rand(2, 3, 8, 8) * 200, size=(side, side), mode="bilinear")
    pixels = (fields + torch.rand(fields.shape) * 55).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    inputs = torchvision.transforms.functional.normalize(pixels.permute(0, 3, 1, 2).float() / 255, *NORMALIZATIONS["imagenet"])
    if net == "inception_v3":
        module.transform_input = True  # as in the published net
    learn_statistics(module, inputs)
    (folder / "weights.caffemodel").write_bytes(weights_file(module, list(layers_of(text)), order, deviation))
    for i, image in enumerate(pixels):
        (folder / f"{i}.ppm").write_bytes(b"P6 %d %d 255\n" % (side, side) + image.numpy().tobytes())
    (folder / "images.txt").write_text("".join(f"{i}.ppm 0\n" for i in range(len(pixels))))
    means = "  ".join(f"mean_value: {255 * value:.9g}" for value in mean[::-1])
    data = ('layer {\n  name: "data"  type: "Data"  top: "data"\n'
            f'  transform_param {{ {means} }}\n'
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
        failed |= not error <= max(TOLERANCE, 2 * torch_error)
    if failed:
        sys.exit("a net differs")


if __name__ == "__main__":
    main()
