"""Nets of attention."""

from nets.net import dims


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


def bert_base(net):
    width, heads, depth, words = 768, 12, 12, 30522
    normal = 'type: "gaussian" std: 0.02'
    free = "param { decay_mult: 0 }"
    filled = f"  weight_filler {{ {normal} }}" if net.train else ""

    def norm(name, bottom):
        learning = [f"{free}  {free}"] if net.train else []
        return net.layer("LayerNorm", name, bottom, *learning, "layer_norm_param { eps: 1e-12 }")

    def linear(name, bottom, outputs):
        return net.inner_product(name, bottom, outputs, "  axis: -1", filler=normal)

    if net.train:
        net.inputs(words=(8, 128), label=(8,))
    else:
        net.inputs(words=(1, 128))
    net.part("vectors of the words and of their positions")
    blob = net.layer("Embed", "embedding", "words",
                     f"embed_param {{ num_output: {width}  input_dim: {words}  bias_term: false{filled} }}")
    learning, filler = ([free], f"  filler {{ {normal} }}") if net.train else ([], "")
    net.layer("Bias", "position", blob, *learning, f"bias_param {{ axis: 1  num_axes: 2{filler} }}", top=blob)
    blob = norm("norm", blob)
    for block in range(1, depth + 1):
        name = f"block{block}"
        net.part(name)
        parts = [linear(f"{name}/{each}", blob, width) for each in ("query", "key", "value")]
        part = net.layer("Attention", f"{name}/attention", parts, f"attention_param {{ num_heads: {heads} }}")
        blob = norm(f"{name}/norm1", net.layer("Eltwise", f"{name}/sum1", [blob, linear(f"{name}/proj", part, width)]))
        part = linear(f"{name}/fc1", blob, 4 * width)
        part = net.layer("GELU", f"{name}/gelu", part, top=part)
        blob = norm(f"{name}/norm2", net.layer("Eltwise", f"{name}/sum2", [blob, linear(f"{name}/fc2", part, width)]))
    net.part("scores, from the first word")
    first, rest = net.layer("Slice", "first", blob, "slice_param { axis: 1  slice_point: 1 }", top=["first", "rest"])
    net.layer("Silence", "silence", rest, top=[])
    pooled = net.inner_product("pooler", first, width, filler=normal)
    net.ending(net.inner_product("fc", net.activation("TanH", "pooler/tanh", pooled), 2, filler=normal))
