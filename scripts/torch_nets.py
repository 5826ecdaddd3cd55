"""The nets of models/ in PyTorch, with the shape of their data: NETS, for bench_torch.py."""

import torch
from torch import nn


def pool(kernel, stride, pad=0):
    # The pooling of models/ rounds up.
    return nn.MaxPool2d(kernel, stride, pad, ceil_mode=True)


def conv_relu(inputs, outputs, kernel, stride=1, pad=0, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups), nn.ReLU(inplace=True))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), pool(2, 2), nn.Conv2d(20, 50, 5), pool(2, 2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def fc_head(inputs, fc6=4096):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, fc6), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(fc6, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 1000))


def alexnet():
    return nn.Sequential(
        conv_relu(3, 64, 11, 4, 2), pool(3, 2), conv_relu(64, 192, 5, 1, 2), pool(3, 2),
        conv_relu(192, 384, 3, 1, 1), conv_relu(384, 256, 3, 1, 1), conv_relu(256, 256, 3, 1, 1),
        pool(3, 2), fc_head(256 * 6 * 6))


def overfeat():
    return nn.Sequential(
        conv_relu(3, 96, 11, 4), pool(2, 2), conv_relu(96, 256, 5), pool(2, 2), conv_relu(256, 512, 3, 1, 1),
        conv_relu(512, 1024, 3, 1, 1), conv_relu(1024, 1024, 3, 1, 1), pool(2, 2), fc_head(1024 * 6 * 6, 3072))


def caffenet(norm_first=False):
    def stage(*geometry):
        norm = nn.LocalResponseNorm(5)
        return [conv_relu(*geometry), *([norm, pool(3, 2)] if norm_first else [pool(3, 2), norm])]

    return nn.Sequential(
        *stage(3, 96, 11, 4), *stage(96, 256, 5, 1, 2, 2), conv_relu(256, 384, 3, 1, 1),
        conv_relu(384, 384, 3, 1, 1, 2), conv_relu(384, 256, 3, 1, 1, 2), pool(3, 2), fc_head(256 * 6 * 6))


def vgg(*convolutions):
    """`convolutions`: how many each of the five stages has."""
    layers, inputs = [], 3
    for count, outputs in zip(convolutions, (64, 128, 256, 512, 512)):
        for _ in range(count):
            layers.append(conv_relu(inputs, outputs, 3, 1, 1))
            inputs = outputs
        layers.append(pool(2, 2))
    return nn.Sequential(*layers, fc_head(512 * 7 * 7))


def vdsr():
    layers = [conv_relu(1, 64, 3, 1, 1), *(conv_relu(64, 64, 3, 1, 1) for _ in range(18)), nn.Conv2d(64, 1, 3, 1, 1)]
    return Residual(*layers)


