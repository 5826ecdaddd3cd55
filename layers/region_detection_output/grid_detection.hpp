// Boxes from the predictions of grid detectors, for RegionDetectionOutput and
// Yolov3DetectionOutput; see their pages.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "layer_support/detection_rows.hpp"
#include "layer_support/suppression.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/region_loss/grid_detector.hpp"

namespace crema {

struct GridDetectionSettings {
  std::vector<std::vector<GridAnchor>> anchors;  // of each bottom
  int64_t classes = 0;
  bool softmax = false;  // classes exclude each other; else a sigmoid each
  double least = 0;      // scores must be above it
  Suppression suppression;
};

/// Error unless threshold and suppression make sense.
void check_grid_detection(const GridDetectionSettings& settings);

/// The choice of boxes on a device.
class GridChoiceOnDevice {
 public:
  explicit GridChoiceOnDevice(const GridDetectionSettings& settings);
  ~GridChoiceOnDevice();

  /// Writes the rows of the chosen boxes, and sets the shape of the top: the host waits for their
  /// number. False, and nothing is written, where a confidence is NaN. `shape` as for
  /// write_detections().
  bool run(const ComputeDevice& device, Blobs bottom, const std::vector<GridLayout>& grids,
           Shape& shape, Blob& top);
  size_t bytes() const;

 private:
  struct Memory;
  const GridDetectionSettings& settings_;
  std::unique_ptr<Memory> memory_;
};

class GridDetectionLayer : public TwoSidedLayer {
 public:
  Arity arity() const override {
    const int bottoms = static_cast<int>(settings_.anchors.size());
    return {.min_bottoms = bottoms, .max_bottoms = bottoms};
  }
  bool can_propagate(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }
  TopShapes top_shapes() const override { return TopShapes::from_values; }
  size_t kept_bytes() const override { return there_ ? there_->bytes() : 0; }

  /// With the bound: forward sets the number of boxes.
  void reshape(Blobs bottom, Blobs top) override;
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;

 protected:
  GridDetectionLayer(const LayerInit& init, GridDetectionSettings settings);

 private:
  template <class T>
  struct OfImage {
    std::vector<BoundingBox<T>> boxes;
    std::vector<std::vector<Candidate<T>>> candidates;  // of each class; their index is a box
    std::vector<std::vector<Detection<T>>> kept;        // of each class
    BoxColumns<T> columns;
    std::vector<int32_t> numbers;
    std::vector<double> shares;  // of each class
  };
  template <class T>
  void find(Blobs bottom, int64_t image, OfImage<T>& found);

  GridDetectionSettings settings_;
  std::vector<GridLayout> grids_;  // of each bottom
  Shape shape_;                    // of the top
  std::tuple<std::vector<OfImage<float>>, std::vector<OfImage<double>>> memory_;
  std::unique_ptr<GridChoiceOnDevice> there_;
};

}  // namespace crema
