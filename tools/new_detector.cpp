// crema new for images with boxes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/counted.hpp"
#include "data/boxes/annotation_files.hpp"
#include "data/converters/converters.hpp"
#include "data/images/image_decoder.hpp"
#include "data/records/class_list.hpp"
#include "data/records/image_list.hpp"
#include "model/text_format.hpp"
#include "proto/detection.pb.h"
#include "tools/new_project.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

struct Boxes {
  std::string ending;                 // ".xml" or ".txt"
  std::vector<std::string> classes;   // from label 1 on
  std::vector<double> sides, ratios;  // of boxes: square roots of areas, and widths over heights
  int64_t count = 0;
};

std::string text_of_file(const std::string& path) {
  std::string bytes;
  read_file_bytes(path, bytes);
  return bytes;
}

/// The file of boxes of an image, by its name; "" if there is none.
std::string boxes_of_image(const std::string& image, const std::string& folder,
                           const std::string& ending) {
  std::error_code none;
  const fs::path name = fs::path(image).replace_extension();
  for (const fs::path& place : {name, name.filename()}) {
    const std::string file = place.string() + ending;
    if (fs::is_regular_file(folder + file, none)) return file;
  }
  return {};
}

/// The names of YOLO's classes: a list beside the files, else numbers.
std::vector<std::string> yolo_classes(const std::string& folder,
                                      const std::vector<std::string>& files) {
  std::error_code none;
  for (const fs::path& place : {fs::path(folder), fs::path(folder).parent_path().parent_path()}) {
    for (const char* list : {"classes.txt", "obj.names", "data.yaml", "dataset.yaml"}) {
      if (fs::is_regular_file(place / list, none)) return read_class_list((place / list).string());
    }
  }
  int64_t most = -1;
  for (const std::string& file : files) {
    std::istringstream lines(text_of_file(folder + file));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int64_t label = -1;
      if (words >> label) most = std::max(most, label);
    }
  }
  std::vector<std::string> names;
  for (int64_t i = 0; i <= most; ++i) names.push_back(text("class", i));
  return names;
}

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

/// Priors have a box of ratio 1, and another one of the same is none.
double ratio_beside_one(double ratio, double other) {
  ratio = std::clamp(ratio, 0.2, 5.0);
  if (std::abs(std::log(ratio)) < 0.15) ratio = ratio < 1 ? 0.8 : 1.25;
  if (std::abs(ratio - other) < 0.05) ratio = 1 / ratio;
  return std::round(ratio * 100) / 100;
}

LabelMap label_map(const std::vector<std::string>& classes) {
  LabelMap map;
  const auto add = [&](const std::string& name, const std::string& display_name) {
    LabelMapItem& item = *map.add_item();
    item.set_label(map.item_size() - 1);
    item.set_name(name);
    item.set_display_name(display_name);
  };
  add("none_of_the_above", "background");
  for (const std::string& name : classes) add(name, name);
  return map;
}

void look_at_boxes(const NewRequest& request, const std::string& folder, const std::string& ending,
                   const std::vector<std::string>& images, Boxes& boxes) {
  AnnotationReading reading;
  reading.form = ending == ".xml" ? AnnotationForm::xml : AnnotationForm::yolo;
  reading.classes = boxes.classes;
  if (ending == ".xml") reading.names = LabelNames(label_map(boxes.classes), "classes");
  ImageDecoder decoder;
  const size_t step = std::max<size_t>(1, images.size() / 500);
  for (size_t i = 0; i < images.size(); i += step) {
    const std::string path = request.images + images[i];
    const std::string bytes = text_of_file(path);
    ImageSize size;
    in_image(path, "", 0, [&] {
      const Image image = decoder.open(bytes, ColorMode::color);
      size = {image.height, image.width};
    });
    for (const LabeledBox& box :
         reading.read(folder + boxes_of_image(images[i], folder, ending), size,
                      static_cast<int64_t>(i), decoder.is_sideways())) {
      const double width = box.box.right - box.box.left, height = box.box.bottom - box.box.top;
      ++boxes.count;
      // The net sees all images as squares.
      boxes.sides.push_back(std::sqrt(width * height));
      boxes.ratios.push_back(width / height);
    }
  }
  if (boxes.count == 0) throw Error("the files in '", folder, "' have no boxes");
}

