"""Nets with shortcuts: ResNet, ResNeXt and DenseNet."""

import functools

from nets.net import CIFAR_NORM, FLOOR, MAX_3_2


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
