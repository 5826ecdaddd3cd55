// DetectionEvaluate: which detections are right, and how many boxes there are. See README.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/carried_state.hpp"
#include "core/counts_images.hpp"
#include "core/dispatch.hpp"
#include "data/boxes/original_boxes.hpp"
#include "layer_support/boxes.hpp"
#include "layer_support/detection_rows.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kRow = 5;  // image, label, confidence, right, wrong

/// A detection or a true box.
struct LabelledBox {
  int64_t image, label, row;
  double score = 0;
  BoundingBox<double> box = {};
  bool difficult = false;
  bool taken = false;  // by a detection

  auto group() const { return std::tuple(image, label); }
  auto place() const { return std::tuple(image, label, row); }
};
using BoxList = std::vector<LabelledBox>;

int64_t background_of(const DetectionEvaluateParameter& param) {
  // -1 as a signed number.
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  return param.background_label_id() == kNone ? -1 : int64_t{param.background_label_id()};
}

/// It carries the place of the next batch among the images of name_size_file.
class DetectionEvaluateLayer : public TwoSidedLayer, public CarriesState, public CountsImages {
 public:
  std::string host_part() const override { return "comparison of boxes"; }
  const CarriesState* carries_state() const override { return this; }
  std::string changes() const override { return "its count of images"; }
  CountsImages* counts_images() override { return this; }
  explicit DetectionEvaluateLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        classes_(settings().num_classes()),
        background_(background_of(settings())) {
    if (classes_ == 0)
      throw Error(
          "num_classes is missing; say detection_evaluate_param { num_classes: 21 }, with the "
          "background");
    if (background_ >= classes_)
      throw Error("background_label_id ", background_, " is none of the ", classes_,
                  " classes, 0 to ", classes_ - 1);
    if (background_ == 0 && classes_ == 1)
      throw Error("num_classes 1 with background_label_id 0 leaves no class to evaluate");
    if (!(settings().overlap_threshold() > 0 && settings().overlap_threshold() <= 1))
      throw Error("overlap_threshold ", settings().overlap_threshold(),
                  " is not in (0, 1]; it is the overlap from which a detection is right");
    check_unresizing(settings().resize_param());
    if (settings().has_resize_param() && !in_pixels())
      throw Error(
          "resize_param without name_size_file has no effect; give the sizes of the images");
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }
  TopShapes top_shapes() const override { return TopShapes::from_values; }

  /// With the bound: forward leaves out rows that are no detections.
  void reshape(Blobs bottom, Blobs top) override {
    const auto rows_of = [](const Blob& blob, int64_t width, const char* what) {
      const Shape& shape = blob.shape();
      if (shape.rank() < 2 || shape[shape.rank() - 1] != width)
        throw Error("'", blob.name, "' must be ", what, ", not ", shape.str());
      return shape.count() / width;
    };
    const int64_t rows = rows_of(
        *bottom[0], kDetectionRow,
        "1 x 1 x D x 7 (image, label, confidence, xmin, ymin, xmax, ymax), as DetectionOutput "
        "writes them");
    rows_of(*bottom[1], kTruthRow,
            "1 x 1 x G x 8 (image, label, instance, xmin, ymin, xmax, ymax, difficult), as "
            "AnnotatedData writes them");
    shape_ = Shape{1, 1, labels() + rows, kRow};
    top[0]->reshape(shape_);
  }

  bool carries() const override { return in_pixels(); }
  std::vector<Tensor> carried() const override {
    if (first_image_ == 0) return {};
    Tensor state(Shape{1}, DType::f64);
    *state.overwrite<double>() = static_cast<double>(first_image_);
    return {state};
  }
  void carry(const std::vector<Tensor>& state) override {
    double first = 0;
    if (!state.empty()) {
      if (state.size() != 1 || state[0].count() != 1)
        throw Error("a state of shape ", state[0].shape().str(),
                    " is not the place of a batch in name_size_file, one number");
      first = *state[0].to(DType::f64, Format::contiguous).read<double>();
      if (!(first >= 0 && first < 1e15) || std::floor(first) != first)
        throw Error("the state has ", first, " for the place of a batch in name_size_file");
    }
    first_image_ = static_cast<int64_t>(first);
  }

  void count_only(std::function<bool(int64_t image)> counts) override {
    is_counted_ = std::move(counts);
  }

