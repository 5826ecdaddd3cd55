// The body of device_narrow(), for CUDA's kernel and the device of the tests.
#pragma once

#include "backend/row_ends.hpp"
#include "core/float_values.hpp"

namespace crema {

/// An index stands for a pack of weights, or behind these of the bias.
struct NarrowParameters {
  static constexpr int64_t kPack = kPackSize<float>;
  int64_t weight_count, bias_count;
  ValuesIn<float> weights, bias;
  ValuesOut<float> to_weights, to_bias;
  bool weights_in_vectors, bias_in_vectors;

  NarrowParameters(const ParameterCopy& copy, DType dtype)
      : weight_count(copy.weight_count),
        bias_count(copy.bias_count),
        weights(copy.weights, Stored::as_computed),
        bias(copy.bias, Stored::as_computed),
        to_weights(copy.to_weights, stored_as<float>(dtype)),
        to_bias(copy.to_bias, stored_as<float>(dtype)),
        weights_in_vectors(aligned(weights, to_weights)),
        bias_in_vectors(aligned(bias, to_bias)) {}

  static CREMA_FUNCTOR int64_t packs(int64_t count) { return (count + kPack - 1) / kPack; }
  CREMA_FUNCTOR int64_t count() const { return packs(weight_count) + packs(bias_count); }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t of_weights = packs(weight_count);
    if (i < of_weights) {
      copy(i * kPack, weight_count, weights_in_vectors, weights, to_weights);
    } else {
      copy((i - of_weights) * kPack, bias_count, bias_in_vectors, bias, to_bias);
    }
  }

 private:
  CREMA_FUNCTOR static void copy(int64_t first, int64_t count, bool vectors,
                                 const ValuesIn<float>& from, const ValuesOut<float>& to) {
    const int64_t left = count - first;
    const int some = left < kPack ? static_cast<int>(left) : static_cast<int>(kPack);
    const PackAt<float> at{first, some, vectors && some == kPack};
    at.store(at.load(from), to);
  }
};

}  // namespace crema