/// Changes the prior boxes to those sizes and forms, and the scores to those classes. Returns the
/// layers that are renewed for weights, if there are some.
std::vector<std::string> set_boxes(NetTemplate& net, const Boxes& boxes, int64_t size,
                                   const std::string& name, bool has_weights) {
  std::vector<std::string> renewed;
  const double parts[] = {0.15, 0.4, 0.65, 0.9};
  std::vector<int64_t> sides;
  for (const double part : parts) {
    const int64_t least = sides.empty() ? 4 : sides.back() + 2;
    sides.push_back(std::max<int64_t>(
        least, std::llround(quantile(boxes.sides, part) * static_cast<double>(size))));
  }
  const double wide = ratio_beside_one(quantile(boxes.ratios, 0.8), 0);
  const double high = ratio_beside_one(quantile(boxes.ratios, 0.2), wide);
  const double middle = ratio_beside_one(quantile(boxes.ratios, 0.5), 0);
  net.reword("the scores of eleven classes", "the scores of each class and of none");
  size_t prior = 0;
  const auto classes = static_cast<int64_t>(boxes.classes.size()) + 1;
  int64_t before = 0;
  for (size_t i = 0; i < net.blocks(); ++i) {
    if (net.layer(i).has_multibox_loss_param())
      before = net.layer(i).multibox_loss_param().num_classes();
  }
  if (before == 0)
    throw Error("'", net.model(), "' is no SSD: it has no MultiBoxLoss; digits_ssd is one");
  const std::string old = std::to_string(before), now = std::to_string(classes);
  for (size_t i = 0; i < net.blocks(); ++i) {
    const LayerParameter layer = net.layer(i);
    const std::string& type = layer.type();
    if (type == "PriorBox") {
      // Written anew, with as many boxes.
      const PriorBoxParameter& how = layer.prior_box_param();
      if (how.min_size_size() != 2 || how.max_size_size() != 0 || prior > 2)
        throw Error("the prior boxes of '", net.model(), "' are of another kind than those of ",
                    "digits_ssd; take that");
      const bool two = how.aspect_ratio_size() == 2;
      net.remove_message(i, "prior_box_param");
      net.add(i, text("prior_box_param { min_size: ", sides[prior],
                      "  min_size: ", sides[prior + 1], "  aspect_ratio: ", two ? wide : middle,
                      two ? text("  aspect_ratio: ", high) : "",
                      "  flip: false  clip: false  variance: 0.1  variance: 0.1  variance: 0.2  "
                      "variance: 0.2 }"));
      prior += 2;
    }
    if (type == "Convolution" && layer.name().ends_with("_conf")) {
      const int64_t outputs = layer.convolution_param().num_output();
      net.set(i, "num_output", std::to_string(outputs), std::to_string(outputs / before * classes));
      if (has_weights) renewed.push_back(renew(net, i, name));
    }
    if (type == "Reshape") net.set(i, "dim", old, now);
    if (layer.has_multibox_loss_param() || layer.has_detection_output_param() ||
        layer.has_detection_evaluate_param())
      net.set(i, "num_classes", old, now);
    if (layer.has_detection_output_param()) net.remove_message(i, "save_output_param");
  }
  return renewed;
}

std::string metric_of(const NetTemplate& net) {
  for (size_t i = 0; i < net.blocks(); ++i) {
    if (net.layer(i).type() == "DetectionEvaluate") return net.layer(i).top(0);
  }
  throw Error("'", net.model(), "' has no DetectionEvaluate");
}

/// The database of the images of a list, with their boxes.
void convert(const NewRequest& request, const std::string& ending, const std::string& list,
             const std::string& output) {
  ConvertAnnotationsOptions options;
  options.list = request.made_path(list);
  options.output = request.made_path(output);
  options.annotation_type = "detection";
  options.label_type = ending == ".xml" ? "xml" : "yolo";
  options.label_map_file = ending == ".xml" ? request.made_path("labelmap.prototxt") : "";
  options.class_names = ending == ".xml" ? "" : request.made_path("classes.txt");
  options.encoded = true;
  options.overwrite = true;
  convert_annotations(options);
}

}  // namespace

