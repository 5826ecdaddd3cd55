#!/usr/bin/env python3
"""Imports nets of torchvision that torch.onnx wrote, compares what they give with PyTorch, and trains them.

    scripts/onnx_torchvision.py                     all nets
    scripts/onnx_torchvision.py --only resnet18,vit_b_16 --no-train

Each net has random weights, and statistics of a random batch. A row says how many layers it became, the largest difference of the
outputs relative to their greatest value, and the loss in the first and the last of ten iterations of the imported prototxt with
SoftmaxWithLoss. The exit status is 1 if a net is refused, differs by more than --tolerance, or does not train.

It needs PyTorch and torchvision, with onnx (and, for newer versions of PyTorch, onnxscript), and a build with CREMA_PYTHON.
"""
import sys

import onnx_imports

# Name: height and width of the images
NETS = {
    "alexnet": 224, "vgg11": 224, "vgg16_bn": 224, "resnet18": 224, "resnet50": 224, "resnext50_32x4d": 224, "wide_resnet50_2": 224,
    "densenet121": 224, "googlenet": 224, "inception_v3": 299, "squeezenet1_0": 224, "squeezenet1_1": 224, "mobilenet_v2": 224,
    "mobilenet_v3_small": 224, "mobilenet_v3_large": 224, "mnasnet1_0": 224, "shufflenet_v2_x1_0": 224, "efficientnet_b0": 224,
    "efficientnet_v2_s": 224, "regnet_y_400mf": 224, "regnet_x_400mf": 224, "convnext_tiny": 224, "vit_b_16": 224, "swin_t": 224,
    "swin_v2_t": 256, "maxvit_t": 224,
}
SEGMENTATION = {"fcn_resnet50": 128, "deeplabv3_resnet50": 128, "deeplabv3_mobilenet_v3_large": 128, "lraspp_mobilenet_v3_large": 128}
VIDEO = {"r3d_18": (8, 64)}
BATCH = 2


def with_statistics(model, images):
    """No weights are left at 0, and BatchNorm gets the statistics of other images, of which it needs a few to be well-conditioned.

    Residual branches are small, as in trained nets: else what f32 rounds grows from block to block, in each framework.
    """
    import torch
    from torchvision.models.resnet import BasicBlock, Bottleneck
    for weights in model.parameters():
        if weights.ndim > 1 and not weights.any():
            torch.nn.init.normal_(weights, std=0.02)
    for module in model.modules():
        if isinstance(module, (BasicBlock, Bottleneck)):
            torch.nn.init.constant_((module.bn3 if isinstance(module, Bottleneck) else module.bn2).weight, 0.2)
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(torch.randn(8, *images.shape[1:]))
    return model.eval()


def export(model, inputs, path):
    """Writes the model. Returns inputs and outputs as arrays."""
    import torch
    with torch.no_grad():
        outputs = model(*inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    settings = {"input_names": [f"input{i}" if i else "input" for i in range(len(inputs))],
                "output_names": [f"output{i}" if i else "output" for i in range(len(outputs))]}
    try:
        torch.onnx.export(model, tuple(inputs), str(path), dynamo=False, opset_version=17, **settings)
    except (TypeError, RuntimeError, ModuleNotFoundError, AttributeError):
        # Newer versions have this exporter alone; it also takes operators that the other one lacks.
        torch.onnx.export(model, tuple(inputs), str(path), dynamo=True, verbose=False, **settings)
    return [value.numpy() for value in inputs], [value.numpy() for value in outputs]


def classifier(name, size):
    def write(path):
        import torch
        import torchvision
        torch.manual_seed(0)
        settings = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        model = getattr(torchvision.models, name)(weights=None, **settings)
        images = torch.randn(BATCH, 3, size, size)
        return export(with_statistics(model, images), [images], path)
    return write


def segmenter(name, size, outputs=("out",)):
    def write(path):
        import torch
        import torchvision

        class Scores(torch.nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, images):
                found = self.model(images)
                return tuple(found[name] for name in outputs)

        torch.manual_seed(0)
        settings = {"aux_loss": True} if "aux" in outputs else {}
        model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21, **settings)
        images = torch.randn(BATCH, 3, size, size)
        return export(Scores(with_statistics(model, images)), [images], path)
    return write


def features(name, size, nodes):
    """What a net gives at several of its modules: for a tagger, or a detector's heads."""
    def write(path):
        import torch
        import torchvision
        from torchvision.models.feature_extraction import create_feature_extractor

        class Levels(torch.nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = create_feature_extractor(model, return_nodes=list(nodes))

            def forward(self, images):
                found = self.model(images)
                return tuple(found[node] for node in nodes)

        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(weights=None)
        images = torch.randn(BATCH, 3, size, size)
        return export(Levels(with_statistics(model, images)).eval(), [images], path)
    return write


def video(name, frames, size):
    def write(path):
        import torch
        import torchvision
        torch.manual_seed(0)
        model = getattr(torchvision.models.video, name)(weights=None)
        clips = torch.randn(BATCH, 3, frames, size, size)
        return export(with_statistics(model, clips), [clips], path)
    return write


CASES = {name: (classifier(name, size), True) for name, size in NETS.items()}
CASES |= {name: (segmenter(name, size), True) for name, size in SEGMENTATION.items()}
CASES["deeplabv3_mobilenet_v3_large_aux"] = (segmenter("deeplabv3_mobilenet_v3_large", 128, ("out", "aux")), False)
CASES["efficientnet_b0_levels"] = (features("efficientnet_b0", 224, ("classifier", "avgpool", "features.3", "features.6")), False)
CASES |= {name: (video(name, *size), True) for name, size in VIDEO.items()}

if __name__ == "__main__":
    sys.exit(onnx_imports.main(__doc__, CASES, "onnx_torchvision"))
