"""Nets of depthwise convolutions."""

import functools

from nets.net import CIFAR_NORM, FLOOR


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
