// What PriorBox and PriorBoxClustered share: boxes of fixed sizes around every position of a map.
#pragma once

#include <array>
#include <vector>

#include "layer_support/two_sided.hpp"

namespace crema {

class PriorBoxLayer : public TwoSidedLayer {
 public:
  /// A box around a position, in pixels of the image.
  struct Size {
    double width, height;
  };
  PriorBoxLayer(const LayerInit& init, std::vector<Size> sizes);

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int) const override { return false; }
  // Only the shapes of the bottoms are read.
  bool is_constant(int) const override { return true; }
  bool is_exact_bottom(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }

  void reshape(Blobs bottom, Blobs top) override;
  /// The bottoms in whatever layout they have.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override { return boxes_.bytes(); }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  struct Geometry {
    int64_t rows, columns;
    double image_height, image_width, step_h, step_w;
    bool operator==(const Geometry&) const = default;
  };
  Geometry geometry_of(Blobs bottom) const;
  void write_boxes();

  std::vector<Size> sizes_;
  std::array<double, 4> variance_;
  Geometry geometry_{};
  Tensor boxes_{Shape{0}, DType::f64};  // (1, 2, values), dtype()
};

}  // namespace crema
