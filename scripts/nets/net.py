"""The text of a prototxt, layer by layer."""

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
# BatchNorm of the nets for CIFAR-10, whose trainings are short.
CIFAR_NORM = "moving_average_fraction: 0.9"
