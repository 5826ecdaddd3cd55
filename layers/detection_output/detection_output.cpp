// DetectionOutput: boxes from predicted locations, confidences and prior boxes. See README.md.
#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <string>

#include "core/carried_state.hpp"
#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/detection_output/choice_on_device.hpp"
#include "layers/detection_output/detection_choice.hpp"
#include "layers/detection_output/detection_files.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

DetectionSettings settings_of(const DetectionOutputParameter& param) {
  if (param.num_classes() == 0)
    throw Error(
        "num_classes is missing; say detection_output_param { num_classes: 21 }, with the "
        "background");
  DetectionSettings settings;
  settings.classes = param.num_classes();
  settings.background = param.background_label_id();
  if (settings.background < -1 || settings.background >= settings.classes)
    throw Error("background_label_id ", settings.background, " is none of the ", settings.classes,
                " classes, 0 to ", settings.classes - 1, "; say -1 if there is no background");
  if (settings.background == 0 && settings.classes == 1)
    throw Error(
        "num_classes 1 with background_label_id 0 leaves no class to detect; count the background "
        "among the classes, or say background_label_id: -1");
  settings.shares_location = param.share_location();
  settings.coder = {static_cast<BoxCode>(param.code_type()), param.variance_encoded_in_target()};
  settings.suppression = suppression_of(param.nms_param());
  settings.keep = param.keep_top_k();
  if (settings.keep < -1 || settings.keep == 0)
    throw Error("keep_top_k ", settings.keep,
                " keeps no box; give a number above 0, or -1 for all");
  settings.least = param.has_confidence_threshold()
                       ? static_cast<double>(param.confidence_threshold())
                       : -std::numeric_limits<double>::infinity();
  if (settings.least != settings.least) throw Error("confidence_threshold is NaN");
  return settings;
}

/// It carries the files that it has not written yet.
class DetectionOutputLayer : public TwoSidedLayer, public CarriesState {
 public:
  /// Files are written from what the host has chosen.
  std::string host_part() const override { return files_ ? "choice of boxes" : ""; }
  const CarriesState* carries_state() const override { return this; }
  std::string changes() const override { return files_ ? "the files of its detections" : ""; }
  explicit DetectionOutputLayer(const LayerInit& init)
      : TwoSidedLayer(init), settings_(settings_of(init.param.detection_output_param())) {
    const DetectionOutputParameter& settings = init.param.detection_output_param();
    const SaveOutputParameter& save = settings.save_output_param();
    if (!save.output_directory().empty()) {
      files_.emplace(save, settings_.classes, settings_.background);
    } else if (save.has_output_format() || save.has_name_size_file()) {
      context().log(Severity::warning, text("layer '", name(),
                                            "': save_output_param writes nothing, since it has no "
                                            "output_directory"));
    }
    if (settings.visualize())
      context().log(Severity::warning,
                    text("layer '", name(),
                         "': visualize is left out, since Crema opens no window; "
                         "save_output_param writes the boxes to files"));
  }

