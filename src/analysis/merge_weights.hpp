// Weights of convolutions and inner products that take the scale and the shift of channels before
// or behind them.
#pragma once

#include <functional>

#include "crema/layer.hpp"
#include "proto/layer.pb.h"

namespace crema {

/// The weights in the message of a layer: blobs of f64 (double_data).
class MergeableWeights {
 public:
  /// Convolution, Deconvolution, InnerProduct, and names of forks.
  static bool are_in(const LayerParameter& param);

  /// `bottom`: the shape of its bottom. Error if the channels are not where they can be scaled.
  MergeableWeights(LayerParameter& param, const Shape& bottom);

  /// For a layer behind it. Error, with nothing changed, if that is not the same.
  void scale_outputs(const ChannelAffine& affine);
  /// For a layer before it, likewise.
  void scale_inputs(const ChannelAffine& affine);

 private:
  /// Calls body(weight, output channel, input channel) for all weights.
  void for_each(const std::function<void(double&, size_t, size_t)>& body);
  /// The bias, which is made if there is none.
  double* bias();
  bool has_padding() const;
  bool is_inner_product() const;
  bool is_3d() const { return param_->type() == "Convolution3D"; }
  bool is_transposed() const;  // the weights' first axis is the input

  LayerParameter* param_;
  Shape weights_;
  int64_t outputs_ = 0, inputs_ = 0;  // channels
  int64_t per_channel_ = 1;           // InnerProduct: values of an input channel
};

}  // namespace crema
