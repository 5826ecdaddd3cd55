// Weights and bias of a convolution with the scales and shifts behind it in them:
//
//   s (w x + b) + t = (s w) x + (s b + t)
//
// for nets that do not train, where BatchNorm with stored statistics is such a scale and shift.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/move.hpp"
#include "crema/layer.hpp"
#include "layers/convolution/geometry.hpp"

namespace crema {

/// The number of steps at the beginning of the tail that only scale and shift channels.
size_t foldable_steps(const Tail& tail);

class FoldedParameters {
 public:
  /// `own_weights` and `own_bias` (null: none) are those of the layer, `steps` the scales and
  /// shifts of its tail, in their order. All have to outlive this object. f32 or f64, on the host.
  FoldedParameters(const ConvolutionGeometry& geometry, const Parameter& own_weights,
                   const Parameter* own_bias, Tail steps);

  /// Computes the values of `weights` and `bias` on the host if a parameter changed since the last
  /// call. Layers that share all parameters share the values. While `device` records, the log knows
  /// what they follow from, and a change is a StaleRecord (core/access_log.hpp).
  void update(const ComputeDevice& device);

  Parameter weights, bias;

 private:
  struct Values;
  /// The composition of the steps.
  ChannelAffine affine() const;
  std::shared_ptr<Values> fold(const Tensor& own_weights, const ChannelAffine& affine) const;

  const ConvolutionGeometry& geometry_;
  const Parameter& own_weights_;
  const Parameter* own_bias_;
  Tail steps_;
  std::vector<const Parameter*> sources_;  // all that the values follow from
  std::vector<uint64_t> versions_;         // of sources_, at the last update
  std::shared_ptr<Values> values_;
};

}  // namespace crema
