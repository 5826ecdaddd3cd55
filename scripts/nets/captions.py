"""Nets that write a sentence about an image."""

from nets.plain import two_towers


def lrcn(net):
    words, size = 8801, 1000
    uniform = 'type: "uniform" min: -0.08 max: 0.08'
    if net.train:
        net.inputs(data=(16, 3, 227, 227), cont_sentence=(20, 16), input_sentence=(20, 16), target_sentence=(20, 16))
    else:
        net.inputs(data=(1, 3, 227, 227), cont_sentence=(1, 1), input_sentence=(1, 1))
    two_towers(net, False, "local_size: 5  alpha: 0.0001  beta: 0.75", 0.005, lr=0, scores_lr=0.1)

    filler = f"  weight_filler {{ {uniform} }}" if net.train else ""

    def lstm(number, *bottoms):
        return net.layer("LSTM", f"lstm{number}", list(bottoms), f"recurrent_param {{ num_output: {size}{filler} }}")

    net.part("words, then words and image")
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
