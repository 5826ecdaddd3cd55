// Scale: multiplies by a tensor that covers some axes and is broadcast over the others; optionally
// adds a learned bias of the same shape. See README.md.
#pragma once

#include "kit/pass_layer.hpp"

namespace crema {

class ScaleLayer : public PassLayer {
 public:
  explicit ScaleLayer(const LayerInit& init);

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = 2}; }
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  std::optional<TailStep> as_tail_step() const override;

  /// The learned scale; null where the second bottom is the scale.
  Parameter* scale() const { return scale_; }
  /// Null without bias_term.
  Parameter* bias() const { return bias_; }
  /// A learned scale, one number a channel (axis 1).
  bool is_learned_per_channel() const { return scale_ && axis_ == 1 && scale_axes_ == 1; }
  /// One number a channel, or one for all.
  bool fits_any_format() const { return (axis_ == 1 && scale_axes_ == 1) || dim_ == 1; }
  bool wants_scale_gradient() const { return scale_ && scale_->needs_gradient; }
  bool wants_bias_gradient() const { return bias_ && bias_->needs_gradient; }
  /// The values that forward multiplies by: (dim()).
  const Tensor& scale_data(Blobs bottom) const { return scale_ ? scale_->data : bottom[1]->data; }

  // The first bottom as (outer, dim, inner), of which the scale covers dim.
  int64_t outer() const { return outer_; }
  int64_t dim() const { return dim_; }
  int64_t inner() const { return inner_; }

 protected:
  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  Parameter* scale_ = nullptr;
  Parameter* bias_ = nullptr;
  int axis_ = 1;
  int scale_axes_ = 1;
  int64_t outer_ = 1, dim_ = 1, inner_ = 1;
};

}  // namespace crema
