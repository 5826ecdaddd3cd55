#include "layers/region_detection_output/grid_detection.hpp"

#include <algorithm>
#include <cmath>

#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "proto/layer.pb.h"

namespace crema {

void check_grid_detection(const GridDetectionSettings& settings) {
  if (settings.classes == 0) throw Error("num_classes is 0; give the number of classes");
  if (!(settings.least >= 0 && settings.least <= 1))
    throw Error("confidence_threshold ", settings.least,
                " is outside [0, 1], where confidences are");
  if (!(settings.suppression.threshold >= 0 && settings.suppression.threshold <= 1))
    throw Error("nms_threshold ", settings.suppression.threshold,
                " is no overlap; give a number from 0 to 1");
}

GridDetectionLayer::GridDetectionLayer(const LayerInit& init, GridDetectionSettings settings)
    : TwoSidedLayer(init), settings_(std::move(settings)) {
  check_grid_detection(settings_);
}

void GridDetectionLayer::reshape(Blobs bottom, Blobs top) {
  grids_.clear();
  int64_t boxes = 0;
  for (size_t i = 0; i < bottom.size(); ++i) {
    const auto anchors = static_cast<int64_t>(settings_.anchors[i].size());
    const GridLayout& grid = grids_.emplace_back(*bottom[i], anchors, settings_.classes);
    if (grid.images != grids_[0].images)
      throw Error("'", bottom[i]->name, "' (", bottom[i]->shape().str(), ") and '", bottom[0]->name,
                  "' (", bottom[0]->shape().str(),
                  ") differ in their batch size; all bottoms are of the same images");
    boxes += grid.anchors * grid.cells();
  }
  const int64_t images = grids_[0].images;
  const int64_t most = checked_multiply(boxes, settings_.classes, "number of boxes");
  shape_ =
      Shape{1, 1, checked_multiply(images, std::max<int64_t>(most, 1), "boxes"), kDetectionRow};
  top[0]->reshape(shape_);
}

template <class T>
void GridDetectionLayer::find(Blobs bottom, int64_t image, OfImage<T>& found) {
  const auto classes = static_cast<size_t>(settings_.classes);
  found.boxes.clear();
  found.candidates.resize(classes);
  found.kept.resize(classes);
  found.shares.resize(classes);
  for (auto& list : found.candidates) list.clear();
  const T least = static_cast<T>(settings_.least);
  for (size_t b = 0; b < grids_.size(); ++b) {
    const GridLayout& grid = grids_[b];
    const T* const values = bottom[b]->data.template read<T>();
    for (int64_t a = 0; a < grid.anchors; ++a) {
      for (int64_t cell = 0; cell < grid.cells(); ++cell) {
        const auto value = [&](int64_t attribute) {
          return static_cast<double>(values[grid.plane(image, a, attribute) + cell]);
        };
        const double object = sigmoid_of(value(GridLayout::kObject));
        if (object <= settings_.least) continue;
        double divisor = 0, greatest = 0;
        for (int64_t c = 0; settings_.softmax && c < grid.classes; ++c)
          greatest = std::max(c == 0 ? value(GridLayout::kClasses) : greatest,
                              value(GridLayout::kClasses + c));
        for (int64_t c = 0; c < grid.classes; ++c) {
          const double x = value(GridLayout::kClasses + c);
          double& share = found.shares[static_cast<size_t>(c)];
          share = settings_.softmax ? std::exp(x - greatest) : sigmoid_of(x);
          divisor += share;
        }
        if (!settings_.softmax) divisor = 1;
        bool is_new = true;
        for (size_t c = 0; c < classes; ++c) {
          const T score = static_cast<T>(object * found.shares[c] / divisor);
          if (score != score)
            throw Error("the confidence of class ", c, " at cell ", cell, " of anchor box ", a,
                        " of '", bottom[b]->name, "', image ", image,
                        ", is NaN; the net has diverged, or its input has NaN")
                .of_sample(image);
          if (!(score > least)) continue;
          if (is_new) {
            found.boxes.push_back(predicted_box(grid, values, image, a,
                                                settings_.anchors[b][static_cast<size_t>(a)], cell)
                                      .template edges<T>());
            is_new = false;
          }
          found.candidates[c].push_back({score, static_cast<int32_t>(found.boxes.size() - 1)});
        }
      }
    }
  }
  for (size_t c = 0; c < classes; ++c) {
    auto& candidates = found.candidates[c];
    auto& kept = found.kept[c];
    kept.clear();
    sort_candidates(candidates, settings_.suppression.top_k);
    const auto box_of = [&](int64_t k) {
      return found.boxes[static_cast<size_t>(candidates[static_cast<size_t>(k)].index)];
    };
    suppress(settings_.suppression, static_cast<int64_t>(candidates.size()), box_of, found.columns,
             found.numbers);
    for (const int32_t k : found.numbers) {
      const Candidate<T>& one = candidates[static_cast<size_t>(k)];
      kept.push_back({one.score, one.index, box_of(k)});
    }
  }
}

void GridDetectionLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (!device.on_host()) {
    if (!there_) there_ = std::make_unique<GridChoiceOnDevice>(settings_);
    if (there_->run(device, bottom, grids_, shape_, *top[0])) return;
    // A confidence is NaN: the host finds it again, and throws.
  }
  const int64_t images = grids_[0].images;
  dispatch_float(dtype(), [&]<class T>(T) {
    auto& found = std::get<std::vector<OfImage<T>>>(memory_);
    found.resize(std::max(found.size(), static_cast<size_t>(images)));
    parallel_for(images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image)
        find(bottom, image, found[static_cast<size_t>(image)]);
    });
    int64_t count = 0;
    for (int64_t image = 0; image < images; ++image) {
      for (const auto& kept : found[static_cast<size_t>(image)].kept)
        count += static_cast<int64_t>(kept.size());
    }
    // Label 0 is the background, as DetectionEvaluate has it.
    write_detections<T>(
        *top[0], shape_, images, settings_.classes, count,
        [&](int64_t image, int64_t label) -> const std::vector<Detection<T>>& {
          return found[static_cast<size_t>(image)].kept[static_cast<size_t>(label)];
        },
        1);
  });
}

}  // namespace crema
