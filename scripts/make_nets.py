#!/usr/bin/env python3
"""Writes train_val.prototxt and deploy.prototxt of the nets of models/ that are too long to write by hand.

    scripts/make_nets.py             writes all of them
    scripts/make_nets.py --check     lists the files that differ from what it would write, and fails if there are any

The prototxt files are what the nets are: this script only saves typing. scripts/nets holds the nets by family. It needs
Python 3.8 and nothing else.
"""

import argparse
import pathlib
import sys

from nets.captions import lrcn
from nets.detection import rfcn_resnet50, ssd300_vgg, ssd_mobilenet, yolo_v2_tiny
from nets.inception import bvlc_googlenet, inception_v3, squeezenet
from nets.mobile import efficientnet_b0, mobilenet_v1, mobilenet_v2_cifar, mobilenet_v3_large, shufflenet_v2
from nets.net import Net
from nets.plain import alexnet_two_towers, caffenet, overfeat, vdsr, vgg
from nets.residual import densenet121, resnet101, resnet18, resnet20_cifar, resnext50
from nets.segmentation import fcn8s, unet
from nets.transformer import bert_base, vit_tiny

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"

# Folder: builder, what it is, batch, shape of an image, shape of its label, learning rate of biases (see Net).
NETS = {
    "resnet18": (resnet18, "ResNet-18", 16, (3, 224, 224), (), 2),
    "resnet101": (resnet101, "ResNet-101, first version: a downsampling block has its stride on the first 1x1 convolution", 8,
                  (3, 224, 224), (), 2),
    "densenet121": (densenet121, "DenseNet-121", 8, (3, 224, 224), (), 2),
    "squeezenet_v1.1": (squeezenet, "SqueezeNet, version 1.1", 16, (3, 227, 227), (), None),
    "bvlc_googlenet": (bvlc_googlenet, "GoogLeNet as Caffe trained it, with LRN and two auxiliary classifiers", 32, (3, 224, 224), (),
                       2),
    "inception_v3": (inception_v3, "Inception v3 without the auxiliary classifier", 8, (3, 299, 299), (), 2),
    "unet": (unet, "U-Net for two classes, with BatchNorm and padded convolutions", 4, (3, 256, 256), (256, 256), 2),
    "overfeat": (overfeat, "OverFeat, the fast model", 16, (3, 231, 231), (), 2),
    "vit_tiny": (vit_tiny, "Vision transformer ViT-Ti/16", 8, (3, 224, 224), (), 1),
    "vgg16": (lambda net: vgg(net, 2, 2, 3, 3, 3), "VGG, configuration D", 8, (3, 224, 224), (), 2),
    "vgg19": (lambda net: vgg(net, 2, 2, 4, 4, 4), "VGG, configuration E", 8, (3, 224, 224), (), 2),
    "caffenet": (caffenet, "CaffeNet, the reference net of Caffe", 8, (3, 227, 227), (), 2),
    "alexnet_two_towers": (alexnet_two_towers, "AlexNet in two towers, as published in 2012", 8, (3, 227, 227), (), 2),
    "resnext50": (resnext50, "ResNeXt-50, 32x4d", 8, (3, 224, 224), (), 2),
    "mobilenet_v1": (mobilenet_v1, "MobileNet v1, width 1", 8, (3, 224, 224), (), 2),
    "mobilenet_v3_large": (mobilenet_v3_large, "MobileNet v3, the large net of width 1", 8, (3, 224, 224), (), 2),
    "shufflenet_v2": (shufflenet_v2, "ShuffleNet v2, width 1", 8, (3, 224, 224), (), 2),
    "efficientnet_b0": (efficientnet_b0, "EfficientNet-B0", 8, (3, 224, 224), (), 2),
    "resnet20_cifar10": (resnet20_cifar, "ResNet-20 for CIFAR-10", 128, (3, 32, 32), (), 1),
    "resnet20_finetune": (lambda net: resnet20_cifar(net, "fc_fashion", 10),
                          "ResNet-20 for CIFAR-10, fine-tuned to Fashion-MNIST", 100, (3, 32, 32), (), 1),
    "mobilenet_v2_cifar10": (mobilenet_v2_cifar, "MobileNet v2, width 0.5, for CIFAR-10", 128, (3, 32, 32), (), 1),
    "fcn8s": (fcn8s, "FCN-8s for 21 classes, trained at once", 1, (3, 500, 500), (500, 500), 2),
    "vdsr": (vdsr, "VDSR, which sharpens the brightness of an enlarged image", 16, (1, 41, 41), (1, 41, 41), 0.1),
}

