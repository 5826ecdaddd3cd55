// Tile and Repeat: copies along an axis. See README.md.
#pragma once

#include "core/axis_split.hpp"
#include "core/strided.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

/// The top is `times` copies of piece 0 of the bottom, `times` of piece 1, ... An axis grows by the
/// factor `times`.
class CopiesLayer : public TwoSidedLayer {
 public:
  bool moves_values() const override { return true; }
  void reshape(Blobs bottom, Blobs top) override;
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return {uniform_option(bottom, top, dtype())};
  }
  bool stores_16_bits() const override { return true; }
  Flops flops(Blobs bottom, Blobs top) const override;
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  /// What is copied: all of the axis and what is behind it, or slice by slice of the axis.
  enum class Piece : uint8_t { axis, slice };
  CopiesLayer(const LayerInit& init, int64_t times, int axis, Piece piece)
      : TwoSidedLayer(init), times_(times), axis_(axis), piece_(piece) {}

  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return times_ == 1 ? InPlace::alias : InPlace::never;
  }

 private:
  int64_t times_;
  int axis_;
  Piece piece_;
  AxisSplit split_;  // the top: (pieces, copies, values of a piece)
  StridedGather box_;
};

}  // namespace crema
