#!/usr/bin/env python3
"""Writes the weights of a net of torchvision as a .caffemodel for the net of models/ with the same structure.

    scripts/from_torchvision.py resnet18 resnet18.caffemodel                        its published weights (downloaded by torchvision)
    scripts/from_torchvision.py resnet18 resnet18.caffemodel --weights mine.pth     a state_dict of your own
    ... --normalization halves                                                      whose images had a mean and a deviation of 0.5

    crema classify --model models/resnet18/deploy.prototxt --weights resnet18.caffemodel --mean 103.53,116.28,123.675 --resize 256x256 cat.jpg

The means and deviations of torchvision's images and its order of channels (red, green, blue) become part of the first convolution: the net then takes
blue, green and red from 0 to 255 less the mean, which the program prints. Needs PyTorch and torchvision.
"""

import argparse
import pathlib
import re
import sys
import urllib.error

try:
    import torch
    import torchvision
    from torch import nn
    missing = None
except ImportError as error:  # main says so, behind --help and wrong arguments
    missing = error

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Layer types with parameters, and the modules that they are in PyTorch.
KINDS = {} if missing else {
    "Convolution": nn.Conv2d, "InnerProduct": (nn.Linear, nn.Conv2d), "BatchNorm": nn.BatchNorm2d, "Scale": nn.BatchNorm2d}


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


# Folder in models/: torchvision's name, order of its modules, why its published weights do not fit.
VERSION = "its bottlenecks have the stride of version 1, in their first convolution, and torchvision's have it in the second"
NETS = {
    "alexnet": ("alexnet", in_order, None),
    "vgg_a": ("vgg11", in_order, None),
    "vgg16": ("vgg16", in_order, None),
    "vgg19": ("vgg19", in_order, None),
    "resnet18": ("resnet18", shortcuts_first, None),
    "resnet50": ("resnet50", shortcuts_first, VERSION),
    "resnet101": ("resnet101", shortcuts_first, VERSION),
    "resnext50": ("resnext50_32x4d", shortcuts_first, None),
    "densenet121": ("densenet121", in_order, None),
    "squeezenet_v1.1": ("squeezenet1_1", in_order, None),
    "mobilenet_v2": ("mobilenet_v2", in_order, "it has ReLU, and torchvision's has ReLU6"),
    "mobilenet_v3_large": ("mobilenet_v3_large", in_order, None),
    "shufflenet_v2": ("shufflenet_v2_x1_0", in_order, None),
    "efficientnet_b0": ("efficientnet_b0", in_order, None),
    "inception_v3": ("inception_v3", by_name, None),
}
# Mean and deviation of red, green and blue from 0 to 1.
NORMALIZATIONS = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "halves": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))}


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


def for_bytes(weight, deviation):
    """The first convolution for blue, green and red from 0 to 255 less the mean, in place of red, green and blue over their deviations."""
    return weight.flip(1) / (255 * torch.tensor(deviation[::-1], dtype=weight.dtype).view(1, 3, 1, 1))


def weights_file(module, layers, order, deviation):
    """A NetParameter on the wire: the layers, a list of (name, type), with the parameters of the module."""
    names = [name for name, each in module.named_modules() if isinstance(each, (nn.Conv2d, nn.Linear, nn.BatchNorm2d))]
    # Scale takes the module of the BatchNorm before it.
    needed = [name for name, kind in layers if kind != "Scale"]
    modules = [module.get_submodule(name) for name in order(names, needed)]
    if len(modules) != len(needed):
        raise ValueError(f"{len(needed)} layers, but torchvision has {len(modules)} modules")
    data, index = [], -1
    for name, kind in layers:
        index += kind != "Scale"
        if not isinstance(modules[index], KINDS[kind]):
            raise ValueError(f"layer {name} is {kind}, but torchvision has {modules[index]} in its place")
        values = blobs_of(kind, modules[index])
        if not data:
            values[0] = for_bytes(values[0], deviation)
        blobs = b"".join(blob(each) for each in values)
        data.append(field(100, field(1, name.encode()) + field(2, kind.encode()) + blobs))
    return b"".join(data)


def deploy_of(net):
    return (ROOT / "models" / net / "deploy.prototxt").read_text()


def without_auxiliary(state):
    """The auxiliary classifier of Inception v3 is for training only, and not every state_dict has it."""
    return {key: value for key, value in state.items() if not key.startswith("AuxLogits.")}


