// The loss of a grid detector, for RegionLoss and Yolov3; see their pages for the formula.
#pragma once

#include <optional>
#include <vector>

#include "layer_support/two_sided.hpp"
#include "layers/region_loss/grid_cell.hpp"
#include "layers/region_loss/grid_loss_on_device.hpp"

namespace crema {

struct GridLossSettings {
  std::vector<GridAnchor> anchors;  // all; true boxes belong to one of them
  std::vector<int64_t> mask;        // those that the bottom predicts, in its order
  int64_t classes = 0;
  double object_scale = 1, no_object_scale = 1, class_scale = 1, coordinate_scale = 1;
  /// A box without an object that overlaps a true one by more than this has no loss.
  double threshold = 0.5;
  /// Half squared errors of sigmoids; else cross entropies.
  bool squared = false;
  bool softmax = false;         // classes exclude each other
  bool rescores = false;        // the score of an object is to be the overlap, not 1
  bool by_shape = true;         // the anchor of a true box is chosen by size, not by the prediction
  bool weighs_by_size = false;  // coordinates count 2 - width * height times
};

/// Error if a scale or the threshold is negative or no number.
void check_grid_loss(const GridLossSettings& settings);

class GridLossLayer : public TwoSidedLayer {
 public:
  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  float default_loss_weight(int) const override { return 1; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  bool is_exact_bottom(int bottom) const override { return bottom == 1; }

  void reshape(Blobs bottom, Blobs top) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override { return gradient_.bytes() + (there_ ? there_->bytes() : 0); }
  Flops flops(Blobs bottom, Blobs top) const override;
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  GridLossLayer(const LayerInit& init, GridLossSettings settings);

  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// With pointers of the host.
  GridRules rules() const;
  /// The loss of one image; its gradient is written to `gradient`, which holds 0.
  template <class T>
  double loss_of(int64_t image, const T* values, T* gradient);
  /// Finds the place of each true box. The last of several true boxes of one place counts.
  template <class T>
  void assign(int64_t image, const T* values);

  GridLossSettings settings_;
  GridLayout grid_;
  GridTruths truths_;
  std::vector<int32_t> assigned_;  // (images, anchors, cells): the number of a true box, or -1
  std::vector<double> losses_;     // of each image
  Tensor gradient_;                // of the sum over the images, of the bottom's shape
  std::optional<GridLossOnDevice> there_;
};

}  // namespace crema
