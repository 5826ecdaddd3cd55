#!/usr/bin/env python3
"""Writes train_val.prototxt and deploy.prototxt of the nets of models/ that are too long to write by hand.

    scripts/make_nets.py             writes all of them
    scripts/make_nets.py --check     lists the files that differ from what it would write, and fails if there are any

The prototxt files are what the nets are: this script only saves typing. It needs Python 3.8 and nothing else.
"""

import argparse
import functools
import pathlib
import sys

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
SETTINGS = {"Convolution": "convolution_param", "Deconvolution": "convolution_param",
            "InnerProduct": "inner_product_param"}


def dims(*sizes):
    return "shape { " + " ".join(f"dim: {size}" for size in sizes) + " }"


class Net:
    """The text of one prototxt. A method that appends layers returns the name of the last top."""

    def __init__(self, train, bias_lr=2):
        self.train = train      # with fillers, learning rates and a loss; else for inference
        self.bias_lr = bias_lr  # learning rate of biases, as a factor; None: as weights, and they decay
        self.text = []

    def part(self, name):
        self.text.append(f"\n# {name}")

    def layer(self, kind, name, bottoms, *settings, top=None):
        """`bottoms`: a name or a list of names. `top`: a name, by default the layer's, or a list."""
        lists = {"bottom": bottoms, "top": name if top is None else top}
        words = [f'name: "{name}"', f'type: "{kind}"']
        for key, names in lists.items():
            words += [f'{key}: "{each}"' for each in ([names] if isinstance(names, str) else names)]
        line = "layer { " + "  ".join(words + list(settings)) + " }"
        if len(line) > 120 or "\n" in line:
            line = "\n  ".join(["layer {", "  ".join(words), *settings]) + "\n}"
        self.text.append(line)
        return lists["top"]

    def inputs(self, **shapes):
        """Input layers; values are zeros until a program sets them."""
        if not self.train:
            for name, shape in shapes.items():
                self.layer("Input", name, [], f"input_param {{ {dims(*shape)} }}")
            return
        lines = "\n    ".join(dims(*shape) for shape in shapes.values())
        self.layer("Input", "data", [], f"input_param {{\n    {lines}\n  }}", top=list(shapes))

    def weights(self, kind, name, bottom, settings, bias=True, filler='type: "msra"', bias_value=0, lr=1, top=None):
        """`filler`: None for zeros. `lr`: factor of the learning rate; 0 for weights that stay as they are."""
        learning = []
        if not bias:
            settings += "  bias_term: false"
        if self.train:
            if filler:
                settings += f"  weight_filler {{ {filler} }}"
            if bias_value:
                settings += f'  bias_filler {{ type: "constant" value: {bias_value} }}'
            if (bias and self.bias_lr is not None) or lr != 1:
                learning = [self.learning(lr, self.bias_lr * lr if bias else None)]
        return self.layer(kind, name, bottom, *learning, f"{SETTINGS[kind]} {{ {settings} }}", top=top)

    @staticmethod
    def learning(lr, bias_lr=None, decay=1):
        words = [f"param {{ lr_mult: {lr:g}" + (f" decay_mult: {decay}" if lr else "") + " }"]
        if bias_lr is not None:
            words.append(f"param {{ lr_mult: {bias_lr:g}" + (" decay_mult: 0" if bias_lr else "") + " }")
        return "  ".join(words)

    def conv(self, name, bottom, outputs, kernel, stride=1, pad=0, group=1, dilation=1, **weights):
        """A kernel (height, width) is padded by its half, so that it keeps the size."""
        settings = f"num_output: {outputs}"
        if isinstance(kernel, tuple):
            settings += "".join(f"  {key}_{side}: {size}" for key, scale in (("kernel", 1), ("pad", 2))
                                for side, size in zip("hw", (k // scale for k in kernel)))
        else:
            settings += f"  kernel_size: {kernel}" + (f"  pad: {pad}" if pad else "")
        settings += f"  stride: {stride}" if stride > 1 else ""
        settings += f"  dilation: {dilation}" if dilation > 1 else ""
        settings += f"  group: {group}" if group > 1 else ""
        return self.weights("Convolution", name, bottom, settings, **weights)

    def activation(self, kind, name, blob):
        return self.layer(kind, name, blob, top=blob)

    def relu(self, name, blob):
        return self.activation("ReLU", name, blob)

    def conv_relu(self, name, bottom, *geometry, relu, **weights):
        return self.relu(relu, self.conv(name, bottom, *geometry, **weights))

    def norm(self, names, bottom, top, settings="", learning=None):
        """BatchNorm and Scale; and ReLU, where there is a third name. `learning`: `param` of Scale."""
        param = [f"batch_norm_param {{ {settings} }}"] if settings else []
        self.layer("BatchNorm", names[0], bottom, *param, top=top)
        learning = [learning] if learning and self.train else []
        self.layer("Scale", names[1], top, *learning, "scale_param { bias_term: true }", top=top)
        return self.relu(names[2], top) if len(names) > 2 else top

    def conv_norm(self, name, bottom, *geometry, group=1, settings="", activation="ReLU"):
        """`settings`: those of BatchNorm. `activation`: a type, or None."""
        top = self.conv(name, bottom, *geometry, group=group, bias=False)
        self.norm([f"{name}/bn", f"{name}/scale"], top, top, settings)
        return self.activation(activation, f"{name}/{activation.lower()}", top) if activation else top

    def pool(self, name, bottom, settings):
        return self.layer("Pooling", name, bottom, f"pooling_param {{ {settings} }}")

    def mean(self, name, bottom):
        return self.pool(name, bottom, "pool: AVE  global_pooling: true")

    def drop(self, name, blob, ratio):
        return self.layer("Dropout", name, blob, f"dropout_param {{ dropout_ratio: {ratio} }}", top=blob)

    def inner_product(self, name, bottom, outputs, settings="", **weights):
        return self.weights("InnerProduct", name, bottom, f"num_output: {outputs}" + settings, **weights)

    def ending(self, scores):
        if self.train:
            self.layer("Accuracy", "accuracy", [scores, "label"], "include { phase: TEST }")
            self.layer("SoftmaxWithLoss", "loss", [scores, "label"])
        else:
            self.layer("Softmax", "prob", scores)


FLOOR = "pool: MAX  kernel_size: 3  pad: 1  stride: 2  round_mode: FLOOR"
MAX_3_2 = "pool: MAX  kernel_size: 3  stride: 2"
MAX_2_2 = "pool: MAX  kernel_size: 2  stride: 2"


def resnet_unit(net, name, bottom, outputs, kernel, stride, pad, relu, group=1):
    top = net.conv(name, bottom, outputs, kernel, stride, pad, group, bias=False)
    rest = name[len("res"):] if name.startswith("res") else "_" + name
    return net.norm([f"bn{rest}", f"scale{rest}"] + ([f"{name}_relu"] if relu else []), top, top)


def resnet18(net):
    unit = functools.partial(resnet_unit, net)
    blob = unit("conv1", "data", 64, 7, 2, 3, relu=True)
    blob = net.pool("pool1", blob, FLOOR)
    for stage, outputs in zip((2, 3, 4, 5), (64, 128, 256, 512)):
        for block in "ab":
            name = f"res{stage}{block}"
            net.part(name)
            stride = 2 if stage > 2 and block == "a" else 1
            shortcut = unit(f"{name}_branch1", blob, outputs, 1, 2, 0, relu=False) if stride > 1 else blob
            blob = unit(f"{name}_branch2a", blob, outputs, 3, stride, 1, relu=True)
            blob = unit(f"{name}_branch2b", blob, outputs, 3, 1, 1, relu=False)
            blob = net.relu(f"{name}_relu", net.layer("Eltwise", name, [shortcut, blob]))
    net.part("scores")
    net.ending(net.inner_product("fc1000", net.mean("pool5", blob), 1000))


def resnet101(net):
    unit = functools.partial(resnet_unit, net)
    blob = net.pool("pool1", unit("conv1", "data", 64, 7, 2, 3, relu=True), MAX_3_2)
    for stage, outputs, blocks in ((2, 64, "abc"), (3, 128, ["a", "b1", "b2", "b3"]),
                                   (4, 256, ["a"] + [f"b{i}" for i in range(1, 23)]), (5, 512, "abc")):
        for block in blocks:
            name = f"res{stage}{block}"
            net.part(name)
            stride = 2 if stage > 2 and block == "a" else 1
            shortcut = unit(f"{name}_branch1", blob, 4 * outputs, 1, stride, 0, relu=False) if block == "a" else blob
            blob = unit(f"{name}_branch2a", blob, outputs, 1, stride, 0, relu=True)
            blob = unit(f"{name}_branch2b", blob, outputs, 3, 1, 1, relu=True)
            blob = unit(f"{name}_branch2c", blob, 4 * outputs, 1, 1, 0, relu=False)
            blob = net.relu(f"{name}_relu", net.layer("Eltwise", name, [shortcut, blob]))
    net.part("scores")
    net.ending(net.inner_product("fc1000", net.mean("pool5", blob), 1000))


def resnext50(net):
    unit = functools.partial(resnet_unit, net)
    blob = net.pool("pool1", unit("conv1", "data", 64, 7, 2, 3, relu=True), FLOOR)
    for stage, width, blocks in ((2, 128, "abc"), (3, 256, "abcd"), (4, 512, "abcdef"), (5, 1024, "abc")):
        for block in blocks:
            name = f"res{stage}{block}"
            net.part(name)
            stride = 2 if stage > 2 and block == "a" else 1
            shortcut = unit(f"{name}_branch1", blob, 2 * width, 1, stride, 0, relu=False) if block == "a" else blob
            blob = unit(f"{name}_branch2a", blob, width, 1, 1, 0, relu=True)
            blob = unit(f"{name}_branch2b", blob, width, 3, stride, 1, relu=True, group=32)
            blob = unit(f"{name}_branch2c", blob, 2 * width, 1, 1, 0, relu=False)
            blob = net.relu(f"{name}_relu", net.layer("Eltwise", name, [shortcut, blob]))
    net.part("scores")
    net.ending(net.inner_product("fc1000", net.mean("pool5", blob), 1000))


def densenet121(net):
    growth, channels = 32, 64

    def norm_relu(name, relu, bottom):
        return net.norm([f"{name}/bn", f"{name}/scale", relu], bottom, f"{name}/bn")

    blob = norm_relu("conv1", "relu1", net.conv("conv1", "data", channels, 7, 2, 3, bias=False))
    blob = net.pool("pool1", blob, FLOOR)
    for stage, layers in zip((2, 3, 4, 5), (6, 12, 24, 16)):
        for number in range(1, layers + 1):
            at, name = f"{stage}_{number}", f"conv{stage}_{number}"
            net.part(name)
            new = norm_relu(f"{name}/x1", f"relu{at}/x1", blob)
            new = net.conv(f"{name}/x1", new, 4 * growth, 1, bias=False)
            new = norm_relu(f"{name}/x2", f"relu{at}/x2", new)
            new = net.conv(f"{name}/x2", new, growth, 3, 1, 1, bias=False)
            blob = net.layer("Concat", f"concat_{at}", [blob, new])
            channels += growth
        net.part(f"conv{stage}_blk")
        blob = norm_relu(f"conv{stage}_blk", f"relu{stage}_blk", blob)
        if stage < 5:
            channels //= 2
            blob = net.conv(f"conv{stage}_blk", blob, channels, 1, bias=False)
            blob = net.pool(f"pool{stage}", blob, "pool: AVE  kernel_size: 2  stride: 2")
    net.ending(net.inner_product("fc6", net.mean("pool5", blob), 1000))


def squeezenet(net):
    xavier = 'type: "xavier"'
    blob = net.conv_relu("conv1", "data", 64, 3, 2, relu="relu_conv1", filler=xavier)
    blob = net.pool("pool1", blob, MAX_3_2)
    for number, squeeze, expand in ((2, 16, 64), (3, 16, 64), (4, 32, 128), (5, 32, 128),
                                    (6, 48, 192), (7, 48, 192), (8, 64, 256), (9, 64, 256)):
        name = f"fire{number}"
        net.part(name)

        def unit(part, bottom, *geometry):
            return net.conv_relu(f"{name}/{part}", bottom, *geometry, relu=f"{name}/relu_{part}", filler=xavier)

        squeezed = unit("squeeze1x1", blob, squeeze, 1)
        expanded = [unit("expand1x1", squeezed, expand, 1), unit("expand3x3", squeezed, expand, 3, 1, 1)]
        blob = net.layer("Concat", f"{name}/concat", expanded)
        if number in (3, 5):
            blob = net.pool(f"pool{number}", blob, MAX_3_2)
    net.part("scores")
    blob = net.drop("drop9", blob, 0.5)
    blob = net.conv_relu("conv10", blob, 1000, 1, relu="relu_conv10", filler='type: "gaussian" std: 0.01')
    net.ending(net.mean("pool10", blob))


def bvlc_googlenet(net):
    xavier = 'type: "xavier"'

    def unit(name, relu, bottom, *geometry):
        return net.conv_relu(name, bottom, *geometry, relu=relu, filler=xavier, bias_value=0.2)

    def scores(name, bottom):
        return net.inner_product(f"{name}/classifier", bottom, 1000, filler=xavier)

    def normalize(name, bottom):
        return net.layer("LRN", name, bottom, "lrn_param { local_size: 5  alpha: 0.0001  beta: 0.75 }")

    def losses(name, blob, weight):
        net.layer("SoftmaxWithLoss", f"{name}/loss" if weight < 1 else f"{name}/{name}", [blob, "label"],
                  f"loss_weight: {weight}", top=f"{name}/{name}")
        for count, setting in ((1, []), (5, ["accuracy_param { top_k: 5 }"])):
            net.layer("Accuracy", f"{name}/top-{count}", [blob, "label"], "include { phase: TEST }", *setting)

    def side_head(name, bottom):
        if not net.train:
            return
        net.part(f"{name}, a side head")
        blob = net.pool(f"{name}/ave_pool", bottom, "pool: AVE  kernel_size: 5  stride: 3")
        blob = unit(f"{name}/conv", f"{name}/relu_conv", blob, 128, 1)
        blob = net.inner_product(f"{name}/fc", blob, 1024, filler=xavier, bias_value=0.2)
        blob = net.drop(f"{name}/drop_fc", net.relu(f"{name}/relu_fc", blob), 0.7)
        losses(name, scores(name, blob), 0.3)

    blob = unit("conv1/7x7_s2", "conv1/relu_7x7", "data", 64, 7, 2, 3)
    blob = normalize("pool1/norm1", net.pool("pool1/3x3_s2", blob, MAX_3_2))
    blob = unit("conv2/3x3_reduce", "conv2/relu_3x3_reduce", blob, 64, 1)
    blob = unit("conv2/3x3", "conv2/relu_3x3", blob, 192, 3, 1, 1)
    blob = net.pool("pool2/3x3_s2", normalize("conv2/norm2", blob), MAX_3_2)
    for name, one, reduce3, three, reduce5, five, pooled in (
            ("3a", 64, 96, 128, 16, 32, 32), ("3b", 128, 128, 192, 32, 96, 64), ("4a", 192, 96, 208, 16, 48, 64),
            ("4b", 160, 112, 224, 24, 64, 64), ("4c", 128, 128, 256, 24, 64, 64), ("4d", 112, 144, 288, 32, 64, 64),
            ("4e", 256, 160, 320, 32, 128, 128), ("5a", 256, 160, 320, 32, 128, 128),
            ("5b", 384, 192, 384, 48, 128, 128)):
        module = f"inception_{name}"
        net.part(module)

        def part(which, bottom, *geometry):
            return unit(f"{module}/{which}", f"{module}/relu_{which}", bottom, *geometry)

        parts = [part("1x1", blob, one, 1),
                 part("3x3", part("3x3_reduce", blob, reduce3, 1), three, 3, 1, 1),
                 part("5x5", part("5x5_reduce", blob, reduce5, 1), five, 5, 1, 2),
                 part("pool_proj", net.pool(f"{module}/pool", blob, "pool: MAX  kernel_size: 3  pad: 1  stride: 1"),
                      pooled, 1)]
        blob = net.layer("Concat", f"{module}/output", parts)
        if name in ("3b", "4e"):
            blob = net.pool(f"pool{name[0]}/3x3_s2", blob, MAX_3_2)
        elif name in ("4a", "4d"):
            side_head("loss1" if name == "4a" else "loss2", blob)
    net.part("scores")
    blob = net.pool("pool5/7x7_s1", blob, "pool: AVE  kernel_size: 7  stride: 1")
    blob = scores("loss3", net.drop("pool5/drop_7x7_s1", blob, 0.4))
    if net.train:
        losses("loss3", blob, 1)
    else:
        net.layer("Softmax", "prob", blob)


def inception_v3(net):
    def unit(name, bottom, *geometry):
        return net.conv_norm(name, bottom, *geometry, settings="eps: 0.001")

    def chain(name, bottom, *units):
        """Units (name, outputs, kernel[, stride[, pad]]) one behind the other."""
        for part, *geometry in units:
            bottom = unit(f"{name}/{part}", bottom, *geometry)
        return bottom

    def average(name, bottom, outputs):
        pooled = net.pool(f"{name}/pool", bottom, "pool: AVE  kernel_size: 3  pad: 1  stride: 1")
        return unit(f"{name}/branch_pool", pooled, outputs, 1)

    def module(name, *branches):
        return net.layer("Concat", name, list(branches))

    blob = chain("stem", "data", ("conv1a", 32, 3, 2), ("conv2a", 32, 3), ("conv2b", 64, 3, 1, 1))
    blob = net.pool("stem/pool1", blob, MAX_3_2)
    blob = chain("stem", blob, ("conv3b", 80, 1), ("conv4a", 192, 3))
    blob = net.pool("stem/pool2", blob, MAX_3_2)
    for name, pooled in (("mixed5b", 32), ("mixed5c", 64), ("mixed5d", 64)):
        net.part(f"{name}, 35x35")
        blob = module(
            name, unit(f"{name}/1x1", blob, 64, 1),
            chain(name, blob, ("5x5_1", 48, 1), ("5x5_2", 64, 5, 1, 2)),
            chain(name, blob, ("3x3dbl_1", 64, 1), ("3x3dbl_2", 96, 3, 1, 1), ("3x3dbl_3", 96, 3, 1, 1)),
            average(name, blob, pooled))
    net.part("mixed6a, to 17x17")
    blob = module(
        "mixed6a", unit("mixed6a/3x3", blob, 384, 3, 2),
        chain("mixed6a", blob, ("3x3dbl_1", 64, 1), ("3x3dbl_2", 96, 3, 1, 1), ("3x3dbl_3", 96, 3, 2)),
        net.pool("mixed6a/pool", blob, MAX_3_2))
    row, column = (1, 7), (7, 1)
    for name, width in (("mixed6b", 128), ("mixed6c", 160), ("mixed6d", 160), ("mixed6e", 192)):
        net.part(f"{name}, 17x17")
        blob = module(
            name, unit(f"{name}/1x1", blob, 192, 1),
            chain(name, blob, ("7x7_1", width, 1), ("7x7_2", width, row), ("7x7_3", 192, column)),
            chain(name, blob, ("7x7dbl_1", width, 1), ("7x7dbl_2", width, column), ("7x7dbl_3", width, row),
                  ("7x7dbl_4", width, column), ("7x7dbl_5", 192, row)),
            average(name, blob, 192))
    net.part("mixed7a, to 8x8")
    blob = module(
        "mixed7a", chain("mixed7a", blob, ("3x3_1", 192, 1), ("3x3_2", 320, 3, 2)),
        chain("mixed7a", blob, ("7x7x3_1", 192, 1), ("7x7x3_2", 192, row), ("7x7x3_3", 192, column),
              ("7x7x3_4", 192, 3, 2)),
        net.pool("mixed7a/pool", blob, MAX_3_2))
    row, column = (1, 3), (3, 1)
    for name in ("mixed7b", "mixed7c"):
        net.part(f"{name}, 8x8")
        once = unit(f"{name}/3x3_1", blob, 384, 1)
        twice = chain(name, blob, ("3x3dbl_1", 448, 1), ("3x3dbl_2", 384, 3, 1, 1))
        blob = module(
            name, unit(f"{name}/1x1", blob, 320, 1),
            unit(f"{name}/3x3_2a", once, 384, row), unit(f"{name}/3x3_2b", once, 384, column),
            unit(f"{name}/3x3dbl_3a", twice, 384, row), unit(f"{name}/3x3dbl_3b", twice, 384, column),
            average(name, blob, 192))
    net.part("scores")
    net.ending(net.inner_product("fc", net.drop("drop", net.mean("pool", blob), 0.5), 1000))


def unet(net):
    def two(stage, blob, outputs):
        for number in (1, 2):
            blob = net.conv_norm(f"conv{stage}_{number}", blob, outputs, 3, 1, 1)
        return blob

    blob, skips = "data", []
    for stage, outputs in enumerate((64, 128, 256, 512), 1):
        net.part(f"down, 1/{2 ** (stage - 1)} of the size")
        skips.append(two(stage, blob, outputs))
        blob = net.pool(f"pool{stage}", skips[-1], MAX_2_2)
    net.part("bottom, 1/16 of the size")
    blob = two(5, blob, 1024)
    for stage, outputs in enumerate((512, 256, 128, 64), 6):
        net.part(f"up, 1/{2 ** (9 - stage)} of the size")
        blob = net.weights("Deconvolution", f"up{stage}", blob, f"num_output: {outputs}  kernel_size: 2  stride: 2")
        blob = two(stage, net.layer("Concat", f"concat{stage}", [skips.pop(), blob]), outputs)
    net.part("scores of each pixel")
    net.ending(net.conv("score", blob, 2, 1))


def overfeat(net):
    blob = net.conv_relu("conv1", "data", 96, 11, 4, relu="relu1")
    blob = net.pool("pool1", blob, MAX_2_2)
    blob = net.conv_relu("conv2", blob, 256, 5, relu="relu2")
    blob = net.pool("pool2", blob, MAX_2_2)
    for number, outputs in ((3, 512), (4, 1024), (5, 1024)):
        blob = net.conv_relu(f"conv{number}", blob, outputs, 3, 1, 1, relu=f"relu{number}")
    blob = net.pool("pool5", blob, MAX_2_2)
    for number, outputs in ((6, 3072), (7, 4096)):
        blob = net.relu(f"relu{number}", net.inner_product(f"fc{number}", blob, outputs))
        blob = net.drop(f"drop{number}", blob, 0.5)
    net.ending(net.inner_product("fc8", blob, 1000))


def vgg(net, *convolutions):
    """`convolutions`: how many each of the five stages has."""
    blob = "data"
    for stage, (count, outputs) in enumerate(zip(convolutions, (64, 128, 256, 512, 512)), 1):
        for number in range(1, count + 1):
            blob = net.conv_relu(f"conv{stage}_{number}", blob, outputs, 3, 1, 1, relu=f"relu{stage}_{number}")
        blob = net.pool(f"pool{stage}", blob, MAX_2_2)
    normal = 'type: "gaussian" std: 0.005'
    for number in (6, 7):
        blob = net.relu(f"relu{number}", net.inner_product(f"fc{number}", blob, 4096, filler=normal))
        blob = net.drop(f"drop{number}", blob, 0.5)
    net.ending(net.inner_product("fc8", blob, 1000, filler='type: "gaussian" std: 0.01'))


def two_towers(net, norm_first, lrn, small_std, lr=1, scores_lr=1):
    """AlexNet with groups. `norm_first`: LRN before pooling. `small_std`: of the weights of fc6 and fc7. Returns the
    scores. `scores_lr`: the learning rate of fc8, `lr` that of the other layers."""
    def unit(number, bottom, *geometry, bias_value, group=1):
        return net.conv_relu(f"conv{number}", bottom, *geometry, relu=f"relu{number}", group=group,
                             filler='type: "gaussian" std: 0.01', bias_value=bias_value, lr=lr)

    def normalize(number, bottom):
        return net.layer("LRN", f"norm{number}", bottom, f"lrn_param {{ {lrn} }}")

    def pool_norm(number, bottom):
        if norm_first:
            return net.pool(f"pool{number}", normalize(number, bottom), MAX_3_2)
        return normalize(number, net.pool(f"pool{number}", bottom, MAX_3_2))

    blob = pool_norm(1, unit(1, "data", 96, 11, 4, bias_value=0))
    blob = pool_norm(2, unit(2, blob, 256, 5, 1, 2, group=2, bias_value=1))
    blob = unit(3, blob, 384, 3, 1, 1, bias_value=0)
    blob = unit(4, blob, 384, 3, 1, 1, group=2, bias_value=1)
    blob = net.pool("pool5", unit(5, blob, 256, 3, 1, 1, group=2, bias_value=1), MAX_3_2)
    for number in (6, 7):
        blob = net.inner_product(f"fc{number}", blob, 4096, filler=f'type: "gaussian" std: {small_std}', bias_value=1,
                                 lr=lr)
        blob = net.drop(f"drop{number}", net.relu(f"relu{number}", blob), 0.5)
    return net.inner_product("fc8", blob, 1000, filler='type: "gaussian" std: 0.01', lr=scores_lr)


def caffenet(net):
    net.ending(two_towers(net, False, "local_size: 5  alpha: 0.0001  beta: 0.75", 0.005))


def alexnet_two_towers(net):
    # The paper adds up alpha * x^2 with alpha = 0.0001; the layer divides alpha by local_size.
    net.ending(two_towers(net, True, "local_size: 5  alpha: 0.0005  beta: 0.75  k: 2", 0.01))


def mobilenet_v1(net):
    def unit(name, relu, bottom, *geometry, group=1):
        top = net.conv(name, bottom, *geometry, group=group, bias=False)
        return net.norm([f"{name}/bn", f"{name}/scale", relu], top, top)

    blob = unit("conv1", "relu1", "data", 32, 3, 2, 1)
    channels = 32
    for name, outputs, stride in (("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2), ("4_1", 256, 1),
                                  ("4_2", 512, 2), ("5_1", 512, 1), ("5_2", 512, 1), ("5_3", 512, 1), ("5_4", 512, 1),
                                  ("5_5", 512, 1), ("5_6", 1024, 2), ("6", 1024, 1)):
        net.part(f"conv{name}")
        blob = unit(f"conv{name}/dw", f"relu{name}/dw", blob, channels, 3, stride, 1, group=channels)
        blob = unit(f"conv{name}/sep", f"relu{name}/sep", blob, outputs, 1)
        channels = outputs
    net.part("scores")
    net.ending(net.inner_product("fc7", net.mean("pool6", blob), 1000))


def inverted_residual(net, name, bottom, inputs, width, outputs, kernel, stride, activation, excite=None, settings=""):
    """The block of MobileNet v3 and EfficientNet. `excite`: number of squeezed channels, their activation, the gate."""
    net.part(name)
    blob = bottom
    if width != inputs:
        blob = net.conv_norm(f"{name}/expand", blob, width, 1, activation=activation, settings=settings)
    blob = net.conv_norm(f"{name}/dwise", blob, width, kernel, stride, kernel // 2, group=width, activation=activation,
                         settings=settings)
    if excite:
        squeezed, inner, gate = excite
        part = net.inner_product(f"{name}/se/fc1", net.mean(f"{name}/se/pool", blob), squeezed)
        part = net.inner_product(f"{name}/se/fc2", net.activation(inner, f"{name}/se/{inner.lower()}", part), width)
        part = net.activation(gate, f"{name}/se/{gate.lower()}", part)
        blob = net.layer("Scale", f"{name}/se", [blob, part], "scale_param { axis: 0 }")
    blob = net.conv_norm(f"{name}/linear", blob, outputs, 1, activation=None, settings=settings)
    return net.layer("Eltwise", name, [bottom, blob]) if stride == 1 and inputs == outputs else blob


def mobilenet_v3_large(net):
    settings = "eps: 0.001  moving_average_fraction: 0.99"
    blob = net.conv_norm("conv1", "data", 16, 3, 2, 1, activation="HardSwish", settings=settings)
    inputs = 16
    for number, (kernel, width, outputs, squeezed, hard, stride) in enumerate((
            (3, 16, 16, 0, False, 1), (3, 64, 24, 0, False, 2), (3, 72, 24, 0, False, 1),
            (5, 72, 40, 24, False, 2), (5, 120, 40, 32, False, 1), (5, 120, 40, 32, False, 1),
            (3, 240, 80, 0, True, 2), (3, 200, 80, 0, True, 1), (3, 184, 80, 0, True, 1), (3, 184, 80, 0, True, 1),
            (3, 480, 112, 120, True, 1), (3, 672, 112, 168, True, 1),
            (5, 672, 160, 168, True, 2), (5, 960, 160, 240, True, 1), (5, 960, 160, 240, True, 1)), 1):
        blob = inverted_residual(net, f"bneck{number}", blob, inputs, width, outputs, kernel, stride,
                                 "HardSwish" if hard else "ReLU",
                                 (squeezed, "ReLU", "HardSigmoid") if squeezed else None, settings)
        inputs = outputs
    net.part("scores")
    blob = net.mean("pool", net.conv_norm("conv2", blob, 960, 1, activation="HardSwish", settings=settings))
    blob = net.activation("HardSwish", "fc1/hardswish", net.inner_product("fc1", blob, 1280))
    net.ending(net.inner_product("fc2", net.drop("drop", blob, 0.2), 1000))


def efficientnet_b0(net):
    blob = net.conv_norm("conv1", "data", 32, 3, 2, 1, activation="Swish")
    inputs = 32
    for stage, (expand, kernel, stride, outputs, blocks) in enumerate((
            (1, 3, 1, 16, "a"), (6, 3, 2, 24, "ab"), (6, 5, 2, 40, "ab"), (6, 3, 2, 80, "abc"),
            (6, 5, 1, 112, "abc"), (6, 5, 2, 192, "abcd"), (6, 3, 1, 320, "a")), 2):
        for block in blocks:
            blob = inverted_residual(net, f"block{stage}{block}", blob, inputs, expand * inputs, outputs, kernel,
                                     stride if block == "a" else 1, "Swish", (inputs // 4, "Swish", "Sigmoid"))
            inputs = outputs
    net.part("scores")
    blob = net.mean("pool", net.conv_norm("conv9", blob, 1280, 1, activation="Swish"))
    net.ending(net.inner_product("fc", net.drop("drop", blob, 0.2), 1000))


CIFAR_NORM = "moving_average_fraction: 0.9"


def resnet20_cifar(net, scores="fc", scores_lr=1):
    unit = functools.partial(net.conv_norm, settings=CIFAR_NORM)
    blob, inputs = unit("conv1", "data", 16, 3, 1, 1), 16
    for stage, outputs in enumerate((16, 32, 64), 2):
        for block in "abc":
            name, stride = f"res{stage}{block}", 1 if outputs == inputs else 2
            net.part(name)
            shortcut = unit(f"{name}/shortcut", blob, outputs, 1, stride, activation=None) if stride > 1 else blob
            blob = unit(f"{name}/conv1", blob, outputs, 3, stride, 1)
            blob = unit(f"{name}/conv2", blob, outputs, 3, 1, 1, activation=None)
            blob = net.relu(f"{name}/relu", net.layer("Eltwise", name, [shortcut, blob]))
            inputs = outputs
    net.part("scores")
    net.ending(net.inner_product(scores, net.mean("pool", blob), 10, lr=scores_lr))


def mobilenet_v2_cifar(net):
    unit = functools.partial(net.conv_norm, settings=CIFAR_NORM)
    blob, inputs = unit("conv1", "data", 16, 3, 1, 1), 16
    for stage, (expand, outputs, blocks, stride) in enumerate((
            (1, 8, "a", 1), (6, 16, "ab", 2), (6, 16, "abc", 1), (6, 32, "abcd", 2), (6, 48, "abc", 1),
            (6, 80, "abc", 2), (6, 160, "a", 1)), 2):
        for block in blocks:
            blob = inverted_residual(net, f"block{stage}{block}", blob, inputs, expand * inputs, outputs, 3,
                                     stride if block == "a" else 1, "ReLU", settings=CIFAR_NORM)
            inputs = outputs
    net.part("scores")
    net.ending(net.inner_product("fc", net.mean("pool", unit("conv9", blob, 640, 1)), 10))


def shufflenet_v2(net):
    def pointwise(name, bottom, outputs):
        return net.conv_norm(name, bottom, outputs, 1)

    def depthwise(name, bottom, channels, stride):
        return net.conv_norm(name, bottom, channels, 3, stride, 1, group=channels, activation=None)

    blob = net.pool("pool1", net.conv_norm("conv1", "data", 24, 3, 2, 1), FLOOR)
    inputs = 24
    for stage, (half, units) in enumerate(((58, 4), (116, 8), (232, 4)), 2):
        for number in range(1, units + 1):
            name, stride = f"stage{stage}_{number}", 2 if number == 1 else 1
            net.part(name)
            if stride > 1:
                kept = depthwise(f"{name}/branch1/dwise", blob, inputs, 2)
                kept = pointwise(f"{name}/branch1/conv", kept, half)
            else:
                kept, blob = net.layer("Slice", f"{name}/slice", blob, "slice_param { axis: 1 }",
                                       top=[f"{name}/kept", f"{name}/changed"])
            blob = pointwise(f"{name}/branch2/conv1", blob, half)
            blob = depthwise(f"{name}/branch2/dwise", blob, half, stride)
            blob = pointwise(f"{name}/branch2/conv2", blob, half)
            blob = net.layer("Concat", f"{name}/concat", [kept, blob])
            blob = net.layer("ShuffleChannel", name, blob, "shuffle_channel_param { group: 2 }")
            inputs = 2 * half
    net.part("scores")
    blob = net.mean("pool5", net.conv_norm("conv5", blob, 1024, 1))
    net.ending(net.inner_product("fc", blob, 1000))


def vdsr(net):
    blob = "data"
    for number in range(1, 20):
        blob = net.conv_relu(f"conv{number}", blob, 64, 3, 1, 1, relu=f"relu{number}")
    blob = net.layer("Eltwise", "sum", ["data", net.conv("conv20", blob, 1, 3, 1, 1)])
    if net.train:
        net.layer("EuclideanLoss", "loss", [blob, "label"])


def vit_tiny(net):
    width, heads, depth, patch = 192, 3, 12, 16
    normal = 'type: "gaussian" std: 0.02'
    free = "param { decay_mult: 0 }"

    def norm(name, bottom):
        learning = [f"{free}  {free}"] if net.train else []
        return net.layer("LayerNorm", name, bottom, *learning, "layer_norm_param { eps: 1e-6 }")

    def linear(name, bottom, outputs):
        return net.inner_product(name, bottom, outputs, "  axis: -1", filler=normal)

    def learned(name, blob, axes):
        learning, filler = ([free], f"  filler {{ {normal} }}") if net.train else ([], "")
        return net.layer("Bias", name, blob, *learning, f"bias_param {{ {axes}{filler} }}", top=blob)

    patches = net.conv("patches", "data", width, patch, patch, filler='type: "xavier"')
    net.part("The class token in front of the patches: a zero for each image of the batch, and a learned Bias.")
    token = net.mean("token", patches)
    net.layer("Power", "zero", token, "power_param { scale: 0 }", top=token)
    learned("class_token", token, "axis: 1")
    token = net.layer("Reshape", "token/row", token, f"reshape_param {{ {dims(0, 1, -1)} }}")
    rows = net.layer("Permute", "patches/last", patches,
                     "permute_param { order: 0 order: 2 order: 3 order: 1 }")
    rows = net.layer("Flatten", "patches/rows", rows, "flatten_param { axis: 1  end_axis: 2 }")
    blob = net.layer("Concat", "tokens", [token, rows])
    learned("position", blob, "axis: 1  num_axes: 2")
    for block in range(1, depth + 1):
        name = f"block{block}"
        net.part(name)
        part = linear(f"{name}/qkv", norm(f"{name}/norm1", blob), 3 * width)
        parts = net.layer("Slice", f"{name}/heads", part, "slice_param { axis: 2 }",
                          top=[f"{name}/{each}" for each in "qkv"])
        part = net.layer("Attention", f"{name}/attention", parts, f"attention_param {{ num_heads: {heads} }}")
        blob = net.layer("Eltwise", f"{name}/sum1", [blob, linear(f"{name}/proj", part, width)])
        part = linear(f"{name}/fc1", norm(f"{name}/norm2", blob), 4 * width)
        part = net.layer("GELU", f"{name}/gelu", part, top=part)
        blob = net.layer("Eltwise", f"{name}/sum2", [blob, linear(f"{name}/fc2", part, width)])
    net.part("scores, from the class token")
    token, rest = net.layer("Slice", "first", norm("norm", blob), "slice_param { axis: 1  slice_point: 1 }",
                            top=["first", "rest"])
    net.layer("Silence", "silence", rest, top=[])
    net.ending(net.inner_product("fc", token, 1000, filler=normal))


def rows_last(net, name, bottom):
    """(N, C, H, W) as (N, H * W * C): the channels of a place are neighbours."""
    blob = net.layer("Permute", f"{name}_perm", bottom, "permute_param { order: 0 order: 2 order: 3 order: 1 }")
    return net.layer("Flatten", f"{name}_flat", blob)


def ssd_data(net, batch, transform, samplers):
    """AnnotatedData of both phases, with the augmentation of the paper's authors in TRAIN."""
    def layer(phase, steps, database, rest, sampler):
        size = "height: 300  width: 300"
        net.layer("AnnotatedData", "data", [], f"include {{ phase: {phase} }}",
                  "transform_param {\n    " + "\n    ".join([f"{transform}", *(line.replace("SIZE", size) for line in steps)])
                  + "\n  }",
                  f'data_param {{ source: "data/voc/full/{database}"  backend: LMDB  batch_size: {rest} }}',
                  "annotated_data_param {\n    " + "\n    ".join(['label_map_file: "data/voc/labelmap.prototxt"', *sampler])
                  + "\n  }", top=["data", "label"])

    crop = "min_scale: 0.3  max_scale: 1  min_aspect_ratio: 0.5  max_aspect_ratio: 2"
    layer("TRAIN", [
        "mirror: true",
        "resize_param {\n      SIZE\n      interp_mode: LINEAR  interp_mode: AREA  interp_mode: NEAREST"
        "  interp_mode: CUBIC  interp_mode: LANCZOS4\n    }",
        "emit_constraint { emit_type: CENTER }",
        "expand_param { prob: 0.5  max_expand_ratio: 4 }",
        "distort_param {\n      brightness_prob: 0.5  brightness_delta: 32  contrast_prob: 0.5  contrast_lower: 0.5"
        "  contrast_upper: 1.5\n      hue_prob: 0.5  hue_delta: 18  saturation_prob: 0.5  saturation_lower: 0.5"
        "  saturation_upper: 1.5\n    }",
    ], "trainval_lmdb", f"{batch}  shuffle: true",
        ["batch_sampler { max_sample: 1  max_trials: 1 }  # the whole image"] + [
            f"batch_sampler {{\n      sampler {{ {crop} }}\n      sample_constraint {{ {bound} }}\n"
            "      max_sample: 1  max_trials: 50\n    }" for bound in samplers])
    layer("TEST", ["resize_param { SIZE }"], "test_lmdb", 8, [])


SSD_SAMPLERS = [f"min_jaccard_overlap: {overlap}" for overlap in (0.1, 0.3, 0.5, 0.7, 0.9)] + ["max_jaccard_overlap: 1"]
VARIANCE = "variance: 0.1  variance: 0.1  variance: 0.2  variance: 0.2"


def ssd_heads(net, sources, kernel, filler, classes=21):
    """Locations, scores and prior boxes at each source (blob, boxes of a place, prior_box_param), and what follows.
    In TEST and for inference: boxes, in training the loss."""
    for blob, boxes, settings in sources:
        net.part(f"boxes at {blob}")
        for kind, values in (("loc", 4), ("conf", classes)):
            name = f"{blob}_mbox_{kind}"
            net.conv(name, blob, boxes * values, kernel, 1, kernel // 2, filler=filler)
            rows_last(net, name, name)
        net.layer("PriorBox", f"{blob}_mbox_priorbox", [blob, "data"], f"prior_box_param {{ {settings}  {VARIANCE} }}")
    net.part("all boxes")
    names = [blob for blob, *_ in sources]
    loc = net.layer("Concat", "mbox_loc", [f"{name}_mbox_loc_flat" for name in names])
    conf = net.layer("Concat", "mbox_conf", [f"{name}_mbox_conf_flat" for name in names])
    prior = net.layer("Concat", "mbox_priorbox", [f"{name}_mbox_priorbox" for name in names], "concat_param { axis: 2 }")
    test = []
    if net.train:
        net.layer("MultiBoxLoss", "mbox_loss", [loc, conf, prior, "label"], "include { phase: TRAIN }",
                  f"multibox_loss_param {{ num_classes: {classes}  code_type: CENTER_SIZE  neg_pos_ratio: 3  neg_overlap: 0.5 }}")
        test = ["include { phase: TEST }"]
    rows = net.layer("Reshape", "mbox_conf_reshape", conf, *test, f"reshape_param {{ {dims(0, -1, classes)} }}")
    rows = net.layer("Softmax", "mbox_conf_softmax", rows, *test, "softmax_param { axis: 2 }")
    rows = net.layer("Flatten", "mbox_conf_flatten", rows, *test)
    blob = net.layer("DetectionOutput", "detection_out", [loc, rows, prior], *test,
                     f"detection_output_param {{\n    num_classes: {classes}  code_type: CENTER_SIZE"
                     "  nms_param { nms_threshold: 0.45  top_k: 400 }\n"
                     "    keep_top_k: 200  confidence_threshold: 0.01\n  }")
    if net.train:
        net.layer("DetectionEvaluate", "detection_eval", [blob, "label"], *test,
                  f"detection_evaluate_param {{ num_classes: {classes}  evaluate_difficult_gt: false }}")


def ssd300_vgg(net):
    if net.train:
        ssd_data(net, 32, "mean_value: 104  mean_value: 117  mean_value: 123", SSD_SAMPLERS)
    else:
        net.inputs(data=(1, 3, 300, 300))
    xavier = 'type: "xavier"'
    blob = "data"
    for stage, (count, outputs) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for number in range(1, count + 1):
            name = f"{stage}_{number}"
            blob = net.conv_relu(f"conv{name}", blob, outputs, 3, 1, 1, relu=f"relu{name}", filler=xavier)
        blob = net.pool(f"pool{stage}", blob, MAX_2_2 if stage < 5 else "pool: MAX  kernel_size: 3  pad: 1  stride: 1")
    blob = net.conv_relu("fc6", blob, 1024, 3, 1, 6, dilation=6, relu="relu6", filler=xavier)
    blob = net.conv_relu("fc7", blob, 1024, 1, relu="relu7", filler=xavier)
    for stage, outputs, stride in ((6, 512, 2), (7, 256, 2), (8, 256, 1), (9, 256, 1)):
        name = f"conv{stage}"
        blob = net.conv_relu(f"{name}_1", blob, outputs // 2, 1, relu=f"{name}_1_relu", filler=xavier)
        blob = net.conv_relu(f"{name}_2", blob, outputs, 3, stride, stride - 1, relu=f"{name}_2_relu", filler=xavier)
    net.layer("Normalize", "conv4_3_norm", "conv4_3",
              'norm_param { across_spatial: false  channel_shared: false  scale_filler { type: "constant" value: 20 } }')
    sides = (30, 60, 111, 162, 213, 264, 315)
    ssd_heads(net, [
        (blob, 4 + 2 * more, f"min_size: {sides[i]}  max_size: {sides[i + 1]}  aspect_ratio: 2"
         + ("  aspect_ratio: 3" if more else "") + f"  step: {step}")
        for i, (blob, more, step) in enumerate((("conv4_3_norm", 0, 8), ("fc7", 1, 16), ("conv6_2", 1, 32),
                                                ("conv7_2", 1, 64), ("conv8_2", 0, 100), ("conv9_2", 0, 300)))],
        3, xavier)


def ssd_mobilenet(net):
    if net.train:
        ssd_data(net, 24, "mean_value: 127.5  scale: 0.007843", SSD_SAMPLERS)
    else:
        net.inputs(data=(1, 3, 300, 300))

    def unit(name, bottom, *geometry, group=1):
        top = net.conv(name, bottom, *geometry, group=group, bias=False)
        return net.norm([f"{name}/bn", f"{name}/scale", f"{name}/relu"], top, top,
                        learning="param { decay_mult: 0 }  param { lr_mult: 2 decay_mult: 0 }")

    blob = unit("conv0", "data", 32, 3, 2, 1)
    channels = 32
    for number, (outputs, stride) in enumerate(((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1),
                                                (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)), 1):
        blob = unit(f"conv{number}/dw", blob, channels, 3, stride, 1, group=channels)
        blob = unit(f"conv{number}", blob, outputs, 1)
        channels = outputs
    for number, outputs in ((14, 512), (15, 256), (16, 256), (17, 128)):
        blob = unit(f"conv{number}_1", blob, outputs // 2, 1)
        blob = unit(f"conv{number}_2", blob, outputs, 3, 2, 1)
    sides = (105, 150, 195, 240, 285, 300)
    ssd_heads(net, [("conv11", 3, "min_size: 60  aspect_ratio: 2")] + [
        (blob, 6, f"min_size: {sides[i]}  max_size: {sides[i + 1]}  aspect_ratio: 2  aspect_ratio: 3")
        for i, blob in enumerate(("conv13", "conv14_2", "conv15_2", "conv16_2", "conv17_2"))], 1, 'type: "msra"')


def yolo_v2_tiny(net):
    biases = "\n    ".join("  ".join(f"biases: {side}" for side in row) for row in (
        (1.08, 1.19, 3.42, 4.41, 6.63, 11.38), (9.42, 5.11, 16.62, 10.52)))
    if net.train:
        transform = "scale: 0.00392156863  bgr2rgb: true"
        labels = '    label_map_file: "data/voc/labelmap.prototxt"\n'
        net.layer("AnnotatedData", "data", [], "include { phase: TRAIN }",
                  f"transform_param {{\n    {transform}  mirror: true\n    resize_param {{ height: 416  width: 416 }}\n"
                  "    emit_constraint { emit_type: CENTER }\n    expand_param { prob: 0.5  max_expand_ratio: 1.4 }\n"
                  "    distort_param {\n      brightness_prob: 0.5  brightness_delta: 32  contrast_prob: 0.5"
                  "  contrast_lower: 0.67  contrast_upper: 1.5\n      hue_prob: 0.5  hue_delta: 18"
                  "  saturation_prob: 0.5  saturation_lower: 0.67  saturation_upper: 1.5\n    }\n  }",
                  'data_param { source: "data/voc/full/trainval_lmdb"  backend: LMDB  batch_size: 8  shuffle: true }',
                  "annotated_data_param {\n" + labels +
                  "    batch_sampler { max_sample: 1  max_trials: 1 }  # the whole image\n    batch_sampler {\n"
                  "      sampler { min_scale: 0.6  max_scale: 1  min_aspect_ratio: 0.67  max_aspect_ratio: 1.5 }\n"
                  "      max_sample: 1  max_trials: 50\n    }\n  }", top=["data", "label"])
        net.layer("AnnotatedData", "data", [], "include { phase: TEST }",
                  f"transform_param {{ {transform}  resize_param {{ height: 416  width: 416 }} }}",
                  'data_param { source: "data/voc/full/test_lmdb"  backend: LMDB  batch_size: 8 }',
                  "annotated_data_param {\n" + labels + "  }", top=["data", "label"])
    else:
        net.inputs(data=(1, 3, 416, 416))
    blob = "data"
    for number, outputs in enumerate((16, 32, 64, 128, 256, 512, 1024, 1024), 1):
        name = f"conv{number}"
        blob = net.conv(name, blob, outputs, 3, 1, 1, bias=False)
        net.norm([f"{name}/bn", f"{name}/scale"], blob, blob, "eps: 0.000001  moving_average_fraction: 0.99",
                 learning="param { decay_mult: 0 }  param { decay_mult: 0 }")
        net.layer("ReLU", f"{name}/leaky", blob, "relu_param { negative_slope: 0.1 }", top=blob)
        if number < 6:
            blob = net.pool(f"pool{number}", blob, MAX_2_2)
        elif number == 6:
            net.part("The windows of place (i, j) are rows i, i + 1 and columns j, j + 1: padding makes 14 x 14, the first are cut off.")
            blob = net.pool("pool6", blob, "pool: MAX  kernel_size: 2  pad: 1  stride: 1")
            blob = net.layer("Crop", "pool6/crop", [blob, name], "crop_param { axis: 2  offset: 1 }")
    net.part("at each place five boxes of x, y, width, height, object and 20 classes")
    blob = net.conv("conv9", blob, 125, 1)
    test = []
    if net.train:
        net.layer("RegionLoss", "loss", [blob, "label"], "include { phase: TRAIN }",
                  "region_loss_param {\n    num_class: 20  num: 5  object_scale: 5  noobject_scale: 1  class_scale: 1"
                  f"  coord_scale: 1  thresh: 0.6\n    {biases}\n  }}")
        test = ["include { phase: TEST }"]
    blob = net.layer("RegionDetectionOutput", "detection_out", blob, *test,
                     "region_detection_output_param {\n    num_classes: 20  num_box: 5  confidence_threshold: 0.01"
                     f"  nms_threshold: 0.45\n    {biases}\n  }}")
    if net.train:
        net.layer("DetectionEvaluate", "detection_eval", [blob, "label"], *test,
                  "detection_evaluate_param { num_classes: 21  evaluate_difficult_gt: false }")


def fcn8s(net):
    def score(name, bottom, offset=None, like=None):
        """The scores of 21 classes, cut to the size of `like`."""
        top = net.conv(name, bottom, 21, 1, filler=None)
        return net.layer("Crop", f"{name}c", [top, like], f"crop_param {{ axis: 2  offset: {offset} }}") if like else top

    def enlarge(name, bottom, times):
        # One kernel for each class, which stays as it is; for inference too, the filler writes it.
        learning = ["param { lr_mult: 0 }"] if net.train else []
        return net.layer("Deconvolution", f"{name}_bilinear", bottom, *learning,
                         f"convolution_param {{\n    num_output: 21  group: 21  kernel_size: {2 * times}  stride: {times}"
                         '  bias_term: false  weight_filler { type: "bilinear" }\n  }', top=name)

    def shrink(name, bottom, value):
        learning = ["param { lr_mult: 0 }"] if net.train else []
        return net.layer("Scale", f"scale_{name}", bottom, *learning,
                         f'scale_param {{ filler {{ type: "constant" value: {value} }} }}')

    blob = "data"
    for stage, (count, outputs) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for number in range(1, count + 1):
            name = f"{stage}_{number}"
            blob = net.conv_relu(f"conv{name}", blob, outputs, 3, 1, 100 if name == "1_1" else 1, relu=f"relu{name}")
        blob = net.pool(f"pool{stage}", blob, MAX_2_2)
    for number, kernel in ((6, 7), (7, 1)):
        blob = net.conv_relu(f"fc{number}", blob, 4096, kernel, relu=f"relu{number}")
        blob = net.drop(f"drop{number}", blob, 0.5)
    net.part("1/32 of the size, with pool4 1/16, with pool3 1/8")
    blob = enlarge("upscore2", score("score_fr", blob), 2)
    other = score("score_pool4", shrink("pool4", "pool4", 0.01), 5, blob)
    blob = enlarge("upscore_pool4", net.layer("Eltwise", "fuse_pool4", [blob, other]), 2)
    other = score("score_pool3", shrink("pool3", "pool3", 0.0001), 9, blob)
    blob = enlarge("upscore8", net.layer("Eltwise", "fuse_pool3", [blob, other]), 8)
    blob = net.layer("Crop", "score", [blob, "data"], "crop_param { axis: 2  offset: 31 }")
    if net.train:
        net.layer("SoftmaxWithLoss", "loss", [blob, "label"], "loss_param { ignore_label: 255  normalization: BATCH_SIZE }")


def rfcn_resnet50(net):
    rois = 300
    if net.train:
        net.inputs(data=(1, 3, 600, 1000), rpn_labels=(1, 1, 342, 63), rpn_bbox_targets=(1, 36, 38, 63),
                   rpn_bbox_inside_weights=(1, 36, 38, 63), rpn_bbox_outside_weights=(1, 36, 38, 63), rois=(rois, 5),
                   labels=(rois, 1, 1, 1), bbox_targets=(rois, 8, 1, 1), bbox_inside_weights=(rois, 8, 1, 1))
    else:
        net.inputs(data=(1, 3, 600, 1000))
        net.layer("Input", "im_info", [], f'exclude {{ stage: "timing" }}  input_param {{ {dims(1, 3)} }}')
        fill = "  ".join([dims(1, 1)] * 3 + [f'data_filler {{ type: "constant" value: {v} }}' for v in (600, 1000, 1)])
        parts = net.layer("DummyData", "im_info_values", [], 'include { stage: "timing" }',
                          f"dummy_data_param {{ {fill} }}", top=["height", "width", "image_scale"])
        net.layer("Concat", "im_info_timing", parts, 'include { stage: "timing" }', top="im_info")

    def unit(name, bottom, outputs, kernel, stride=1, dilation=1, relu=True, lr=1):
        top = net.conv(name, bottom, outputs, kernel, stride, kernel // 2 * dilation, dilation=dilation, lr=lr,
                       bias=name == "conv1")
        rest = name[len("res"):] if name.startswith("res") else "_" + name
        return net.norm([f"bn{rest}", f"scale{rest}"] + ([f"{name}_relu"] if relu else []), top, top,
                        "use_global_stats: true" if net.train else "", learning=net.learning(0, 0))

    blob = net.pool("pool1", unit("conv1", "data", 64, 7, 2, lr=0), MAX_3_2)
    for stage, width, blocks in ((2, 64, "abc"), (3, 128, "abcd"), (4, 256, "abcdef"), (5, 512, "abc")):
        lr = 0 if stage == 2 else 1
        for block in blocks:
            name = f"res{stage}{block}"
            net.part(name)
            stride = 2 if stage in (3, 4) and block == "a" else 1
            shortcut = unit(f"{name}_branch1", blob, 4 * width, 1, stride, relu=False, lr=lr) if block == "a" else blob
            blob = unit(f"{name}_branch2a", blob, width, 1, stride, lr=lr)
            blob = unit(f"{name}_branch2b", blob, width, 3, dilation=2 if stage == 5 else 1, lr=lr)
            blob = unit(f"{name}_branch2c", blob, 4 * width, 1, relu=False, lr=lr)
            blob = net.relu(f"{name}_relu", net.layer("Eltwise", name, [shortcut, blob]))
    normal = 'type: "gaussian" std: 0.01'
    net.part("the regions: scores and offsets of nine anchors at each place of res4f")
    regions = net.weights("Convolution", "rpn_conv/3x3", "res4f", "num_output: 512  kernel_size: 3  pad: 1", filler=normal,
                          top="rpn/output") or "rpn/output"
    net.relu("rpn_relu/3x3", regions)
    scores = net.conv("rpn_cls_score", regions, 18, 1, filler=normal)
    offsets = net.conv("rpn_bbox_pred", regions, 36, 1, filler=normal)
    scores = net.layer("Reshape", "rpn_cls_score_reshape", scores, f"reshape_param {{ {dims(0, 2, -1, 0)} }}")
    if net.train:
        net.layer("SoftmaxWithLoss", "rpn_loss_cls", [scores, "rpn_labels"], "loss_param { ignore_label: -1 }",
                  top="rpn_cls_loss")
        net.layer("SmoothL1Loss", "rpn_loss_bbox", [offsets, *(f"rpn_bbox_{each}" for each in (
            "targets", "inside_weights", "outside_weights"))], "smooth_l1_loss_param { sigma: 3 }")
    else:
        scores = net.layer("Softmax", "rpn_cls_prob", scores)
        scores = net.layer("Reshape", "rpn_cls_prob_reshape", scores, f"reshape_param {{ {dims(0, 18, -1, 0)} }}")
        net.layer("Proposal", "proposal", [scores, offsets, "im_info"],
                  "proposal_param { pre_nms_topn: 6000  post_nms_topn: 300  nms_thresh: 0.7  min_size: 16 }", top="rois")
    net.part("the maps: 7 x 7 for each class, and for the offsets of background and object")
    blob = net.conv_relu("conv_new_1", blob, 1024, 1, relu="conv_new_1_relu", filler=normal)
    maps = [net.conv("rfcn_cls", blob, 21 * 49, 1, filler=normal), net.conv("rfcn_bbox", blob, 8 * 49, 1, filler=normal)]
    net.part("the regions' scores and offsets")
    means = []
    for kind, blob, count, top in (("cls", maps[0], 21, "cls_score"), ("loc", maps[1], 8, "bbox_pred")):
        blob = net.layer("PSROIPooling", f"psroipooled_{kind}_rois", [blob, "rois"],
                         f"psroi_pooling_param {{ spatial_scale: 0.0625  output_dim: {count}  group_size: 7 }}")
        means.append(net.layer("Pooling", f"ave_{top}_rois", blob, "pooling_param { pool: AVE  kernel_size: 7  stride: 7 }",
                               top=top))
    scores, offsets = means
    if not net.train:
        net.layer("Softmax", "cls_prob", scores)
        return
    net.part("the 128 regions with the greatest loss learn")
    still = "propagate_down: false"
    net.layer("SoftmaxWithLossOHEM", "per_roi_loss_cls", [scores, "labels"],
              "  ".join(["loss_weight: 0"] * 3 + [still] * 2), top=["temp_loss_cls", "temp_prob_cls", "per_roi_loss_cls"])
    net.layer("SmoothL1LossOHEM", "per_roi_loss_bbox", [offsets, "bbox_targets", "bbox_inside_weights"],
              "  ".join(["loss_weight: 0"] * 2 + [still] * 3), top=["temp_loss_bbox", "per_roi_loss_bbox"])
    losses = net.layer("Eltwise", "per_roi_loss", ["per_roi_loss_cls", "per_roi_loss_bbox"], "  ".join([still] * 2))
    net.layer("BoxAnnotatorOHEM", "annotator_detector", ["rois", losses, "labels", "bbox_inside_weights"],
              "  ".join([still] * 4), "box_annotator_ohem_param { roi_per_img: 128  ignore_label: -1 }",
              top=["labels_ohem", "bbox_loss_weights_ohem"])
    net.layer("Silence", "silence", ["temp_loss_cls", "temp_prob_cls", "temp_loss_bbox"], top=[])
    net.layer("SoftmaxWithLoss", "loss", [scores, "labels_ohem"], "loss_param { ignore_label: -1 }", top="loss_cls")
    net.layer("SmoothL1LossOHEM", "loss_bbox", [offsets, "bbox_targets", "bbox_loss_weights_ohem"],
              "loss_param { normalization: PRE_FIXED  pre_fixed_normalizer: 128 }")


def lrcn(net):
    words, size = 8801, 1000
    uniform = 'type: "uniform" min: -0.08 max: 0.08'
    if net.train:
        net.inputs(data=(16, 3, 227, 227), cont_sentence=(20, 16), input_sentence=(20, 16), target_sentence=(20, 16))
    else:
        net.inputs(data=(1, 3, 227, 227), cont_sentence=(1, 1), input_sentence=(1, 1))
    two_towers(net, False, "local_size: 5  alpha: 0.0001  beta: 0.75", 0.005, lr=0, scores_lr=0.1)

    def lstm(number, *bottoms):
        filler = f"  weight_filler {{ {uniform} }}" if net.train else ""
        return net.layer("LSTM", f"lstm{number}", list(bottoms), f"recurrent_param {{ num_output: {size}{filler} }}")

    net.part("words, then words and image")
    filler = f"  weight_filler {{ {uniform} }}" if net.train else ""
    blob = net.layer("Embed", "embedding", "input_sentence",
                     f"embed_param {{ input_dim: {words}  num_output: {size}  bias_term: false{filler} }}",
                     top="embedded_input_sentence")
    blob = lstm(2, lstm(1, blob, "cont_sentence"), "cont_sentence", "fc8")
    blob = net.inner_product("predict", blob, words, "  axis: 2", filler=uniform)
    if not net.train:
        net.layer("Softmax", "probs", blob, "softmax_param { axis: 2 }")
        return
    net.layer("SoftmaxWithLoss", "cross_entropy_loss", [blob, "target_sentence"], "loss_weight: 20",
              "loss_param { ignore_label: -1 }  softmax_param { axis: 2 }")
    net.layer("Accuracy", "accuracy", [blob, "target_sentence"], "include { phase: TEST }",
              "accuracy_param { axis: 2  ignore_label: -1 }")


# Folder: builder, what it is, batch, shape of an image, shape of its label, learning rate of biases (see Net).
NETS = {
    "resnet18": (resnet18, "ResNet-18", 16, (3, 224, 224), (), 2),
    "resnet101": (resnet101, "ResNet-101, first version: a downsampling block has its stride on the first 1x1 convolution", 8,
                  (3, 224, 224), (), 2),
    "densenet121": (densenet121, "DenseNet-121", 8, (3, 224, 224), (), 2),
    "squeezenet_v1.1": (squeezenet, "SqueezeNet, version 1.1", 16, (3, 227, 227), (), None),
    "bvlc_googlenet": (bvlc_googlenet, "GoogLeNet as Caffe trained it, with LRN and two side heads", 32, (3, 224, 224), (),
                       2),
    "inception_v3": (inception_v3, "Inception v3 without the auxiliary classifier", 8, (3, 299, 299), (), 2),
    "unet": (unet, "U-Net for two classes, with BatchNorm and padded convolutions", 4, (3, 256, 256), (256, 256), 2),
    "overfeat": (overfeat, "OverFeat, the fast model", 16, (3, 231, 231), (), 2),
    "vit_tiny": (vit_tiny, "Vision transformer ViT-Ti/16", 8, (3, 224, 224), (), 1),
    "vgg16": (lambda net: vgg(net, 2, 2, 3, 3, 3), "VGG, configuration D", 8, (3, 224, 224), (), 2),
    "vgg19": (lambda net: vgg(net, 2, 2, 4, 4, 4), "VGG, configuration E", 8, (3, 224, 224), (), 2),
    "caffenet": (caffenet, "CaffeNet, the reference net of Caffe", 8, (3, 227, 227), (), 2),
    "alexnet_two_towers": (alexnet_two_towers, "AlexNet in two towers, as published in 2012", 8, (3, 227, 227), (), 2),
    "resnext50": (resnext50, "ResNeXt-50, 32x4d", 8, (3, 224, 224), (), 2),
    "mobilenet_v1": (mobilenet_v1, "MobileNet v1, width 1", 8, (3, 224, 224), (), 2),
    "mobilenet_v3_large": (mobilenet_v3_large, "MobileNet v3, the large net of width 1", 8, (3, 224, 224), (), 2),
    "shufflenet_v2": (shufflenet_v2, "ShuffleNet v2, width 1", 8, (3, 224, 224), (), 2),
    "efficientnet_b0": (efficientnet_b0, "EfficientNet-B0", 8, (3, 224, 224), (), 2),
    "resnet20_cifar10": (resnet20_cifar, "ResNet-20 for CIFAR-10", 128, (3, 32, 32), (), 1),
    "resnet20_finetune": (lambda net: resnet20_cifar(net, "fc_fashion", 10),
                          "ResNet-20 for CIFAR-10, fine-tuned to Fashion-MNIST", 100, (3, 32, 32), (), 1),
    "mobilenet_v2_cifar10": (mobilenet_v2_cifar, "MobileNet v2, width 0.5, for CIFAR-10", 128, (3, 32, 32), (), 1),
    "fcn8s": (fcn8s, "FCN-8s for 21 classes, trained at once", 1, (3, 500, 500), (500, 500), 2),
    "vdsr": (vdsr, "VDSR, which sharpens the brightness of an enlarged image", 16, (1, 41, 41), (1, 41, 41), 0.1),
}

CIFAR_IMAGES = "mean_value: 125 mean_value: 123 mean_value: 114  scale: 0.016"
# The Data layers of nets that are trained from their files as they are.
DATA = dict.fromkeys(("resnet20_cifar10", "mobilenet_v2_cifar10"), f"""\
layer {{
  name: "data"  type: "Data"  top: "data"  top: "label"
  include {{ phase: TRAIN }}
  transform_param {{ pad: 4  crop_size: 32  mirror: true  {CIFAR_IMAGES} }}
  data_param {{ source: "data/cifar10/full/cifar10_train_lmdb"  backend: LMDB  batch_size: 128  shuffle: true }}
}}
layer {{
  name: "data"  type: "Data"  top: "data"  top: "label"
  include {{ phase: TEST }}
  transform_param {{ {CIFAR_IMAGES} }}
  data_param {{ source: "data/cifar10/full/cifar10_test_lmdb"  backend: LMDB  batch_size: 100 }}
}}""")


DATABASES = ["# The paths of the data layers are examples: README.md says how to make such databases."]
# Nets with inputs or data layers of their own. Folder: builder, what it is, comment of train_val.prototxt, learning rate
# of biases.
FED_NETS = {
    "ssd300_vgg": (ssd300_vgg, "SSD300 on VGG-16, for the 20 classes of PASCAL VOC", DATABASES, 2),
    "ssd_mobilenet": (ssd_mobilenet, "SSD300 on MobileNet v1, for the 20 classes of PASCAL VOC", DATABASES, 2),
    "yolo_v2_tiny": (yolo_v2_tiny, "Tiny YOLO v2, for the 20 classes of PASCAL VOC", DATABASES, 1),
    "rfcn_resnet50": (rfcn_resnet50, "R-FCN on ResNet-50, for the 20 classes of PASCAL VOC", [
        "# Fed by Input: README.md says what the inputs are. Their values are zeros until a program sets them."], 2),
    "lrcn": (lrcn, "LRCN, which writes captions: CaffeNet and two LSTM layers", [
        "# Fed by Input, so that it can be timed without data; values are zeros. For training, replace the layer",
        '# "data" as README.md says.'], 2),
}

# Images of one channel of 28x28 pixels, 0 to 255, become three channels of 32x32, -2 to 2.
DATA["resnet20_finetune"] = """\
layer {
  name: "images"  type: "Data"  top: "images"  top: "label"
  include { phase: TRAIN }
  transform_param { force_gray: true  pad: 4  crop_size: 32  scale: 0.016 }
  data_param { source: "data/fashion-mnist/full/few.txt"  backend: IMAGE_LIST  root_folder: "data/fashion-mnist/full/few/"  batch_size: 50  shuffle: true }
}
layer {
  name: "images"  type: "Data"  top: "images"  top: "label"
  include { phase: TEST }
  transform_param { pad: 2  scale: 0.016 }
  data_param { source: "data/fashion-mnist/full/test_lmdb"  backend: LMDB  batch_size: 100 }
}
layer { name: "centred"  type: "Power"  bottom: "images"  top: "images"  power_param { shift: -2 } }
layer { name: "data"  type: "Tile"  bottom: "images"  top: "data"  tile_param { axis: 1  tiles: 3 } }"""


def prototxt(name, train):
    own = name in FED_NETS
    build, title, *rest = FED_NETS[name] if own else NETS[name]
    net = Net(train, rest[-1])
    head = [f"# {title}{'' if train else ', for inference'}. Written by scripts/make_nets.py."]
    if own:
        head += rest[0] if train else []
    elif train and name in DATA:
        head = [f"{head[0]} Paths are relative to the root of the repository."]
        net.text.append(DATA[name])
    elif train:
        batch, image, label, _ = rest
        # A label of three axes is an image.
        feed = "HDF5Data, as README.md says"
        if len(label) < 3:
            feed = "Data layers, as in models/lenet/train_val.prototxt"
        head += ["# Fed by Input, so that it can be timed without data; labels are zeros. For training, replace the",
                 f'# layer "data" by {feed}.']
        net.inputs(data=(batch, *image), label=(batch, *label))
    else:
        net.inputs(data=(1, *rest[1]))
    build(net)
    return "\n".join([*head, f'name: "{name}"', *net.text]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    differs = False
    for name in [*NETS, *FED_NETS]:
        for file, train in (("train_val.prototxt", True), ("deploy.prototxt", False)):
            path, text = MODELS / name / file, prototxt(name, train)
            if check:
                if not path.exists() or path.read_text() != text:
                    print(f"{path} is not what scripts/make_nets.py writes: change the script and run it")
                    differs = True
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