  /// On the host, whatever the device.
  void run_forward(const ComputeDevice&, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      images_ = 0;
      read<T>(*bottom[0], kDetectionRow, detections_);
      read<T>(*bottom[1], kTruthRow, truth_);
      if (in_pixels()) to_pixels();
      shape_.set(2, labels() + static_cast<int64_t>(detections_.size()));
      top[0]->reshape(shape_);
      write(top[0]->data.template overwrite<T>());
    });
  }

 private:
  const DetectionEvaluateParameter& settings() const { return param().detection_evaluate_param(); }
  bool in_pixels() const { return !settings().name_size_file().empty(); }
  int64_t labels() const { return classes_ - (background_ < 0 ? 0 : 1); }
  bool counts(const LabelledBox& truth) const {
    return settings().evaluate_difficult_gt() || !truth.difficult;
  }

  /// Reads all rows but those of image or label -1, by image and label; rows of one keep their
  /// order.
  template <class T>
  void read(const Blob& blob, int64_t width, BoxList& list) {
    list.clear();
    const T* row = blob.data.template read<T>();
    const int64_t rows = blob.count() / width;
    for (int64_t r = 0; r < rows; ++r, row += width) {
      const auto value = [&](int64_t k) { return static_cast<double>(row[k]); };
      const int64_t image = image_of_row<T>(blob, r, width, kUnknownImages);
      if (image < 0) continue;
      // DetectionOutput has a row of label -1 for an image without boxes: it takes its size.
      images_ = std::max(images_, image + 1);
      if (is_counted_ && !is_counted_(image)) continue;
      const double label = value(1);
      if (width == kDetectionRow && label == -1) continue;
      if (!(label >= 0 && label < static_cast<double>(classes_)) || std::floor(label) != label)
        throw Error("row ", r, " of '", blob.name, "' has the label ", label,
                    ", but the classes are 0 to ", classes_ - 1, "; see num_classes");
      if (static_cast<int64_t>(label) == background_)
        throw Error("row ", r, " of '", blob.name, "' has the label ", label,
                    ", which is the background; see background_label_id");
      if (width == kDetectionRow && std::isnan(value(2)))
        throw Error("row ", r, " of '", blob.name, "' has the confidence NaN");
      if (width == kTruthRow) check_truth_box<T>(blob, r);
      for (int64_t k = 3; k < 7; ++k) {
        if (!std::isfinite(value(k)))
          throw Error("row ", r, " of '", blob.name, "' has the coordinate ", value(k));
      }
      list.push_back({.image = image,
                      .label = static_cast<int64_t>(label),
                      .row = r,
                      .score = value(2),
                      .box = {value(3), value(4), value(5), value(6)},
                      .difficult = width == kTruthRow && value(7) != 0});
    }
    std::sort(list.begin(), list.end(),
              [](const LabelledBox& a, const LabelledBox& b) { return a.place() < b.place(); });
  }

  /// Boxes in pixels of the images of name_size_file, in their order.
  void to_pixels() {
    if (sizes_.empty()) sizes_ = read_named_sizes(settings().name_size_file());
    const auto count = static_cast<int64_t>(sizes_.size());
    for (BoxList* list : {&detections_, &truth_}) {
      for (LabelledBox& one : *list) {
        const ImageSize size = sizes_[static_cast<size_t>((first_image_ + one.image) % count)].size;
        const Box box = in_original({one.box.xmin, one.box.ymin, one.box.xmax, one.box.ymax}, size,
                                    settings().resize_param());
        one.box = {box.left, box.top, box.right, box.bottom};
      }
    }
    first_image_ = (first_image_ + images_) % count;
  }

  template <class T>
  void write(T* to) {
    for (int64_t label = 0; label < classes_; ++label) {
      if (label == background_) continue;
      const auto boxes = std::count_if(truth_.begin(), truth_.end(), [&](const LabelledBox& one) {
        return one.label == label && counts(one);
      });
      const std::array<T, kRow> row = {-1, static_cast<T>(label), static_cast<T>(boxes), -1, -1};
      to = std::ranges::copy(row, to).out;
    }
    for (auto from = detections_.begin(); from != detections_.end();) {
      const auto end = std::find_if(from, detections_.end(), [&](const LabelledBox& one) {
        return one.group() != from->group();
      });
      const auto before = [](const LabelledBox& a, const LabelledBox& b) {
        return a.group() < b.group();
      };
      const auto [truth, truth_end] = std::equal_range(truth_.begin(), truth_.end(), *from, before);
      // Without true boxes the order does not matter, and is that of the rows, as published.
      if (truth != truth_end)
        std::sort(from, end, [](const LabelledBox& a, const LabelledBox& b) {
          return a.score > b.score || (a.score == b.score && a.row < b.row);
        });
      for (; from != end; ++from) {
        const auto [right, wrong] = judge(*from, truth, truth_end);
        const std::array<T, kRow> row = {static_cast<T>(from->image), static_cast<T>(from->label),
                                         static_cast<T>(from->score), static_cast<T>(right),
                                         static_cast<T>(wrong)};
        to = std::ranges::copy(row, to).out;
      }
    }
  }

  struct Verdict {
    int right, wrong;
  };
  /// Right if the true box that it overlaps most was not found before. Neither if that one is
  /// difficult and does not count.
  Verdict judge(const LabelledBox& detection, BoxList::iterator truth,
                BoxList::iterator end) const {
    const BoxUnits units = in_pixels() ? BoxUnits::pixels : BoxUnits::relative;
    double most = -1;
    auto best = end;
    for (; truth != end; ++truth) {
      const double share = overlap(detection.box, truth->box, units);
      if (share > most) {
        most = share;
        best = truth;
      }
    }
    if (best == end || most < static_cast<double>(settings().overlap_threshold())) return {0, 1};
    if (!counts(*best)) return {0, 0};
    if (best->taken) return {0, 1};
    best->taken = true;
    return {1, 0};
  }

  int64_t classes_, background_;
  std::function<bool(int64_t image)> is_counted_;  // null: each is
  Shape shape_;                                    // of the top
  std::vector<NamedSize> sizes_;
  int64_t first_image_ = 0;  // of the batch, among sizes_
  int64_t images_ = 0;       // of the batch, as far as its rows tell
  BoxList detections_, truth_;
};

}  // namespace

void register_detection_evaluate(Registry& registry) {
  add_two_sided<DetectionEvaluateLayer>(registry, "DetectionEvaluate");
}

}  // namespace crema