CIFAR_IMAGES = "mean_value: 125 mean_value: 123 mean_value: 114  scale: 0.016"
# The Data layers of nets that are trained from their files as they are.
DATA = dict.fromkeys(("resnet20_cifar10", "mobilenet_v2_cifar10"), f"""\
layer {{
  name: "data"  type: "Data"  top: "data"  top: "label"
  include {{ phase: TRAIN }}
  transform_param {{ pad: 4  crop_size: 32  mirror: true  {CIFAR_IMAGES} }}
  data_param {{ source: "data/cifar10/full/cifar10_train_lmdb"  backend: LMDB  batch_size: 128  shuffle: true }}
}}
layer {{
  name: "data"  type: "Data"  top: "data"  top: "label"
  include {{ phase: TEST }}
  transform_param {{ {CIFAR_IMAGES} }}
  data_param {{ source: "data/cifar10/full/cifar10_test_lmdb"  backend: LMDB  batch_size: 100 }}
}}""")
# Images of one channel of 28x28 pixels, 0 to 255, become three channels of 32x32, -2 to 2.
DATA["resnet20_finetune"] = """\
layer {
  name: "images"  type: "Data"  top: "images"  top: "label"
  include { phase: TRAIN }
  transform_param { force_gray: true  pad: 4  crop_size: 32  scale: 0.016 }
  data_param { source: "data/fashion-mnist/full/few.txt"  backend: IMAGE_LIST  root_folder: "data/fashion-mnist/full/few/"  batch_size: 50  shuffle: true }
}
layer {
  name: "images"  type: "Data"  top: "images"  top: "label"
  include { phase: TEST }
  transform_param { pad: 2  scale: 0.016 }
  data_param { source: "data/fashion-mnist/full/test_lmdb"  backend: LMDB  batch_size: 100 }
}
layer { name: "centred"  type: "Power"  bottom: "images"  top: "images"  power_param { shift: -2 } }
layer { name: "data"  type: "Tile"  bottom: "images"  top: "data"  tile_param { axis: 1  tiles: 3 } }"""

DATABASES = ["# The paths of the data layers are examples: README.md says how to make such databases."]
# Nets with inputs or data layers of their own. Folder: builder, what it is, comment of train_val.prototxt, learning rate
# of biases.
FED_NETS = {
    "ssd300_vgg": (ssd300_vgg, "SSD300 on VGG-16, for the 20 classes of PASCAL VOC", DATABASES, 2),
    "ssd_mobilenet": (ssd_mobilenet, "SSD300 on MobileNet v1, for the 20 classes of PASCAL VOC", DATABASES, 2),
    "yolo_v2_tiny": (yolo_v2_tiny, "Tiny YOLO v2, for the 20 classes of PASCAL VOC", DATABASES, 1),
    "rfcn_resnet50": (rfcn_resnet50, "R-FCN on ResNet-50, for the 20 classes of PASCAL VOC", [
        "# Fed by Input: README.md says what the inputs are. Their values are zeros until a program sets them."], 2),
    "bert_base": (bert_base, "An encoder of the size of BERT-base, for two classes of texts of 128 words", [
        "# Fed by Input, so that it can be timed without data; words and labels are zeros. For training, replace the",
        '# layer "data" by HDF5Data with the data sets words (N, 128) and label (N).'], 1),
    "lrcn": (lrcn, "LRCN, which writes captions: CaffeNet and two LSTM layers", [
        "# Fed by Input, so that it can be timed without data; values are zeros. For training, replace the layer",
        '# "data" as README.md says.'], 2),
}


def prototxt(name, train):
    own = name in FED_NETS
    build, title, *rest = FED_NETS[name] if own else NETS[name]
    net = Net(train, rest[-1])
    head = [f"# {title}{'' if train else ', for inference'}. Written by scripts/make_nets.py."]
    if own:
        head += rest[0] if train else []
    elif train and name in DATA:
        head = [f"{head[0]} Paths are relative to the root of the repository."]
        net.text.append(DATA[name])
    elif train:
        batch, image, label, _ = rest
        # A label of three axes is an image of values, one of two the class of each pixel.
        feed = {0: "Data layers, as in models/lenet/train_val.prototxt",
                2: "DenseImageData layers, as README.md says",
                3: "HDF5Data, as README.md says"}[len(label)]
        head += ["# Fed by Input, so that it can be timed without data; labels are zeros. For training, replace the",
                 f'# layer "data" by {feed}.']
        net.inputs(data=(batch, *image), label=(batch, *label))
    else:
        net.inputs(data=(1, *rest[1]))
    build(net)
    return "\n".join([*head, f'name: "{name}"', *net.text]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    differs = False
    for name in [*NETS, *FED_NETS]:
        for file, train in (("train_val.prototxt", True), ("deploy.prototxt", False)):
            path, text = MODELS / name / file, prototxt(name, train)
            if check:
                if not path.exists() or path.read_text() != text:
                    print(f"{path} is not what scripts/make_nets.py writes: change the script and run it")
                    differs = True
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