def check_state(state, wanted, message):
    for key, value in wanted.items():
        if key not in state:
            raise ValueError(f"{message}it has no {key}")
        if not isinstance(state[key], torch.Tensor):
            raise ValueError(f"{message}{key} is no tensor, but {type(state[key]).__name__}")
        if state[key].shape != value.shape:
            raise ValueError(f"{message}{key} is {tuple(state[key].shape)}, not {tuple(value.shape)}")
        if not torch.isfinite(state[key].float()).all():
            raise ValueError(f"{message}{key} has values that are not finite")
    if unknown := next((key for key in state if key not in wanted), None):
        raise ValueError(f"{message}there is no {unknown}")


def read_state(weights):
    """The tensors of a file of torch.save by their names."""
    try:
        state = torch.load(weights, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch.load has many kinds of them
        raise ValueError(f"{weights} is no state_dict, written by torch.save; of a whole module, save module.state_dict()") from error
    for key in "state_dict", "model":  # checkpoints hold more than the weights
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise ValueError(f"{weights} is no state_dict, but {type(state).__name__}; save module.state_dict()")
    return {re.sub(r"^module\.", "", key): value for key, value in state.items()}  # as DistributedDataParallel names them


def read_module(net, weights):
    name, _, _ = NETS[net]
    if weights is None:
        try:
            return torchvision.models.get_model(name, weights="IMAGENET1K_V1")
        except urllib.error.URLError as error:
            url = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"].url
            raise OSError(f"cannot download the published weights ({error.reason}): get {url} on a machine with a network, and name the file with "
                          "--weights") from error
    settings = {"aux_logits": True, "init_weights": False} if net == "inception_v3" else {}
    module = torchvision.models.get_model(name, weights=None, **settings)
    state = without_auxiliary(read_state(weights))
    check_state(state, without_auxiliary(module.state_dict()), f"{weights} does not fit torchvision's {name}: ")
    module.load_state_dict(state, strict=False)  # all but the auxiliary classifier is there
    return module


def normalization(net):
    """The images that the published net takes. Inception v3 gets those of "imagenet" and turns them into "halves" (transform_input)."""
    return "halves" if net == "inception_v3" else "imagenet"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", metavar="NET", choices=NETS,
                        help="a folder of models/: " + ", ".join(net for net, (_, _, misfit) in NETS.items() if not misfit))
    parser.add_argument("output", metavar="OUT.caffemodel")
    parser.add_argument("--weights", metavar="FILE.pth", help="a state_dict of torchvision's net; default: its weights IMAGENET1K_V1")
    parser.add_argument("--normalization", choices=NORMALIZATIONS,
                        help="of the images that the net was trained with; default: as published, halves for inception_v3 and imagenet for the others")
    args = parser.parse_args()
    _, order, misfit = NETS[args.net]
    if misfit:
        parser.error(f"torchvision's weights do not fit models/{args.net}: {misfit}")
    if pathlib.Path(args.output).exists():
        parser.error(f"{args.output} exists; name another file")
    if not pathlib.Path(args.output).parent.is_dir():
        parser.error(f"there is no folder {pathlib.Path(args.output).parent}")
    if args.normalization and not args.weights:
        parser.error(f"--normalization={args.normalization} is for --weights; that of the published weights is known")
    if missing:
        sys.exit(f"from_torchvision: needs PyTorch and torchvision ({missing}): install them with `pip install torch torchvision`, or name a Python "
                 "that has them: PYTHON scripts/from_torchvision.py ...")
    images = args.normalization or normalization(args.net)
    mean, deviation = NORMALIZATIONS[images]
    try:
        module = read_module(args.net, args.weights)
        data = weights_file(module, list(layers_of(deploy_of(args.net))), order, deviation)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"from_torchvision: {error}")
    part = pathlib.Path(args.output + ".part")
    part.write_bytes(data)
    part.rename(args.output)
    means = ",".join(f"{255 * value:.6g}" for value in mean[::-1])
    side = re.search(r"dim: 3 dim: (\d+)", deploy_of(args.net))[1]
    print(f"{args.output}: for models/{args.net}/deploy.prototxt, with --mean {means} and images of {side}x{side} (normalization: {images})")


if __name__ == "__main__":
    main()