NewProject new_detector(const NewRequest& request, const std::string& annotations) {
  const std::string folder = checked_folder("detect", annotations);
  const std::vector<std::string> all = images_below(request.images);
  if (all.empty()) throw Error("'", request.images, "' has no images");
  Boxes boxes;
  std::vector<std::string> images, files;
  for (const char* ending : {".xml", ".txt"}) {
    for (const std::string& image : all) {
      const std::string file = boxes_of_image(image, folder, ending);
      if (file.empty()) continue;
      boxes.ending = ending;
      images.push_back(image);
      files.push_back(file);
    }
    if (!images.empty()) break;
  }
  if (images.size() < 2)
    throw Error(images.empty() ? "no image" : "one image alone", " in '", request.images,
                "' has a file of boxes in '", folder, "', as '", fs::path(all[0]).stem().string(),
                ".xml' of PASCAL VOC or '", fs::path(all[0]).stem().string(), ".txt' of YOLO");
  if (boxes.ending == ".xml") {
    std::set<std::string> names;
    for (const std::string& file : files) add_voc_classes(folder + file, names);
    boxes.classes.assign(names.begin(), names.end());
  } else {
    boxes.classes = yolo_classes(folder, files);
  }
  if (boxes.classes.empty()) throw Error("the files in '", folder, "' have no boxes");
  look_at_boxes(request, folder, boxes.ending, images, boxes);
  const Division division = divide(images, request.images, request.seed);

  NewProject project;
  std::vector<std::string> paths;
  for (const auto* side : {&division.train, &division.tests}) {
    for (const std::string& image : *side) paths.push_back(request.images + image);
  }
  check_photos(paths);
  const PhotoSurvey survey = survey_photos(paths);
  int64_t size =
      request.size > 0 ? request.size : std::clamp<int64_t>(survey.shorter / 32 * 32, 96, 256);
  if (size < 64) throw Error("--size=", size, ": the detector needs 64 pixels at least");
  NetTemplate& net = project.net = NetTemplate(request.from.empty() ? "digits_ssd" : request.from);
  project.weights = request.weights;
  const std::vector<std::string> renewed =
      set_boxes(net, boxes, size, request.name, !project.weights.empty());

  const auto list = [&](const std::vector<std::string>& of) {
    std::string lines;
    for (const std::string& image : of) {
      const std::string file = folder + boxes_of_image(image, folder, boxes.ending);
      if (file.find_first_of(" \t") != std::string::npos)
        throw Error("'", file, "' has a blank in its name, which a list cannot have; rename it");
      lines += request.images + image + " " + file + "\n";
    }
    return lines;
  };
  project.files = {{"classes.txt", joined(boxes.classes, "\n") + "\n"},
                   {"labelmap.prototxt", prototxt_of(label_map(boxes.classes))},
                   {"train.txt", list(division.train)},
                   {"val.txt", list(division.tests)}};
  project.make_databases = [request, ending = boxes.ending] {
    convert(request, ending, "train.txt", "train_lmdb");
    convert(request, ending, "val.txt", "val_lmdb");
  };

  Schedule& plan = project.schedule;
  plan = schedule_of(std::ssize(division.train), std::ssize(division.tests), 16, 25, 40, 500);
  plan.rule = "type: \"AdamW\"\nmomentum: 0.9\nweight_decay: 0.02\nclip_gradients: 10\n";
  plan.rate = 0.002;
  plan.why_rate = "Rate, decay and clipping are those that digits_ssd was trained with.";
  plan.metric = metric_of(net);
  plan.more =
      "# Tests report the mean average precision.\neval_type: \"detection\"\n"
      "show_per_class_result: true\n";

  const Pixels pixels = pixels_for(net, survey, project.weights);
  const std::string color = pixels.is_gray ? "force_gray: true" : "force_color: true";
  const std::string resize = text("resize_param { height: ", size, "  width: ", size, " }");
  const std::string map_file = text("label_map_file: \"", request.path("labelmap.prototxt"), "\"");
  project.train = text(
      "layer {\n  name: \"data\"  type: \"AnnotatedData\"  top: \"data\"  top: \"label\"\n"
      "  include { phase: TRAIN }\n  # Images become ",
      size, "x", size, "; half of them are mirrored. Mean and scale: ", pixels.why,
      ".\n  transform_param {\n    mirror: true  ", color, "  ", pixels.settings, "\n    ", resize,
      "\n    emit_constraint { emit_type: CENTER }\n  }\n  data_param { source: \"",
      request.path("train_lmdb"), "\"  backend: LMDB  batch_size: ", plan.batch,
      "  shuffle: true }\n  annotated_data_param {\n    ", map_file,
      "\n    # The whole image, or a part that has a box nearly whole.\n"
      "    batch_sampler { max_sample: 1  max_trials: 1 }\n    batch_sampler {\n"
      "      sampler { min_scale: 0.6  max_scale: 1  min_aspect_ratio: 0.75  max_aspect_ratio: "
      "1.33 }\n"
      "      sample_constraint { min_object_coverage: 0.9 }\n      max_sample: 1  max_trials: 30\n"
      "    }\n  }\n}\n");
  project.test = text(
      "layer {\n  name: \"data\"  type: \"AnnotatedData\"  top: \"data\"  top: \"label\"\n"
      "  include { phase: TEST }\n  transform_param { ",
      color, "  ", pixels.settings, "  ", resize, " }\n  data_param { source: \"",
      request.path("val_lmdb"), "\"  backend: LMDB  batch_size: ", plan.test_batch,
      " }\n  annotated_data_param { ", map_file, " }\n}\n");
  const auto count = boxes.classes.size();
  project.facts.push_back(
      text(count, count == 1 ? " class (" : " classes (",
           count <= 8 ? joined(boxes.classes) : boxes.classes[0] + ", ...", "), ",
           counted(plan.train, "image"), " for training and ", plan.tests, " for tests",
           division.by_folder ? "" : text(", one in five, drawn by --seed ", request.seed)));
  project.facts.push_back(text("net: ", net.model(), " at ", size, "x", size,
                               ", a small SSD; its prior boxes are of the sizes of ", boxes.count,
                               boxes.count == 1 ? " box" : " boxes"));
  if (!project.weights.empty())
    project.facts.push_back(text("weights: ", project.weights, "; new: ", joined(renewed),
                                 "; pixels: ", pixels.settings, ", ", pixels.why));
  project.header = joined(project.facts, "\n");
  if (images.size() < all.size())
    project.notes.push_back(
        text(counted(all.size() - images.size(), "image"), " left out: without a file of boxes"));
  if (!division.others.empty()) project.notes.push_back(left_out(division));
  project.test_flags = "--per_class";
  return project;
}

}  // namespace crema::tools
