#include "monitor/board/image_viewer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "analysis/deploy.hpp"
#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "crema/net.hpp"
#include "data/batches/image_input.hpp"
#include "data/boxes/original_boxes.hpp"
#include "model/text_format.hpp"
#include "model/weights_origin.hpp"
#include "monitor/board/image_sides.hpp"
#include "monitor/png.hpp"
#include "monitor/report/page.hpp"
#include "proto/augment.pb.h"
#include "proto/net.pb.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPixels = 50'000'000;
constexpr size_t kMostClasses = 10, kMostBoxes = 100;
constexpr double kLeastConfidence = 0.05;
constexpr int64_t kRowOfBox = 7;  // image, label, confidence, left, top, right, bottom

/// Mean and scale of the training, and the crop in the middle of what its resize_param gives.
ImageInputOptions input_of(const Origin& origin, const TransformationParameter& of_data,
                           const Shape& sample, std::vector<std::string>& notes) {
  const bool has_origin = origin.has_transform();
  const TransformationParameter& trained = has_origin ? origin.transform() : of_data;
  ImageInputOptions options{.sample = sample};
  options.transform.set_scale(trained.scale());
  if (trained.bgr2rgb()) options.channels = {0, 1, 2};
  std::error_code unknown;
  const bool has_mean_file =
      trained.has_mean_file() && fs::is_regular_file(trained.mean_file(), unknown);
  if (has_origin && trained.has_mean_file() && origin.channel_mean_size() > 0) {
    // A mean image of the same name may be another one.
    const bool is_same =
        has_mean_file &&
        std::ranges::equal(channel_means(trained.mean_file()), origin.channel_mean(),
                           [](float a, float b) { return std::abs(a - b) <= 0.5F; });
    if (is_same) {
      options.transform.set_mean_file(trained.mean_file());
    } else {
      *options.transform.mutable_mean_value() = origin.channel_mean();
    }
  } else if (has_mean_file) {
    options.transform.set_mean_file(trained.mean_file());
  } else if (trained.has_mean_file()) {
    notes.push_back(text("The mean image ", printable(trained.mean_file()),
                         " is not here: nothing was subtracted."));
  } else {
    *options.transform.mutable_mean_value() = trained.mean_value();
  }
  if (!has_origin && of_data.ByteSizeLong() == 0)
    notes.push_back(
        "Neither the weights nor the net say a mean or a scale: pixels are as the file has them.");
  if (trained.resize_param_size() > 0) {
    const ResizeParameter& resize = trained.resize_param(0);
    if (resize.height() >= sample[1] && resize.width() >= sample[2] &&
        (resize.height() > sample[1] || resize.width() > sample[2])) {
      *options.transform.add_resize_param() = resize;
      options.crop = ImageCrop::center;
    }
  }
  return options;
}

}  // namespace

struct ImageViewer::Loaded {
  std::string key;  // changes with the files
  std::unique_ptr<Net> net;
  Shape sample;
  std::unique_ptr<ImageInput> input;
  std::vector<std::string> names, notes;
  std::string output;

  std::string name(int64_t label) const {
    const auto at = static_cast<size_t>(label);
    return class_words(label >= 0 && at < names.size() ? names[at] : "", label);
  }
  void find_classes(const Tensor& scores, SeenImage& seen) const;
  void find_mask(const Tensor& scores, SeenImage& seen) const;
  void find_boxes(const Tensor& rows, SeenImage& seen) const;
};

void ImageViewer::Loaded::find_classes(const Tensor& scores, SeenImage& seen) const {
  seen.kind = SeenImage::Kind::classes;
  for (int64_t c = 0; c < scores.count(); ++c) seen.found.push_back({c, name(c), scores.at(c)});
  std::ranges::stable_sort(seen.found, std::ranges::greater(), &SeenImage::One::score);
  if (seen.found.size() > kMostClasses) seen.found.resize(kMostClasses);
}

