"""Nets without branches."""

from nets.net import MAX_2_2, MAX_3_2


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


def vdsr(net):
    blob = "data"
    for number in range(1, 20):
        blob = net.conv_relu(f"conv{number}", blob, 64, 3, 1, 1, relu=f"relu{number}")
    blob = net.layer("Eltwise", "sum", ["data", net.conv("conv20", blob, 1, 3, 1, 1)])
    if net.train:
        net.layer("EuclideanLoss", "loss", [blob, "label"])
