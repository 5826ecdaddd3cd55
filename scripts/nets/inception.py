"""Nets whose modules have branches side by side."""

from nets.net import MAX_3_2


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

    def auxiliary_classifier(name, bottom):
        if not net.train:
            return
        net.part(f"{name}, an auxiliary classifier")
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
            auxiliary_classifier("loss1" if name == "4a" else "loss2", blob)
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