void ImageViewer::Loaded::find_mask(const Tensor& scores, SeenImage& seen) const {
  seen.kind = SeenImage::Kind::mask;
  const Shape& shape = scores.shape();  // (1, classes, height, width)
  const int64_t pixels = shape[2] * shape[3];
  std::vector<uint8_t> mask(static_cast<size_t>(pixels));
  std::map<int64_t, int64_t> counts;
  for (int64_t p = 0; p < pixels; ++p) {
    int64_t best = 0;
    for (int64_t c = 1; c < shape[1]; ++c) {
      if (scores.at(c * pixels + p) > scores.at(best * pixels + p)) best = c;
    }
    mask[static_cast<size_t>(p)] = static_cast<uint8_t>(std::min<int64_t>(best, 254));
    ++counts[best];
  }
  for (const auto& [label, count] : counts)
    seen.found.push_back(
        {label, name(label), static_cast<double>(count) / static_cast<double>(pixels)});
  std::ranges::stable_sort(seen.found, std::ranges::greater(), &SeenImage::One::score);
  if (seen.found.size() > kMostClasses) seen.found.resize(kMostClasses);
  seen.mask = png_of_classes(mask, static_cast<int>(shape[3]), static_cast<int>(shape[2]));
}

void ImageViewer::Loaded::find_boxes(const Tensor& rows, SeenImage& seen) const {
  seen.kind = SeenImage::Kind::boxes;
  for (int64_t row = 0; row < rows.count(); row += kRowOfBox) {
    const auto value = [&](int64_t k) { return rows.at(row + k); };
    if (value(1) < 0 || !(value(2) >= kLeastConfidence)) continue;
    const Box box = in_original({value(3), value(4), value(5), value(6)},
                                {.height = seen.height, .width = seen.width}, ResizeParameter());
    const auto label = static_cast<int64_t>(value(1));
    seen.found.push_back({label, name(label), value(2), box.left, box.top, box.right, box.bottom});
  }
  std::ranges::stable_sort(seen.found, std::ranges::greater(), &SeenImage::One::score);
  if (seen.found.size() > kMostBoxes) seen.found.resize(kMostBoxes);
}

ImageViewer::ImageViewer(Context& context) : context_(context) {}
ImageViewer::~ImageViewer() = default;