class Branches(nn.Module):
    """What the branches make of one input, beside each other in the channels."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception(inputs, n1x1, reduce3, n3x3, reduce5, n5x5, projection):
    return Branches(
        conv_relu(inputs, n1x1, 1),
        nn.Sequential(conv_relu(inputs, reduce3, 1), conv_relu(reduce3, n3x3, 3, 1, 1)),
        nn.Sequential(conv_relu(inputs, reduce5, 1), conv_relu(reduce5, n5x5, 5, 1, 2)),
        nn.Sequential(pool(3, 1, 1), conv_relu(inputs, projection, 1)))


def googlenet():
    return nn.Sequential(
        conv_relu(3, 64, 7, 2, 3), pool(3, 2), conv_relu(64, 64, 1), conv_relu(64, 192, 3, 1, 1), pool(3, 2),
        inception(192, 64, 96, 128, 16, 32, 32), inception(256, 128, 128, 192, 32, 96, 64), pool(3, 2),
        inception(480, 192, 96, 208, 16, 48, 64), inception(512, 160, 112, 224, 24, 64, 64),
        inception(512, 128, 128, 256, 24, 64, 64), inception(512, 112, 144, 288, 32, 64, 64),
        inception(528, 256, 160, 320, 32, 128, 128), pool(3, 2),
        inception(832, 256, 160, 320, 32, 128, 128), inception(832, 384, 192, 384, 48, 128, 128),
        nn.AvgPool2d(7, 1), nn.Dropout(0.4), nn.Flatten(), nn.Linear(1024, 1000))


def mean_head(inputs, dropout=0):
    return [nn.AdaptiveAvgPool2d(1), nn.Dropout(dropout), nn.Flatten(), nn.Linear(inputs, 1000)]


def conv_bn(inputs, outputs, kernel, stride=1, pad=0, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(outputs))


def conv_bn_relu(*geometry):
    return nn.Sequential(conv_bn(*geometry), nn.ReLU(inplace=True))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(conv_bn_relu(inputs, outputs, 3, stride, 1), conv_bn(outputs, outputs, 3, 1, 1))
        self.shortcut = nn.Identity() if stride == 1 else conv_bn(inputs, outputs, 1, stride)

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet18():
    layers, inputs = [conv_bn_relu(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for outputs in (64, 128, 256, 512):
        layers += [BasicBlock(inputs, outputs, outputs // inputs), BasicBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, *mean_head(512))


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


def resnet(*blocks):
    """Of bottlenecks; `blocks`: how many each of the four stages has."""
    layers = [conv_bn(3, 64, 7, 2, 3), nn.ReLU(inplace=True), pool(3, 2)]
    inputs = 64
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), blocks)):
        for block in range(count):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AvgPool2d(7, 1), nn.Flatten(), nn.Linear(2048, 1000))


class GroupedBottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv_bn_relu(inputs, width, 1), conv_bn_relu(width, width, 3, stride, 1, 32), conv_bn(width, 2 * width, 1))
        self.shortcut = nn.Identity() if inputs == 2 * width else conv_bn(inputs, 2 * width, 1, stride)

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnext50():
    layers, inputs = [conv_bn_relu(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks in ((128, 3), (256, 4), (512, 6), (1024, 3)):
        for block in range(blocks):
            layers.append(GroupedBottleneck(inputs, width, 2 if width > 128 and block == 0 else 1))
            inputs = 2 * width
    return nn.Sequential(*layers, *mean_head(2048))


def bn_relu_conv(inputs, outputs, kernel, pad=0):
    return nn.Sequential(
        nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.Conv2d(inputs, outputs, kernel, 1, pad, bias=False))


def densenet121():
    layers, inputs = [conv_bn_relu(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for stage, block in enumerate((6, 12, 24, 16)):
        if stage > 0:
            layers += [bn_relu_conv(inputs, inputs // 2, 1), nn.AvgPool2d(2)]
            inputs //= 2
        for _ in range(block):
            new = nn.Sequential(bn_relu_conv(inputs, 128, 1), bn_relu_conv(128, 32, 3, 1))
            layers.append(Branches(nn.Identity(), new))
            inputs += 32
    return nn.Sequential(*layers, nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), *mean_head(inputs))


def fire(inputs, squeeze, expand):
    return nn.Sequential(
        conv_relu(inputs, squeeze, 1), Branches(conv_relu(squeeze, expand, 1), conv_relu(squeeze, expand, 3, 1, 1)))


def squeezenet():
    return nn.Sequential(
        conv_relu(3, 64, 3, 2), pool(3, 2), fire(64, 16, 64), fire(128, 16, 64), pool(3, 2),
        fire(128, 32, 128), fire(256, 32, 128), pool(3, 2),
        fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256),
        nn.Dropout(0.5), conv_relu(512, 1000, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def chain(inputs, *units):
    """Units (outputs, kernel[, stride[, pad]]) one behind the other; a kernel (height, width) keeps the size."""
    layers = []
    for outputs, kernel, *rest in units:
        rest = rest or ([1, (kernel[0] // 2, kernel[1] // 2)] if isinstance(kernel, tuple) else [])
        layers.append(conv_bn_relu(inputs, outputs, kernel, *rest))
        inputs = outputs
    return nn.Sequential(*layers)


def inception_v3():
    def average(inputs, outputs):
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), chain(inputs, (outputs, 1)))

    def mixed5(inputs, pooled):
        return Branches(
            chain(inputs, (64, 1)), chain(inputs, (48, 1), (64, 5, 1, 2)),
            chain(inputs, (64, 1), (96, 3, 1, 1), (96, 3, 1, 1)), average(inputs, pooled))

    def mixed6(n):
        row, column = (1, 7), (7, 1)
        return Branches(
            chain(768, (192, 1)), chain(768, (n, 1), (n, row), (192, column)),
            chain(768, (n, 1), (n, column), (n, row), (n, column), (192, row)), average(768, 192))

    def mixed7(inputs):
        def both():
            return Branches(chain(384, (384, (1, 3))), chain(384, (384, (3, 1))))
        return Branches(
            chain(inputs, (320, 1)), nn.Sequential(chain(inputs, (384, 1)), both()),
            nn.Sequential(chain(inputs, (448, 1), (384, 3, 1, 1)), both()), average(inputs, 192))

    return nn.Sequential(
        chain(3, (32, 3, 2), (32, 3), (64, 3, 1, 1)), pool(3, 2), chain(64, (80, 1), (192, 3)), pool(3, 2),
        mixed5(192, 32), mixed5(256, 64), mixed5(288, 64),
        Branches(chain(288, (384, 3, 2)), chain(288, (64, 1), (96, 3, 1, 1), (96, 3, 2)), pool(3, 2)),
        mixed6(128), mixed6(160), mixed6(160), mixed6(192),
        Branches(chain(768, (192, 1), (320, 3, 2)),
                 chain(768, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)), pool(3, 2)),
        mixed7(1280), mixed7(2048), *mean_head(2048, 0.5))


class UNet(nn.Module):
    """At each size: two convolutions, the smaller sizes, and two convolutions of both beside each other."""

    def __init__(self, inputs, width, smaller):
        super().__init__()
        self.down = chain(inputs, (width, 3, 1, 1), (width, 3, 1, 1))
        self.smaller = nn.Sequential(
            nn.MaxPool2d(2), UNet(width, 2 * width, smaller - 1), nn.ConvTranspose2d(2 * width, width, 2, 2),
        ) if smaller else None
        self.up = chain(2 * width, (width, 3, 1, 1), (width, 3, 1, 1)) if smaller else None

    def forward(self, x):
        x = self.down(x)
        return self.up(torch.cat([x, self.smaller(x)], 1)) if self.smaller else x


class Heads(nn.Module):
    """Attention of three heads; queries, keys and values stand beside each other in the last axis."""

    def forward(self, qkv):
        parts = qkv.unflatten(2, (3, 3, -1)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class VisionTransformer(nn.Module):
    def __init__(self, width=192, depth=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, 197, width))
        self.blocks = nn.Sequential(*[nn.Sequential(
            Residual(nn.LayerNorm(width, 1e-6), nn.Linear(width, 3 * width), Heads(), nn.Linear(width, width)),
            Residual(nn.LayerNorm(width, 1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
        ) for _ in range(depth)], nn.LayerNorm(width, 1e-6))
        self.scores = nn.Linear(width, 1000)

    def forward(self, data):
        patches = self.patches(data).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(data), -1, -1), patches], 1) + self.position
        return self.scores(self.blocks(tokens)[:, 0])


class TextHeads(Heads):
    """Attention of heads of 64 values; queries, keys and values apart."""

    def forward(self, *parts):
        parts = [part.unflatten(2, (-1, 64)).transpose(1, 2) for part in parts]
        return nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)


class TextEncoder(nn.Module):
    """The encoder of models/bert_base: scores of two classes for words (N, 128)."""

    def __init__(self, width=768, depth=12, words=30522, length=128):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "query": nn.Linear(width, width), "key": nn.Linear(width, width), "value": nn.Linear(width, width),
            "heads": TextHeads(), "proj": nn.Linear(width, width), "norm1": nn.LayerNorm(width, 1e-12), "norm2": nn.LayerNorm(width, 1e-12),
            "fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width),
        }) for _ in range(depth))
        self.pooler, self.scores = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, data):
        x = self.norm(self.words(data) + self.position)
        for block in self.blocks:
            attention = block["heads"](*(block[name](x) for name in ("query", "key", "value")))
            x = block["norm1"](x + block["proj"](attention))
            x = block["norm2"](x + block["fc2"](nn.functional.gelu(block["fc1"](x))))
        return self.scores(torch.tanh(self.pooler(x[:, 0])))


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


def mobilenet_v1():
    layers, inputs = [conv_bn_relu(3, 32, 3, 2, 1)], 32
    for outputs, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        layers += [conv_bn_relu(inputs, inputs, 3, stride, 1, inputs), conv_bn_relu(inputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, *mean_head(1024))


class Excited(nn.Module):
    """Channels times numbers that two inner products make of their means."""

    def __init__(self, width, squeezed, inner, gate):
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, squeezed), inner(), nn.Linear(squeezed, width), gate())

    def forward(self, x):
        return x * self.scale(x)[:, :, None, None]


def excited_block(inputs, width, outputs, kernel, stride, activation, excite=None):
    """The block of MobileNet v3 and EfficientNet. `excite`: squeezed channels, their activation, the gate."""
    body = [conv_bn(inputs, width, 1), activation()] if width != inputs else []
    body += [conv_bn(width, width, kernel, stride, kernel // 2, width), activation()]
    body += ([Excited(width, *excite)] if excite else []) + [conv_bn(width, outputs, 1)]
    return (Residual if stride == 1 and inputs == outputs else nn.Sequential)(*body)


def mobilenet_v3_large():
    layers, inputs = [conv_bn(3, 16, 3, 2, 1), nn.Hardswish()], 16
    for kernel, width, outputs, squeezed, activation, stride in (
            (3, 16, 16, 0, nn.ReLU, 1), (3, 64, 24, 0, nn.ReLU, 2), (3, 72, 24, 0, nn.ReLU, 1),
            (5, 72, 40, 24, nn.ReLU, 2), (5, 120, 40, 32, nn.ReLU, 1), (5, 120, 40, 32, nn.ReLU, 1),
            (3, 240, 80, 0, nn.Hardswish, 2), (3, 200, 80, 0, nn.Hardswish, 1), (3, 184, 80, 0, nn.Hardswish, 1),
            (3, 184, 80, 0, nn.Hardswish, 1), (3, 480, 112, 120, nn.Hardswish, 1), (3, 672, 112, 168, nn.Hardswish, 1),
            (5, 672, 160, 168, nn.Hardswish, 2), (5, 960, 160, 240, nn.Hardswish, 1), (5, 960, 160, 240, nn.Hardswish, 1)):
        excite = (squeezed, nn.ReLU, nn.Hardsigmoid) if squeezed else None
        layers.append(excited_block(inputs, width, outputs, kernel, stride, activation, excite))
        inputs = outputs
    return nn.Sequential(
        *layers, conv_bn(160, 960, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280),
        nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1280, 1000))


def efficientnet_b0():
    layers, inputs = [conv_bn(3, 32, 3, 2, 1), nn.SiLU()], 32
    for expand, kernel, stride, outputs, blocks in (
            (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
            (6, 3, 1, 320, 1)):
        for block in range(blocks):
            layers.append(excited_block(inputs, expand * inputs, outputs, kernel, stride if block == 0 else 1, nn.SiLU,
                                        (inputs // 4, nn.SiLU, nn.Sigmoid)))
            inputs = outputs
    return nn.Sequential(*layers, conv_bn(320, 1280, 1), nn.SiLU(), *mean_head(1280, 0.2))


class ShuffleUnit(nn.Module):
    """Two branches of `half` channels each, whose channels alternate behind it."""

    def __init__(self, inputs, half):
        super().__init__()
        self.halves = inputs == 2 * half
        stride, width = (1, half) if self.halves else (2, inputs)
        self.kept = nn.Identity() if self.halves else nn.Sequential(
            conv_bn(inputs, inputs, 3, 2, 1, inputs), conv_bn_relu(inputs, half, 1))
        self.changed = nn.Sequential(
            conv_bn_relu(width, half, 1), conv_bn(half, half, 3, stride, 1, half), conv_bn_relu(half, half, 1))

    def forward(self, x):
        kept, changed = x.chunk(2, 1) if self.halves else (x, x)
        both = torch.stack([self.kept(kept), self.changed(changed)], 2)
        return both.flatten(1, 2)


def shufflenet_v2():
    layers, inputs = [conv_bn_relu(3, 24, 3, 2, 1), nn.MaxPool2d(3, 2, 1)], 24
    for half, units in ((58, 4), (116, 8), (232, 4)):
        for _ in range(units):
            layers.append(ShuffleUnit(inputs, half))
            inputs = 2 * half
    return nn.Sequential(*layers, conv_bn_relu(464, 1024, 1), *mean_head(1024))


class Detector(nn.Module):
    """torchvision's SSD300 on VGG-16 with its choice of boxes. Gives the boxes of the first image."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection import ssd300_vgg16

        self.net = ssd300_vgg16(weights=None, weights_backbone=None, num_classes=21)

    def forward(self, images):
        return self.net(list(images))[0]["boxes"]


