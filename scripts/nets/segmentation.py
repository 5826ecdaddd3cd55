"""Nets with a class for each pixel."""

from nets.net import MAX_2_2


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
