// Layers that join tensors along an axis, or cut one: a whole and its parts.
//
//   class MyJoin : public PartsLayer {
//     explicit MyJoin(const LayerInit& init) : PartsLayer(init, Makes::whole, axis) {}
//     void reshape(Blobs bottom, Blobs top) override;
//   };
//
// The passes only move data. Where each part is one row of the whole, the net plans the parts as
// pieces of the whole (InPlace::parts), and the passes do nothing. Where there are more rows, parts
// of a join whose kernels can write them there are ranges of these (core/row_ranges.hpp); the
// passes move the others.
#pragma once

#include <vector>

#include "core/row_ranges.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

class PartsLayer : public TwoSidedLayer, public JoinsRows {
 public:
  bool moves_values() const override { return true; }
  void prepare_reference(Blobs bottom, Blobs top) override;
  /// Blocked formats along axis 1 need parts without padding.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;
  int64_t joined_rows() const override { return makes_ == Makes::whole ? rows_ : 0; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  /// What the layer makes: one whole of several parts, or several parts of one whole.
  enum class Makes : uint8_t { whole, parts };
  /// `axis` may be negative: it counts from the end.
  PartsLayer(const LayerInit& init, Makes makes, int axis)
      : TwoSidedLayer(init), makes_(makes), given_axis_(axis) {}

  /// The axis, counted from the front. Error if the shape has no such axis.
  int axis_of(const Shape& shape) const { return shape.canonical_axis(given_axis_); }
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return in_place_; }

 private:
  Blobs parts(Blobs bottom, Blobs top) const { return makes_ == Makes::whole ? bottom : top; }
  const Blob& whole(Blobs bottom, Blobs top) const {
    return makes_ == Makes::whole ? *top[0] : *bottom[0];
  }

  Makes makes_;
  int given_axis_;
  int64_t rows_ = 0;  // of the whole in memory
  InPlace in_place_ = InPlace::never;
};

}  // namespace crema
