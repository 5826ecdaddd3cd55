// Weights in the order that a primitive of ours reads them in.
#pragma once

#include <string>
#include <utility>

#include "backend/cpu/convolution_scratch.hpp"
#include "backend/derived_weights.hpp"

namespace crema {

/// Weights packed for a pass.
class PackedWeights {
 public:
  /// `form` names what is packed in the same way. `training`: the weights have no storage.
  PackedWeights(std::string form, int64_t count, bool training)
      : training_(training),
        count_(count),
        derived_(std::move(form), static_cast<size_t>(count) * sizeof(float)) {}

  template <class Pack>
  const float* get(const ConvolutionWeights& weights, const Pack& pack) {
    if (weights.storage == nullptr) {
      float* const packed = convolution_scratch(ConvolutionScratch::packed, count_);
      pack(weights.values, packed);
      return packed;
    }
    return static_cast<const float*>(derived_.get(
        *weights.storage, [&](void* to) { pack(weights.values, static_cast<float*>(to)); }));
  }

  size_t bytes() const { return training_ ? 0 : derived_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const {
    if (training_) need_scratch(plan, ConvolutionScratch::packed, count_, 1);
  }

 private:
  bool training_;
  int64_t count_;
  DerivedWeights derived_;
};

}  // namespace crema
