"""Detectors: SSD, YOLO and R-FCN."""

from nets.net import MAX_2_2, MAX_3_2, dims


def rows_last(net, name, bottom):
    """(N, C, H, W) as (N, H * W * C): the channels of a place are neighbours."""
    blob = net.layer("Permute", f"{name}_perm", bottom, "permute_param { order: 0 order: 2 order: 3 order: 1 }")
    return net.layer("Flatten", f"{name}_flat", blob)


def ssd_data(net, batch, transform, samplers):
    """AnnotatedData of both phases, with the augmentation of the paper's authors in TRAIN."""
    def layer(phase, steps, database, rest, sampler):
        size = "height: 300  width: 300"
        net.layer("AnnotatedData", "data", [], f"include {{ phase: {phase} }}",
                  "transform_param {\n    " + "\n    ".join([f"{transform}", *(line.replace("SIZE", size) for line in steps)])
                  + "\n  }",
                  f'data_param {{ source: "data/voc/full/{database}"  backend: LMDB  batch_size: {rest} }}',
                  "annotated_data_param {\n    " + "\n    ".join(['label_map_file: "data/voc/labelmap.prototxt"', *sampler])
                  + "\n  }", top=["data", "label"])

    crop = "min_scale: 0.3  max_scale: 1  min_aspect_ratio: 0.5  max_aspect_ratio: 2"
    layer("TRAIN", [
        "mirror: true",
        "resize_param {\n      SIZE\n      interp_mode: LINEAR  interp_mode: AREA  interp_mode: NEAREST"
        "  interp_mode: CUBIC  interp_mode: LANCZOS4\n    }",
        "emit_constraint { emit_type: CENTER }",
        "expand_param { prob: 0.5  max_expand_ratio: 4 }",
        "distort_param {\n      brightness_prob: 0.5  brightness_delta: 32  contrast_prob: 0.5  contrast_lower: 0.5"
        "  contrast_upper: 1.5\n      hue_prob: 0.5  hue_delta: 18  saturation_prob: 0.5  saturation_lower: 0.5"
        "  saturation_upper: 1.5\n    }",
    ], "trainval_lmdb", f"{batch}  shuffle: true",
        ["batch_sampler { max_sample: 1  max_trials: 1 }  # the whole image"] + [
            f"batch_sampler {{\n      sampler {{ {crop} }}\n      sample_constraint {{ {bound} }}\n"
            "      max_sample: 1  max_trials: 50\n    }" for bound in samplers])
    layer("TEST", ["resize_param { SIZE }"], "test_lmdb", 8, [])


SSD_SAMPLERS = [f"min_jaccard_overlap: {overlap}" for overlap in (0.1, 0.3, 0.5, 0.7, 0.9)] + ["max_jaccard_overlap: 1"]
# Other readers of prototxts have other defaults, or none, of flip and clip, and of what DETECTION holds.
PRIORS = "flip: true  clip: false  variance: 0.1  variance: 0.1  variance: 0.2  variance: 0.2"
DETECTION = "share_location: true  background_label_id: 0  code_type: CENTER_SIZE"


