#!/usr/bin/env python3
"""Imports models of ONNX that PyTorch, scikit-learn and Keras wrote, beside nets of torchvision (onnx_torchvision.py).

    scripts/onnx_exports.py
    scripts/onnx_exports.py --only lstm_tagger,sklearn_classifier

A row says how many layers a net became, the largest difference of the outputs relative to their greatest value, and the loss of ten
iterations. Cases whose package is missing are named and left out: torch (with onnx), skl2onnx (with scikit-learn), tf2onnx (with
TensorFlow and Keras). It needs a build with CREMA_PYTHON.
"""
import sys

import onnx_imports
from onnx_torchvision import export


def tagger(kind, with_states=False, **settings):
    """Scores of each step of sequences of words, and the states behind the last one."""
    def write(path):
        import torch

        class Tagger(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words = torch.nn.Embedding(50, 12)
                self.steps = getattr(torch.nn, kind)(12, 16, batch_first=True, **settings)
                self.scores = torch.nn.Linear(32 if settings.get("bidirectional") else 16, 7)

            def forward(self, words):
                steps, last = self.steps(self.words(words))
                scores = self.scores(steps)
                if not with_states:
                    return scores
                return (scores, *last) if isinstance(last, tuple) else (scores, last)

        torch.manual_seed(0)
        return export(Tagger().eval(), [torch.randint(0, 50, (3, 9))], path)
    return write


def torch_net(make, *shape):
    def write(path):
        import torch
        torch.manual_seed(0)
        return export(make(torch).eval(), [torch.randn(*shape)], path)
    return write


def unet(torch):
    nn = torch.nn

    def block(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                             nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([block(3, 8), block(8, 16), block(16, 32)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
            self.join = nn.ModuleList([block(32, 16), block(16, 8)])
            self.scores = nn.Conv2d(8, 4, 1)

        def forward(self, x):
            kept = []
            for i, down in enumerate(self.down):
                x = down(x)
                if i < 2:
                    kept.append(x)
                    x = nn.functional.max_pool2d(x, 2)
            for up, join in zip(self.up, self.join):
                x = join(torch.cat([up(x), kept.pop()], 1))
            return self.scores(x)

    return UNet()


def yolo_like(torch):
    """A head over two scales: SiLU, spatial pyramid pooling, upsampling by two, decoded boxes."""
    nn = torch.nn

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            def conv(inputs, outputs, kernel=3, stride=1):
                return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())
            self.stem, self.mid, self.deep = conv(3, 8, 3, 2), conv(8, 16, 3, 2), conv(16, 32, 3, 2)
            self.pooled, self.small = conv(128, 16, 1), conv(32, 16, 3)
            self.heads = nn.ModuleList([nn.Conv2d(16, 3 * 9, 1), nn.Conv2d(16, 3 * 9, 1)])

        def forward(self, x):
            mid = self.mid(self.stem(x))
            x = self.deep(mid)
            pools = [x]
            for _ in range(3):
                pools.append(nn.functional.max_pool2d(pools[-1], 5, 1, 2))
            deep = self.pooled(torch.cat(pools, 1))
            small = self.small(torch.cat([mid, nn.functional.interpolate(deep, scale_factor=2.0)], 1))
            boxes = []
            for head, level, stride in ((self.heads[0], small, 4.0), (self.heads[1], deep, 8.0)):
                y = head(level)
                n, _, h, w = y.shape
                y = y.view(n, 3, 9, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
                rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
                grid = torch.stack((columns, rows), 2).view(1, 1, h, w, 2).float()
                middle = (y[..., 0:2] * 2 - 0.5 + grid) * stride
                size = (y[..., 2:4] * 2) ** 2 * stride
                boxes.append(torch.cat((middle, size, y[..., 4:]), -1).view(n, -1, 9))
            return torch.cat(boxes, 1)

    return Head()


def ssd_like(torch):
    """Scores and offsets of two levels, as heads of SSD give them."""
    nn = torch.nn

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU6())
            self.b = nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU6())
            self.scores = nn.ModuleList([nn.Conv2d(16, 4 * 6, 3, padding=1) for _ in range(2)])
            self.boxes = nn.ModuleList([nn.Conv2d(16, 4 * 4, 3, padding=1) for _ in range(2)])

        def forward(self, x):
            levels = [self.a(x)]
            levels.append(self.b(levels[0]))
            def flat(heads, width):
                return torch.cat([head(level).permute(0, 2, 3, 1).reshape(x.shape[0], -1, width) for head, level in zip(heads, levels)], 1)
            return torch.softmax(flat(self.scores, 6), -1), flat(self.boxes, 4)

    return Head()


def transformer(torch):
    layer = torch.nn.TransformerEncoderLayer(24, 4, 48, batch_first=True, activation="gelu", norm_first=True)
    return torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.nn.Linear(24, 5))


def sklearn_net(kind):
    def write(path):
        import numpy
        from skl2onnx import to_onnx
        from sklearn.neural_network import MLPClassifier, MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        random = numpy.random.default_rng(0)
        x = random.normal(3, 2, (120, 6)).astype(numpy.float32)
        made = MLPRegressor(hidden_layer_sizes=(16, 8), max_iter=60, random_state=0) if kind == "regressor" else \
            MLPClassifier(hidden_layer_sizes=(16,), max_iter=60, random_state=0)
        y = x @ random.normal(size=6) if kind == "regressor" else (x.sum(1) * 2).astype(int) % 3
        model = make_pipeline(StandardScaler(), made) if kind != "regressor" else made
        model.fit(x, y)
        options = {} if kind == "regressor" else {"options": {id(model): {"zipmap": False}}}
        path.write_bytes(to_onnx(model, x[:5], target_opset=17, **options).SerializeToString())
        if kind == "regressor":
            return [x[:5]], [model.predict(x[:5]).reshape(-1, 1)]
        return [x[:5]], [model.predict(x[:5]), model.predict_proba(x[:5])]
    return write


def keras_net(kind):
    """Exported with a batch of 2. BatchNorm gets the statistics of other images."""
    def write(path):
        import keras
        import numpy
        import tensorflow
        import tf2onnx
        keras.utils.set_random_seed(0)
        random = numpy.random.default_rng(0)
        layers = keras.layers
        size = {"steps": (7, 5), "words": (9,), "mobilenet_v3": (64, 64, 3)}.get(kind, (32, 32, 3))
        inputs = x = keras.Input(size)
        if kind == "convolutions":
            x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
            x = layers.BatchNormalization()(x)
            x = layers.DepthwiseConv2D(3, 2, padding="same")(x)
            x = layers.MaxPooling2D()(layers.LeakyReLU()(x))
            x = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
        elif kind == "unet":
            x = kept = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
            x = layers.SeparableConv2D(16, 3, padding="same")(layers.MaxPooling2D()(x))
            x = layers.Activation("swish")(layers.BatchNormalization()(x))
            x = layers.Conv2DTranspose(8, 3, padding="same")(layers.UpSampling2D()(x))
            x = layers.Conv2D(5, 3, padding="same")(layers.ZeroPadding2D()(layers.Concatenate()([x, kept])))
        elif kind == "steps":
            x = layers.Dense(4)(layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x))
        elif kind == "words":
            x = layers.GlobalMaxPooling1D()(layers.Conv1D(6, 3, activation="relu")(layers.Embedding(20, 8)(x)))
            x = layers.Dense(3)(layers.LayerNormalization()(x))
        elif kind == "mobilenet_v3":
            x = keras.applications.MobileNetV3Small(size, weights=None, classes=10, classifier_activation=None, include_preprocessing=False)(x)
        else:
            x = keras.applications.MobileNetV2(size, weights=None, classes=10, classifier_activation=None)(x)
        model = keras.Model(inputs, x)

        def some(count):
            shape = (count, *size)
            return (random.integers(0, 20, shape) if kind == "words" else random.normal(size=shape)).astype(numpy.float32)

        for layer in model._flatten_layers():
            if isinstance(layer, layers.BatchNormalization):
                layer.momentum = 0.0
        model(some(8), training=True)
        values = some(2)
        function = tensorflow.function(lambda x: model(x, training=False),
                                       input_signature=[tensorflow.TensorSpec(values.shape, tensorflow.float32, name="x")])
        tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=17, output_path=str(path))
        return [values], [model(values, training=False).numpy()]
    return write