class Recurrent(nn.Module):
    """Scores (steps * sequences, classes) of the sequences (steps, sequences, values)."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(512, 512, 2)
        self.scores = nn.Linear(512, 10)

    def forward(self, data):
        return self.scores(self.layers(data)[0]).flatten(0, 1)


# Builder, input shape (N, C, H, W), or (steps, sequences, values), and classes; 0: the output holds no scores of classes.
NETS = {
    "lenet": (lenet, (64, 1, 28, 28), 10),
    "alexnet": (alexnet, (32, 3, 224, 224), 1000),
    "vgg_a": (lambda: vgg(1, 1, 2, 2, 2), (8, 3, 224, 224), 1000),
    "googlenet": (googlenet, (16, 3, 224, 224), 1000),
    "resnet50": (lambda: resnet(3, 4, 6, 3), (8, 3, 224, 224), 1000),
    "mobilenet_v2": (mobilenet_v2, (16, 3, 224, 224), 1000),
    "resnet18": (resnet18, (16, 3, 224, 224), 1000),
    "densenet121": (densenet121, (8, 3, 224, 224), 1000),
    "squeezenet_v1.1": (squeezenet, (16, 3, 227, 227), 1000),
    "inception_v3": (inception_v3, (8, 3, 299, 299), 1000),
    "unet": (lambda: nn.Sequential(UNet(3, 64, 4), nn.Conv2d(64, 2, 1)), (4, 3, 256, 256), 2),
    "overfeat": (overfeat, (16, 3, 231, 231), 1000),
    "vit_tiny": (VisionTransformer, (8, 3, 224, 224), 1000),
    "bert_base": (TextEncoder, (8, 128), 2),
    "vgg16": (lambda: vgg(2, 2, 3, 3, 3), (8, 3, 224, 224), 1000),
    "vgg19": (lambda: vgg(2, 2, 4, 4, 4), (8, 3, 224, 224), 1000),
    "caffenet": (caffenet, (8, 3, 227, 227), 1000),
    "alexnet_two_towers": (lambda: caffenet(norm_first=True), (8, 3, 227, 227), 1000),
    "resnet101": (lambda: resnet(3, 4, 23, 3), (8, 3, 224, 224), 1000),
    "resnext50": (resnext50, (8, 3, 224, 224), 1000),
    "mobilenet_v1": (mobilenet_v1, (8, 3, 224, 224), 1000),
    "mobilenet_v3_large": (mobilenet_v3_large, (8, 3, 224, 224), 1000),
    "shufflenet_v2": (shufflenet_v2, (8, 3, 224, 224), 1000),
    "efficientnet_b0": (efficientnet_b0, (8, 3, 224, 224), 1000),
    "vdsr": (vdsr, (16, 1, 41, 41), 0),
    "ssd300_vgg": (Detector, (1, 3, 300, 300), 0),
    "lstm": (lambda: Recurrent(nn.LSTM), (64, 32, 512), 10),
    "gru": (lambda: Recurrent(nn.GRU), (64, 32, 512), 10),
}