def ssd_heads(net, sources, kernel, filler, classes=21):
    """Locations, scores and prior boxes at each source (blob, boxes of a place, prior_box_param), and what follows.
    In TEST and for inference: boxes, in training the loss."""
    for blob, boxes, settings in sources:
        net.part(f"boxes at {blob}")
        for kind, values in (("loc", 4), ("conf", classes)):
            name = f"{blob}_mbox_{kind}"
            net.conv(name, blob, boxes * values, kernel, 1, kernel // 2, filler=filler)
            rows_last(net, name, name)
        net.layer("PriorBox", f"{blob}_mbox_priorbox", [blob, "data"], f"prior_box_param {{ {settings}  {PRIORS} }}")
    net.part("all boxes")
    names = [blob for blob, *_ in sources]
    loc = net.layer("Concat", "mbox_loc", [f"{name}_mbox_loc_flat" for name in names])
    conf = net.layer("Concat", "mbox_conf", [f"{name}_mbox_conf_flat" for name in names])
    prior = net.layer("Concat", "mbox_priorbox", [f"{name}_mbox_priorbox" for name in names], "concat_param { axis: 2 }")
    test = []
    if net.train:
        net.layer("MultiBoxLoss", "mbox_loss", [loc, conf, prior, "label"], "include { phase: TRAIN }",
                  f"multibox_loss_param {{ num_classes: {classes}  {DETECTION}  neg_pos_ratio: 3  neg_overlap: 0.5 }}")
        test = ["include { phase: TEST }"]
    rows = net.layer("Reshape", "mbox_conf_reshape", conf, *test, f"reshape_param {{ {dims(0, -1, classes)} }}")
    rows = net.layer("Softmax", "mbox_conf_softmax", rows, *test, "softmax_param { axis: 2 }")
    rows = net.layer("Flatten", "mbox_conf_flatten", rows, *test)
    blob = net.layer("DetectionOutput", "detection_out", [loc, rows, prior], *test,
                     f"detection_output_param {{\n    num_classes: {classes}  {DETECTION}"
                     "\n    nms_param { nms_threshold: 0.45  top_k: 400 }"
                     "  keep_top_k: 200  confidence_threshold: 0.01\n  }")
    if net.train:
        net.layer("DetectionEvaluate", "detection_eval", [blob, "label"], *test,
                  f"detection_evaluate_param {{ num_classes: {classes}  evaluate_difficult_gt: false }}")


def ssd300_vgg(net):
    if net.train:
        ssd_data(net, 32, "mean_value: 104  mean_value: 117  mean_value: 123", SSD_SAMPLERS)
    else:
        net.inputs(data=(1, 3, 300, 300))
    xavier = 'type: "xavier"'
    blob = "data"
    for stage, (count, outputs) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for number in range(1, count + 1):
            name = f"{stage}_{number}"
            blob = net.conv_relu(f"conv{name}", blob, outputs, 3, 1, 1, relu=f"relu{name}", filler=xavier)
        blob = net.pool(f"pool{stage}", blob, MAX_2_2 if stage < 5 else "pool: MAX  kernel_size: 3  pad: 1  stride: 1")
    blob = net.conv_relu("fc6", blob, 1024, 3, 1, 6, dilation=6, relu="relu6", filler=xavier)
    blob = net.conv_relu("fc7", blob, 1024, 1, relu="relu7", filler=xavier)
    for stage, outputs, stride in ((6, 512, 2), (7, 256, 2), (8, 256, 1), (9, 256, 1)):
        name = f"conv{stage}"
        blob = net.conv_relu(f"{name}_1", blob, outputs // 2, 1, relu=f"{name}_1_relu", filler=xavier)
        blob = net.conv_relu(f"{name}_2", blob, outputs, 3, stride, stride - 1, relu=f"{name}_2_relu", filler=xavier)
    net.layer("Normalize", "conv4_3_norm", "conv4_3",
              'norm_param { across_spatial: false  channel_shared: false  scale_filler { type: "constant" value: 20 } }')
    sides = (30, 60, 111, 162, 213, 264, 315)
    ssd_heads(net, [
        (blob, 4 + 2 * more, f"min_size: {sides[i]}  max_size: {sides[i + 1]}  aspect_ratio: 2"
         + ("  aspect_ratio: 3" if more else "") + f"  step: {step}")
        for i, (blob, more, step) in enumerate((("conv4_3_norm", 0, 8), ("fc7", 1, 16), ("conv6_2", 1, 32),
                                                ("conv7_2", 1, 64), ("conv8_2", 0, 100), ("conv9_2", 0, 300)))],
        3, xavier)


def ssd_mobilenet(net):
    if net.train:
        ssd_data(net, 24, "mean_value: 127.5  scale: 0.007843", SSD_SAMPLERS)
    else:
        net.inputs(data=(1, 3, 300, 300))

    def unit(name, bottom, *geometry, group=1):
        top = net.conv(name, bottom, *geometry, group=group, bias=False)
        return net.norm([f"{name}/bn", f"{name}/scale", f"{name}/relu"], top, top,
                        learning="param { decay_mult: 0 }  param { lr_mult: 2 decay_mult: 0 }")

    blob = unit("conv0", "data", 32, 3, 2, 1)
    channels = 32
    for number, (outputs, stride) in enumerate(((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1),
                                                (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)), 1):
        blob = unit(f"conv{number}/dw", blob, channels, 3, stride, 1, group=channels)
        blob = unit(f"conv{number}", blob, outputs, 1)
        channels = outputs
    for number, outputs in ((14, 512), (15, 256), (16, 256), (17, 128)):
        blob = unit(f"conv{number}_1", blob, outputs // 2, 1)
        blob = unit(f"conv{number}_2", blob, outputs, 3, 2, 1)
    sides = (105, 150, 195, 240, 285, 300)
    ssd_heads(net, [("conv11", 3, "min_size: 60  aspect_ratio: 2")] + [
        (blob, 6, f"min_size: {sides[i]}  max_size: {sides[i + 1]}  aspect_ratio: 2  aspect_ratio: 3")
        for i, blob in enumerate(("conv13", "conv14_2", "conv15_2", "conv16_2", "conv17_2"))], 1, 'type: "msra"')


def yolo_v2_tiny(net):
    biases = "\n    ".join("  ".join(f"biases: {side}" for side in row) for row in (
        (1.08, 1.19, 3.42, 4.41, 6.63, 11.38), (9.42, 5.11, 16.62, 10.52)))
    if net.train:
        transform = "scale: 0.00392156863  bgr2rgb: true"
        labels = '    label_map_file: "data/voc/labelmap.prototxt"\n'
        net.layer("AnnotatedData", "data", [], "include { phase: TRAIN }",
                  f"transform_param {{\n    {transform}  mirror: true\n    resize_param {{ height: 416  width: 416 }}\n"
                  "    emit_constraint { emit_type: CENTER }\n    expand_param { prob: 0.5  max_expand_ratio: 1.4 }\n"
                  "    distort_param {\n      brightness_prob: 0.5  brightness_delta: 32  contrast_prob: 0.5"
                  "  contrast_lower: 0.67  contrast_upper: 1.5\n      hue_prob: 0.5  hue_delta: 18"
                  "  saturation_prob: 0.5  saturation_lower: 0.67  saturation_upper: 1.5\n    }\n  }",
                  'data_param { source: "data/voc/full/trainval_lmdb"  backend: LMDB  batch_size: 8  shuffle: true }',
                  "annotated_data_param {\n" + labels +
                  "    batch_sampler { max_sample: 1  max_trials: 1 }  # the whole image\n    batch_sampler {\n"
                  "      sampler { min_scale: 0.6  max_scale: 1  min_aspect_ratio: 0.67  max_aspect_ratio: 1.5 }\n"
                  "      max_sample: 1  max_trials: 50\n    }\n  }", top=["data", "label"])
        net.layer("AnnotatedData", "data", [], "include { phase: TEST }",
                  f"transform_param {{ {transform}  resize_param {{ height: 416  width: 416 }} }}",
                  'data_param { source: "data/voc/full/test_lmdb"  backend: LMDB  batch_size: 8 }',
                  "annotated_data_param {\n" + labels + "  }", top=["data", "label"])
    else:
        net.inputs(data=(1, 3, 416, 416))
    blob = "data"
    for number, outputs in enumerate((16, 32, 64, 128, 256, 512, 1024, 1024), 1):
        name = f"conv{number}"
        blob = net.conv(name, blob, outputs, 3, 1, 1, bias=False)
        net.norm([f"{name}/bn", f"{name}/scale"], blob, blob, "eps: 0.000001  moving_average_fraction: 0.99",
                 learning="param { decay_mult: 0 }  param { decay_mult: 0 }")
        net.layer("ReLU", f"{name}/leaky", blob, "relu_param { negative_slope: 0.1 }", top=blob)
        if number < 6:
            blob = net.pool(f"pool{number}", blob, MAX_2_2)
        elif number == 6:
            net.part("The windows of place (i, j) are rows i, i + 1 and columns j, j + 1: padding makes 14 x 14, the first are cut off.")
            blob = net.pool("pool6", blob, "pool: MAX  kernel_size: 2  pad: 1  stride: 1")
            blob = net.layer("Crop", "pool6/crop", [blob, name], "crop_param { axis: 2  offset: 1 }")
    net.part("at each place five boxes of x, y, width, height, object and 20 classes")
    blob = net.conv("conv9", blob, 125, 1)
    test = []
    if net.train:
        net.layer("RegionLoss", "loss", [blob, "label"], "include { phase: TRAIN }",
                  "region_loss_param {\n    num_class: 20  num: 5  object_scale: 5  noobject_scale: 1  class_scale: 1"
                  f"  coord_scale: 1  thresh: 0.6\n    {biases}\n  }}")
        test = ["include { phase: TEST }"]
    blob = net.layer("RegionDetectionOutput", "detection_out", blob, *test,
                     "region_detection_output_param {\n    num_classes: 20  num_box: 5  confidence_threshold: 0.01"
                     f"  nms_threshold: 0.45\n    {biases}\n  }}")
    if net.train:
        net.layer("DetectionEvaluate", "detection_eval", [blob, "label"], *test,
                  "detection_evaluate_param { num_classes: 21  evaluate_difficult_gt: false }")


def rfcn_resnet50(net):
    rois = 300
    if net.train:
        net.inputs(data=(1, 3, 600, 1000), rpn_labels=(1, 1, 342, 63), rpn_bbox_targets=(1, 36, 38, 63),
                   rpn_bbox_inside_weights=(1, 36, 38, 63), rpn_bbox_outside_weights=(1, 36, 38, 63), rois=(rois, 5),
                   labels=(rois, 1, 1, 1), bbox_targets=(rois, 8, 1, 1), bbox_inside_weights=(rois, 8, 1, 1))
    else:
        net.inputs(data=(1, 3, 600, 1000))
        net.layer("Input", "im_info", [], f'exclude {{ stage: "timing" }}  input_param {{ {dims(1, 3)} }}')
        fill = "  ".join([dims(1, 1)] * 3 + [f'data_filler {{ type: "constant" value: {v} }}' for v in (600, 1000, 1)])
        parts = net.layer("DummyData", "im_info_values", [], 'include { stage: "timing" }',
                          f"dummy_data_param {{ {fill} }}", top=["height", "width", "image_scale"])
        net.layer("Concat", "im_info_timing", parts, 'include { stage: "timing" }', top="im_info")

    def unit(name, bottom, outputs, kernel, stride=1, dilation=1, relu=True, lr=1):
        top = net.conv(name, bottom, outputs, kernel, stride, kernel // 2 * dilation, dilation=dilation, lr=lr,
                       bias=name == "conv1")
        rest = name[len("res"):] if name.startswith("res") else "_" + name
        return net.norm([f"bn{rest}", f"scale{rest}"] + ([f"{name}_relu"] if relu else []), top, top,
                        "use_global_stats: true" if net.train else "", learning=net.learning(0, 0))

    blob = net.pool("pool1", unit("conv1", "data", 64, 7, 2, lr=0), MAX_3_2)
    for stage, width, blocks in ((2, 64, "abc"), (3, 128, "abcd"), (4, 256, "abcdef"), (5, 512, "abc")):
        lr = 0 if stage == 2 else 1
        for block in blocks:
            name = f"res{stage}{block}"
            net.part(name)
            stride = 2 if stage in (3, 4) and block == "a" else 1
            shortcut = unit(f"{name}_branch1", blob, 4 * width, 1, stride, relu=False, lr=lr) if block == "a" else blob
            blob = unit(f"{name}_branch2a", blob, width, 1, stride, lr=lr)
            blob = unit(f"{name}_branch2b", blob, width, 3, dilation=2 if stage == 5 else 1, lr=lr)
            blob = unit(f"{name}_branch2c", blob, 4 * width, 1, relu=False, lr=lr)
            blob = net.relu(f"{name}_relu", net.layer("Eltwise", name, [shortcut, blob]))
    normal = 'type: "gaussian" std: 0.01'
    net.part("the regions: scores and offsets of nine anchors at each place of res4f")
    regions = net.weights("Convolution", "rpn_conv/3x3", "res4f", "num_output: 512  kernel_size: 3  pad: 1", filler=normal,
                          top="rpn/output") or "rpn/output"
    net.relu("rpn_relu/3x3", regions)
    scores = net.conv("rpn_cls_score", regions, 18, 1, filler=normal)
    offsets = net.conv("rpn_bbox_pred", regions, 36, 1, filler=normal)
    scores = net.layer("Reshape", "rpn_cls_score_reshape", scores, f"reshape_param {{ {dims(0, 2, -1, 0)} }}")
    if net.train:
        net.layer("SoftmaxWithLoss", "rpn_loss_cls", [scores, "rpn_labels"], "loss_param { ignore_label: -1 }",
                  top="rpn_cls_loss")
        net.layer("SmoothL1Loss", "rpn_loss_bbox", [offsets, *(f"rpn_bbox_{each}" for each in (
            "targets", "inside_weights", "outside_weights"))], "smooth_l1_loss_param { sigma: 3 }")
    else:
        scores = net.layer("Softmax", "rpn_cls_prob", scores)
        scores = net.layer("Reshape", "rpn_cls_prob_reshape", scores, f"reshape_param {{ {dims(0, 18, -1, 0)} }}")
        net.layer("Proposal", "proposal", [scores, offsets, "im_info"],
                  "proposal_param {\n    feat_stride: 16  base_size: 16  " + "  ".join(
                      [f"ratio: {ratio}" for ratio in (0.5, 1, 2)] + [f"scale: {scale}" for scale in (8, 16, 32)])
                  + "\n    pre_nms_topn: 6000  post_nms_topn: 300  nms_thresh: 0.7  min_size: 16\n  }", top="rois")
    net.part("the maps: 7 x 7 for each class, and for the offsets of background and object")
    blob = net.conv_relu("conv_new_1", blob, 1024, 1, relu="conv_new_1_relu", filler=normal)
    maps = [net.conv("rfcn_cls", blob, 21 * 49, 1, filler=normal), net.conv("rfcn_bbox", blob, 8 * 49, 1, filler=normal)]
    net.part("the regions' scores and offsets")
    means = []
    for kind, blob, count, top in (("cls", maps[0], 21, "cls_score"), ("loc", maps[1], 8, "bbox_pred")):
        blob = net.layer("PSROIPooling", f"psroipooled_{kind}_rois", [blob, "rois"],
                         f"psroi_pooling_param {{ spatial_scale: 0.0625  output_dim: {count}  group_size: 7 }}")
        means.append(net.layer("Pooling", f"ave_{top}_rois", blob, "pooling_param { pool: AVE  kernel_size: 7  stride: 7 }",
                               top=top))
    scores, offsets = means
    if not net.train:
        net.layer("Softmax", "cls_prob", scores)
        return
    net.part("the 128 regions with the greatest loss learn")
    still = "propagate_down: false"
    net.layer("SoftmaxWithLossOHEM", "per_roi_loss_cls", [scores, "labels"],
              "  ".join(["loss_weight: 0"] * 3 + [still] * 2), top=["temp_loss_cls", "temp_prob_cls", "per_roi_loss_cls"])
    net.layer("SmoothL1LossOHEM", "per_roi_loss_bbox", [offsets, "bbox_targets", "bbox_inside_weights"],
              "  ".join(["loss_weight: 0"] * 2 + [still] * 3), top=["temp_loss_bbox", "per_roi_loss_bbox"])
    losses = net.layer("Eltwise", "per_roi_loss", ["per_roi_loss_cls", "per_roi_loss_bbox"], "  ".join([still] * 2))
    net.layer("BoxAnnotatorOHEM", "annotator_detector", ["rois", losses, "labels", "bbox_inside_weights"],
              "  ".join([still] * 4), "box_annotator_ohem_param { roi_per_img: 128  ignore_label: -1 }",
              top=["labels_ohem", "bbox_loss_weights_ohem"])
    net.layer("Silence", "silence", ["temp_loss_cls", "temp_prob_cls", "temp_loss_bbox"], top=[])
    net.layer("SoftmaxWithLoss", "loss", [scores, "labels_ohem"], "loss_param { ignore_label: -1 }", top="loss_cls")
    net.layer("SmoothL1LossOHEM", "loss_bbox", [offsets, "bbox_targets", "bbox_loss_weights_ohem"],
              "loss_param { normalization: PRE_FIXED  pre_fixed_normalizer: 128 }")
