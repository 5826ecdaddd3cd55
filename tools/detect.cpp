// crema detect: the boxes that a detector finds in images.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <set>

#include "core/json.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "data/boxes/label_map.hpp"
#include "data/boxes/original_boxes.hpp"
#include "layer_support/detection_rows.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/augment.pb.h"
#include "proto/detection.pb.h"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/image_net.hpp"
#include "tools/raw_detections.hpp"
#include "tools/saved_pictures.hpp"
#include "tools/trained_images.hpp"

DECLARE_string(label_map_file);
DEFINE_double(confidence_threshold, 0.5, "Show boxes of this confidence and above.");

namespace crema::tools {
namespace {

/// The only output with rows of detections.
std::string detections_of(Net& net) {
  std::vector<std::string> found;
  for (const std::string& output : net.outputs()) {
    const Shape& shape = net.blob(output).shape();
    if (shape.rank() == 4 && shape.count(0, 2) == 1 && shape[3] == kDetectionRow)
      found.push_back(output);
  }
  if (found.size() == 1) return found[0];
  throw Error("the net has the outputs ", joined(net.outputs()), ", of which ", found.size(),
              " are detections, 1 x 1 x D x 7; end it with one DetectionOutput, "
              "RegionDetectionOutput or Yolov3DetectionOutput, or name its tops with --boxes and "
              "--scores. `crema classify` names classes");
}

struct Found {
  int32_t label;
  double confidence;
  Box box;  // in pixels of the image
};

/// The best first.
void sort_found(std::vector<std::vector<Found>>& found) {
  for (auto& of_image : found)
    std::ranges::stable_sort(of_image, std::ranges::greater(), &Found::confidence);
}

std::vector<std::vector<Found>> found_by(RawDetections& raw, Net& net,
                                         std::span<const ReadImage> images) {
  std::vector<std::vector<Found>> found(images.size());
  for (const RawDetections::One& one :
       raw.found(net, static_cast<int64_t>(images.size()), FLAGS_confidence_threshold)) {
    const auto image = static_cast<size_t>(one.image);
    const auto edge = [](float value) { return static_cast<double>(value); };
    const Box box = in_original(
        {edge(one.box.xmin), edge(one.box.ymin), edge(one.box.xmax), edge(one.box.ymax)},
        images[image].size, ResizeParameter());
    found[image].push_back({one.label, one.confidence, box});
  }
  sort_found(found);
  return found;
}

/// The names of the classes that the weights say they were trained with; none where they say none.
LabelNames names_in(const std::vector<std::string>& weights) {
  LabelMap map;
  std::set<std::string> known;
  int32_t label = 0;
  for (const std::string& name : class_names_of_nets(weights)) {
    // A label map may leave out labels, and have one name for several.
    if (!name.empty() && known.insert(name).second) {
      LabelMapItem& item = *map.add_item();
      item.set_name(name);
      item.set_label(label);
    }
    ++label;
  }
  if (map.item_size() == 0) return {};
  return {map, "the weights"};
}

/// Of a label. The weights need not name it; a label map has to.
std::string name_of(const LabelNames& names, int32_t label) {
  if (FLAGS_label_map_file.empty() && !names.has(label)) return std::to_string(label);
  return names.display_name(label);
}

/// The rows of each image.
std::vector<std::vector<Found>> found_in(const Tensor& rows, std::span<const ReadImage> images) {
  std::vector<std::vector<Found>> found(images.size());
  for (int64_t row = 0; row < rows.count(); row += kDetectionRow) {
    const auto value = [&](int64_t k) { return rows.at(row + k); };
    if (value(1) < 0 || !(value(2) >= FLAGS_confidence_threshold)) continue;
    if (!(value(0) >= 0 && value(0) < static_cast<double>(images.size())))
      throw Error("a row of detections is of image ", value(0), ", and the batch has ",
                  images.size());
    const auto image = static_cast<size_t>(value(0));
    const Box box = in_original({value(3), value(4), value(5), value(6)}, images[image].size,
                                ResizeParameter());
    found[image].push_back({static_cast<int32_t>(value(1)), value(2), box});
  }
  sort_found(found);
  return found;
}

/// What an image became that showed no box: with another preprocessing than that of the training, a
/// net finds nothing.
std::string hint_for_nothing() {
  std::string missing;
  if (FLAGS_mean.empty()) missing = "--mean";
  if (FLAGS_scale == 1) missing += missing.empty() ? "--scale" : " and --scale";
  return text("; images have to become what the net was trained with, ",
              missing.empty()
                  ? "by --mean, --channel_mean, --scale and --channel_swap"
                  : text("and ", missing, missing.find(' ') == missing.npos ? " is" : " are",
                         " not given (transform_param { mean_value mean_file scale } of its "
                         "data layer; --channel_swap=rgb where that has red first)"));
}

void print_lines(const std::string& image, const std::vector<Found>& found,
                 const LabelNames& names) {
  for (const Found& one : found) {
    std::printf("%s %d %.4f %.1f %.1f %.1f %.1f%s\n", printable(image).c_str(), one.label,
                one.confidence, one.box.left, one.box.top, one.box.right, one.box.bottom,
                names.empty() ? "" : text(" ", printable(name_of(names, one.label))).c_str());
  }
}

void print_json(const std::string& image, const std::vector<Found>& found,
                const LabelNames& names) {
  const auto pixels = [](double x) { return json_number(std::round(x * 100) / 100); };
  std::vector<std::string> boxes;
  for (const Found& one : found) {
    const auto& [left, top, right, bottom] = one.box;
    boxes.push_back(
        text("{\"label\": ", one.label,
             names.empty() ? "" : ", \"name\": " + json_string(name_of(names, one.label)),
             ", \"confidence\": ", json_number(static_cast<float>(one.confidence)), ", \"box\": [",
             pixels(left), ", ", pixels(top), ", ", pixels(right), ", ", pixels(bottom), "]}"));
  }
  std::printf("{\"image\": %s, \"detections\": [%s]}\n", json_string(image).c_str(),
              joined(boxes).c_str());
}

/// The frames of a saved picture: "cat 0.92" on each.
std::vector<PictureMark> marks_of(const std::vector<Found>& found, const LabelNames& names) {
  std::vector<PictureMark> marks;
  for (const Found& one : found) {
    const std::string name =
        names.empty() ? std::to_string(one.label) : printable(name_of(names, one.label));
    char confidence[32];
    std::snprintf(confidence, sizeof confidence, " %.2f", one.confidence);
    marks.push_back({one.box, name + confidence, one.label});
  }
  return marks;
}

int detect(const std::vector<std::string>& arguments) {
  exclusive_flags("strict", FLAGS_strict, "allow_missing", FLAGS_allow_missing);
  required_flag("model", FLAGS_model);
  const std::vector<std::string> images = named_images("detect", arguments).paths;
  if (FLAGS_batch < 1) throw Error("--batch ", FLAGS_batch, " must be at least 1");
  if (!(FLAGS_confidence_threshold >= 0 && FLAGS_confidence_threshold <= 1))
    throw Error("--confidence_threshold ", FLAGS_confidence_threshold,
                " is not in [0, 1], where confidences are");
  const std::vector<std::string> files = files_of_weights(FLAGS_model, FLAGS_weights);
  const LabelNames names =
      FLAGS_label_map_file.empty() ? names_in(files) : LabelNames::read(FLAGS_label_map_file);
  RawDetections raw;
  SavedPictures pictures;
  Context context(context_options());
  NetOptions options = net_options(Phase::test);
  options.keep = raw.tops();
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  options.need_all_weights = !FLAGS_allow_missing;
  NetParameter param;
  SourceMap source;
  read_net(FLAGS_model, param, &source);
  for (LayerParameter& layer : *param.mutable_layer()) {
    // Its files are those of a test set, and these are other images.
    if (layer.detection_output_param().has_save_output_param())
      layer.mutable_detection_output_param()->clear_save_output_param();
  }
  Net net(param, source, context, std::move(options));
  const Shape sample = image_shape("detect", FLAGS_model, net);
  require_weights(net, FLAGS_model, FLAGS_weights);
  const std::string output = raw.named() ? "" : detections_of(net);
  if (raw.named()) raw.check(net, sample);
  take_trained_images(files, sample[0]);
  ImageInput input(image_options(sample, FLAGS_mean, FLAGS_channel_mean));
  size_t boxes = 0, seen = 0;
  const int status =
      for_each_batch(net, input, sample, images, [&](std::span<const ReadImage> batch) {
        const auto found =
            raw.named() ? found_by(raw, net, batch) : found_in(net.output(output), batch);
        for (size_t i = 0; i < batch.size(); ++i) {
          (FLAGS_json ? print_json : print_lines)(batch[i].path, found[i], names);
          if (pictures.wanted()) pictures.save(batch[i].path, marks_of(found[i], names), {});
          boxes += found[i].size();
        }
        seen += batch.size();
      });
  if (boxes == 0 && seen > 0) {
    std::cerr << "crema: no boxes in " << seen << (seen == 1 ? " image" : " images")
              << " of confidence " << FLAGS_confidence_threshold
              << " and above; --confidence_threshold sets it" << hint_for_nothing() << "\n";
  }
  return status;
}

}  // namespace

extern const Command kDetect = {
    "detect",
    "shows the boxes that a detector finds in images",
    "  crema detect --model deploy.prototxt --weights ssd.caffemodel --mean 104,117,123 \\\n"
    "        --label_map_file labelmap_voc.prototxt street.jpg photos/\n"
    "  crema detect --model deploy.prototxt --weights ssd.caffemodel --json --list images.txt\n"
    "  crema detect --model ssd.onnx photos/\n"
    "  crema detect --model face.prototxt --weights face.caffemodel --boxes loc --scores prob \\\n"
    "        --priors prior photos/\n"
    "\n"
    "Takes image files, folders of images, with the folders in them, and --list. Without --mean\n"
    "and --scale, these are those of the training, if the weights say them, and so are the names\n"
    "of classes without --label_map_file. An image is decoded as by data layers (blue\n"
    "first, values 0 to 255), resized to the input of the net, which need not keep its aspect\n"
    "ratio, and becomes (pixel - mean) * scale. The net has one input (N, C, H, W), and an output\n"
    "of DetectionOutput, RegionDetectionOutput or Yolov3DetectionOutput, whose save_output_param\n"
    "does not count here.\n"
    "\n"
    "A net without such a layer names its tops: --scores, the confidences N x P x classes, and\n"
    "--boxes, N x P x 4: the corners, relative or in --box_units=pixels of the input. With\n"
    "--priors, the top of PriorBox, boxes are the offsets that CENTER_SIZE decodes with its\n"
    "variances. Boxes of a class that overlap a better one by more than --nms_threshold are\n"
    "dropped. Class 0 is the background (--background_label_id); a single class is label 1.\n"
    "\n"
    "Prints a line a box, those of an image by falling confidence: image, label, confidence,\n"
    "xmin, ymin, xmax, ymax in pixels of the image, and the name of the class with\n"
    "--label_map_file. --json prints a line an image, those without boxes too.\n"
    "\n"
    "--save_images writes a copy of each image to a folder, with the boxes and their names; that\n"
    "needs a build with OpenCV.\n"
    "\n"
    "Of several images, one that cannot be read is named and left out, and the exit status is 1\n"
    "at the end; --noskip_bad stops there.",
    {"save_images",
     "overwrite",
     "model",
     "weights",
     "strict",
     "allow_missing",
     "list",
     "label_map_file",
     "confidence_threshold",
     "boxes",
     "scores",
     "priors",
     "box_units",
     "background_label_id",
     "nms_threshold",
     "mean",
     "channel_mean",
     "scale",
     "channel_swap",
     "interp",
     "batch",
     "skip_bad",
     "json",
     "gpu",
     "threads",
     "engine",
     "tune",
     "tuning_file",
     "plugin",
     "fuse",
     "level",
     "stage"},
    detect,
    1,
    NetUse::runs};

}  // namespace crema::tools
