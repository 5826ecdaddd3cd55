// Fillers: the first values of parameters.
#pragma once

#include <cstdint>
#include <string>

#include "crema/tensor.hpp"

namespace crema {

class FillerParameter;  // proto/common.proto

/// The published fillers. For a shape (O, I, k...), fan_in = count / O and fan_out = count / I.
///
///   constant             `value`
///   uniform              uniform in [min, max)
///   gaussian             normal(mean, std); with sparse s >= 0 each value is kept with probability
///                        s / O, else 0
///   xavier               uniform in +-sqrt(3 / n), n by variance_norm (Glorot and Bengio 2010)
///   msra                 normal(0, sqrt(2 / n)) (He et al. 2015)
///   positive_unitball    uniform in [0, 1), then each row (one output) divided by its sum
///   bilinear             upsampling kernel for Deconvolution; needs rank 4 and square kernels
struct Filler {
  enum class Type : uint8_t {
    constant,
    uniform,
    gaussian,
    xavier,
    msra,
    positive_unitball,
    bilinear
  };
  enum class VarianceNorm : uint8_t { fan_in, fan_out, average };

  Type type = Type::constant;
  double value = 0;
  double min = 0, max = 1;
  double mean = 0, std = 1;
  int sparse = -1;
  double scale = 1;  // multiplies all values
  VarianceNorm variance_norm = VarianceNorm::fan_in;

  Filler() = default;
  /// Error for an unknown type, with the nearest known name.
  explicit Filler(const FillerParameter& param);
  static Filler constant(double value);

  /// Fills a contiguous f32 or f64 tensor. The numbers depend on (seed, stream) alone.
  /// Error when the shape does not fit the type.
  void fill(Tensor& tensor, uint64_t seed, uint64_t stream) const;
};

}  // namespace crema