  /// The fourth one, the images, is what the fork shows in a window.
  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 4}; }
  bool can_propagate(int) const override { return false; }
  bool is_exact_bottom(int i) const override { return i < 3; }
  bool is_exact_top(int) const override { return true; }
  TopShapes top_shapes() const override { return TopShapes::from_values; }

  /// With the bound: forward sets the number of boxes.
  void reshape(Blobs bottom, Blobs top) override {
    const Shape &locations = bottom[0]->shape(), &confidences = bottom[1]->shape();
    if (locations.rank() < 2 || confidences.rank() < 2 || locations[0] != confidences[0])
      throw Error("locations '", bottom[0]->name, "' (", locations.str(), ") and confidences '",
                  bottom[1]->name, "' (", confidences.str(),
                  ") must have one item an image along their first axis");
    images_ = locations[0];
    priors_ = prior_count(*bottom[2], images_);
    const int64_t of_prior = settings_.shares_location ? 1 : settings_.classes;
    check_predictions(*bottom[0], *bottom[2], priors_,
                      location_predictions(of_prior, settings_.classes));
    check_predictions(*bottom[1], *bottom[2], priors_, score_predictions(settings_.classes));
    const int64_t labels = settings_.classes - (settings_.background < 0 ? 0 : 1);
    const int64_t top_k = settings_.suppression.top_k;
    int64_t most =
        checked_multiply(labels, top_k < 0 ? priors_ : std::min(top_k, priors_), "number of boxes");
    if (settings_.keep >= 0) most = std::min(most, settings_.keep);
    const int64_t rows = checked_multiply(images_, std::max<int64_t>(most, 1), "number of boxes");
    shape_ = Shape{1, 1, rows, kDetectionRow};
    top[0]->reshape(shape_);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    std::vector<Option> options = {uniform_option(bottom, top, dtype())};
    if (bottom.size() < 4) return options;
    // The images are not read.
    for (const DType type : {activations(), dtype()}) {
      for (const Format format :
           {Format::contiguous, Format::channels_last, Format::blocked8, Format::blocked16}) {
        Option option = options.front();
        option.bottoms[3] = uniform_option(bottom, top, type, format).bottoms[3];
        if (option.bottoms[3] != options.front().bottoms[3]) options.push_back(option);
      }
    }
    return options;
  }
  size_t kept_bytes() const override {
    return (single_   ? single_->bytes()
            : double_ ? double_->bytes()
                      : 0) +
           (there_ ? there_->bytes() : 0);
  }

  bool carries() const override { return files_.has_value(); }
  std::vector<Tensor> carried() const override {
    return files_ ? files_->carried() : std::vector<Tensor>();
  }
  void carry(const std::vector<Tensor>& state) override {
    if (files_) {
      files_->carry(state);
    } else if (!state.empty()) {
      throw Error("the state has detections, and save_output_param writes none");
    }
  }
  std::string unfinished() const override {
    if (!files_ || files_->images_so_far() == 0) return {};
    return text("the detections of ", files_->images_so_far(), " images are not written to ",
                files_->folder(), ": a test set has ", files_->images(),
                " (num_test_image); run as many batches as it takes");
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (!device.on_host() && !files_) {
      if (!there_) there_.emplace(settings_);
      if (there_->run(
              device, bottom,
              {.images = images_, .priors = priors_, .own_priors = bottom[2]->shape()[0] > 1},
              shape_, *top[0]))
        return;
      // Something is refused: the host finds it again, and throws.
    }
    if (dtype() == DType::f64) {
      forward(double_, bottom, *top[0]);
    } else {
      forward(single_, bottom, *top[0]);
    }
  }

 private:
  template <class T>
  void forward(std::optional<DetectionChoice<T>>& choice, Blobs bottom, Blob& top) {
    if (!choice) choice.emplace(settings_);
    choice->run({.images = images_,
                 .priors = priors_,
                 .locations = bottom[0]->data.template read<T>(),
                 .confidences = bottom[1]->data.template read<T>(),
                 .boxes = bottom[2]->data.template read<T>(),
                 .own_priors = bottom[2]->shape()[0] > 1});
    write_detections<T>(top, shape_, images_, settings_.classes, choice->count(),
                        [&](int64_t image, int64_t label) { return choice->of(image, label); });
    if (files_) save(*choice);
  }

  template <class T>
  void save(const DetectionChoice<T>& choice) {
    // A file that cannot be written is told after the whole batch: the next one is in its place.
    std::exception_ptr failed;
    for (int64_t image = 0; image < images_; ++image) {
      files_->begin_image();
      for (int64_t label = 0; label < settings_.classes; ++label) {
        for (const Detection<T>& one : choice.of(image, label)) {
          const auto value = [](T coordinate) { return static_cast<double>(coordinate); };
          files_->add(
              label, value(one.score),
              {value(one.box.xmin), value(one.box.ymin), value(one.box.xmax), value(one.box.ymax)});
        }
      }
      try {
        if (files_->end_image())
          context().log(Severity::info,
                        text("layer '", name(), "': the detections of ", files_->images(),
                             " images are in ", files_->folder()));
      } catch (const Error&) {
        failed = std::current_exception();
      }
    }
    if (failed) std::rethrow_exception(failed);
  }

  DetectionSettings settings_;
  std::optional<DetectionFiles> files_;
  int64_t images_ = 0, priors_ = 0;
  Shape shape_;  // of the top
  // One of them, by dtype().
  std::optional<DetectionChoice<float>> single_;
  std::optional<DetectionChoice<double>> double_;
  std::optional<ChoiceOnDevice> there_;
};

}  // namespace

void register_detection_output(Registry& registry) {
  add_two_sided<DetectionOutputLayer>(registry, "DetectionOutput");
}

}  // namespace crema
