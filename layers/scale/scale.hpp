// Scale: multiplies by a tensor that covers some axes and is broadcast over the others; optionally
// adds a learned bias of the same shape. See README.md.
#pragma once

#include "backend/channel_view.hpp"
#include "kit/two_sided.hpp"

namespace crema {

class ScaleLayer : public TwoSidedLayer {
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
  bool fits_any_format() const { return (axis_ == 1 && scale_axes_ == 1) || view_.channels == 1; }
  bool wants_scale_gradient() const { return scale_ && scale_->needs_gradient; }
  bool wants_bias_gradient() const { return bias_ && bias_->needs_gradient; }
  /// The values that forward multiplies by: (view().channels).
  const Tensor& scale_data(Blobs bottom) const { return scale_ ? scale_->data : bottom[1]->data; }

  /// The first bottom; the scale covers its channels.
  const ChannelView& view() const { return view_; }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override;
  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  Parameter* scale_ = nullptr;
  Parameter* bias_ = nullptr;
  int axis_ = 1;
  int scale_axes_ = 1;
  ChannelView view_;
};

}  // namespace crema