CASES = {
    "lstm_tagger": (tagger("LSTM"), False), "lstm_tagger_2_layers": (tagger("LSTM", num_layers=2, bidirectional=True), False),
    "gru_tagger": (tagger("GRU"), False), "gru_tagger_both_ways": (tagger("GRU", bidirectional=True), False),
    "rnn_tagger": (tagger("RNN"), False), "lstm_tagger_with_states": (tagger("LSTM", True), False),
    "gru_tagger_with_states": (tagger("GRU", True, bidirectional=True), False),
    "unet": (torch_net(unet, 2, 3, 32, 32), True), "yolo_like": (torch_net(yolo_like, 2, 3, 64, 64), False),
    "ssd_like": (torch_net(ssd_like, 2, 3, 48, 48), False), "transformer": (torch_net(transformer, 2, 6, 24), False),
    "sklearn_classifier": (sklearn_net("classifier"), False), "sklearn_regressor": (sklearn_net("regressor"), False),
    "keras_convolutions": (keras_net("convolutions"), True), "keras_unet": (keras_net("unet"), False),
    "keras_lstm": (keras_net("steps"), False), "keras_words": (keras_net("words"), True),
    "keras_mobilenet_v2": (keras_net("mobilenet"), True), "keras_mobilenet_v3": (keras_net("mobilenet_v3"), True),
}

if __name__ == "__main__":
    sys.exit(onnx_imports.main(__doc__, CASES, "onnx_exports"))
