// Layers that resample maps: each row of the top is a weighted sum of rows of the bottom, each
// column likewise. Nearest neighbours, bilinear and bicubic interpolation, tiling.
#pragma once

#include <vector>

#include "layer_support/two_sided.hpp"

namespace crema {

/// A sparse matrix: row i has the taps [begins[i], begins[i + 1]).
struct Taps {
  std::vector<int32_t> begins = {0}, sources;
  std::vector<double> weights;

  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
  /// Adds a tap to the row that end_row() will end.
  void add(int64_t source, double weight);
  void end_row() { begins.push_back(static_cast<int32_t>(sources.size())); }
};

/// Which points of an axis of `from` values the `to` values of the resampled axis are.
enum class Sampling : uint8_t {
  edges,    // both cover the same interval, of which each value has an equal part
  corners,  // the first and the last values are the same points
};
/// The value at or below the point (edges), or next to it (corners).
Taps nearest_taps(int64_t from, int64_t to, Sampling sampling);
/// With `edges`, the value in whose part the middle of the resampled value's part lies.
Taps nearest_exact_taps(int64_t from, int64_t to);
Taps linear_taps(int64_t from, int64_t to, Sampling sampling);
/// With the coefficient -0.75 of Keys' kernel; values beyond the ends are those at the ends.
Taps cubic_taps(int64_t from, int64_t to, Sampling sampling);

/// Bottom 0 (..., C, H, W) becomes top 0, of which reshape() sets the height and the width.
class ResampleLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  /// Contiguous and channels_last.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;

  bool stores_16_bits() const override { return true; }
  Flops flops(Blobs, Blobs top) const override {
    const double n = static_cast<double>(top[0]->count());
    return {4 * n, 4 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  size_t kept_bytes() const override;

 protected:
  /// Axis -2 is resampled by `height`, axis -1 by `width`. Sets the shape of the top. Error if the
  /// bottom has less than two axes.
  void set_taps(Blobs bottom, Blobs top, const Taps& height, const Taps& width);

  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// Taps as tensors, for both sides and both types.
  struct Table {
    Tensor begins{Shape{0}, DType::i32}, sources{Shape{0}, DType::i32};
    Tensor weights{Shape{0}, DType::f64};  // dtype()

    void set(const Taps& taps, DType dtype);
  };

  template <class T>
  void run(const ComputeDevice& device, const Table& height, const Table& width, const Tensor& from,
           Tensor& to);

  Table height_, width_, height_back_, width_back_;
  Tensor scratch_;
};

}  // namespace crema