SeenImage ImageViewer::see(const RunFiles& run, const std::string& weights,
                           std::string_view image) {
  const auto sides = image_sides(image);
  if (!sides)
    throw Error(
        "the file is no PNG, JPEG, GIF, BMP or WebP, or its head is damaged; give an image "
        "of one of these kinds");
  if (sides->width > kMostPixels / sides->height)
    throw Error("the image has ", sides->width, " x ", sides->height, " pixels, more than ",
                kMostPixels, "; give a smaller one");
  std::error_code unknown;
  const auto changed = fs::last_write_time(weights, unknown);
  const std::string& net_text =
      run.test_net_texts.empty() ? run.net_text : run.test_net_texts.front();
  const std::string key = text(run.folder, '\n', weights, '\n', changed.time_since_epoch().count(),
                               '\n', fs::file_size(weights, unknown), '\n', net_text);
  if (!loaded_ || loaded_->key != key) {
    loaded_.reset();  // one net at a time
    auto loaded = std::make_unique<Loaded>();
    loaded->key = key;
    if (net_text.empty())
      throw Error(
          "the run has neither test_net_0.prototxt nor net.prototxt, so that its net is "
          "not known; runs of `crema train` have them");
    NetParameter trained;
    parse_text_proto(net_text, "the run's net", trained);
    const DeployedNet deployed = deploy_net(trained, context_);
    if (deployed.inputs.size() != 1)
      throw Error("the net has ", deployed.inputs.size(), " inputs; images need a net with one");
    NetOptions options;
    options.phase = Phase::test;
    options.weights = {weights};
    options.need_all_weights = true;
    loaded->net = std::make_unique<Net>(deployed.net, context_, std::move(options));
    Net& net = *loaded->net;
    const Shape& shape = net.input(net.inputs()[0]).shape();
    if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3))
      throw Error("the net's input '", net.inputs()[0], "' is of ", shape.str(),
                  "; images need (N, 1 or 3, height, width)");
    loaded->sample = {shape[1], shape[2], shape[3]};
    loaded->input = std::make_unique<ImageInput>(input_of(
        origin_of_weights(weights), deployed.inputs[0].transform, loaded->sample, loaded->notes));
    loaded->names = class_names_of_weights(weights);
    if (loaded->names.empty())
      loaded->names.assign(run.info.class_names().begin(), run.info.class_names().end());
    if (net.outputs().size() != 1) {
      // Boxes before scores.
      for (const std::string& output : net.outputs()) {
        const Shape& of = net.blob(output).shape();
        if (of.rank() == 4 && of.count(0, 2) == 1 && of[3] == kRowOfBox) loaded->output = output;
      }
      if (loaded->output.empty()) {
        loaded->output = net.outputs().back();
        loaded->notes.push_back(text("The net has ", net.outputs().size(), " outputs; this is '",
                                     printable(loaded->output), "'."));
      }
    } else {
      loaded->output = net.outputs()[0];
    }
    loaded_ = std::move(loaded);
  }
  Loaded& loaded = *loaded_;
  Net& net = *loaded.net;
  std::vector<float> values(static_cast<size_t>(loaded.sample.count()));
  const ImageSize size = loaded.input->read(image, "of the page", values.data());
  const std::string& input = net.inputs()[0];
  net.reshape_input(input, {1, loaded.sample[0], loaded.sample[1], loaded.sample[2]});
  net.reshape();
  std::ranges::copy(values, net.input(input).overwrite<float>());
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  net.forward();
  const Tensor out = net.output(loaded.output);
  SeenImage seen;
  seen.width = size.width;
  seen.height = size.height;
  seen.notes = loaded.notes;
  seen.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const Shape& shape = out.shape();
  for (int64_t i = 0; i < out.count(); ++i) {
    if (std::isnan(out.at(i)))
      throw Error("output '", loaded.output,
                  "' has values that are NaN; the weights are damaged, "
                  "or diverged in training: choose others");
  }
  if (shape.rank() == 4 && shape.count(0, 2) == 1 && shape[3] == kRowOfBox) {
    loaded.find_boxes(out, seen);
  } else if (shape.rank() >= 2 && shape[0] == 1 && shape.count(2) == 1) {
    loaded.find_classes(out, seen);
  } else if (shape.rank() == 4 && shape[0] == 1 && shape[1] > 1) {
    loaded.find_mask(out, seen);
  } else {
    throw Error("output '", loaded.output, "' is of ", shape.str(),
                ": neither classes, nor boxes, nor a class for each pixel");
  }
  return seen;
}

std::string json_of(const SeenImage& seen) {
  const char* const kinds[] = {"classes", "boxes", "mask"};
  std::string all = text("{\"kind\":\"", kinds[static_cast<size_t>(seen.kind)],
                         "\",\"width\":", seen.width, ",\"height\":", seen.height,
                         ",\"milliseconds\":", json_number(seen.milliseconds), ",\"found\":[");
  bool is_first = true;
  for (const SeenImage::One& one : seen.found) {
    all +=
        text(is_first ? "" : ",", "{\"label\":", one.label,
             ",\"name\":", json_string(drawable(one.name)), ",\"score\":", json_number(one.score),
             ",\"color\":\"", class_color(one.label), "\"");
    if (seen.kind == SeenImage::Kind::boxes)
      all += text(",\"box\":[", json_number(one.left), ",", json_number(one.top), ",",
                  json_number(one.right), ",", json_number(one.bottom), "]");
    all += "}";
    is_first = false;
  }
  all += "]";
  if (!seen.mask.empty()) all += ",\"mask\":\"data:image/png;base64," + base64(seen.mask) + "\"";
  all += ",\"notes\":[";
  is_first = true;
  for (const std::string& note : seen.notes) {
    all += (is_first ? "" : ",") + json_string(note);
    is_first = false;
  }
  return all + "]}";
}

}  // namespace crema
