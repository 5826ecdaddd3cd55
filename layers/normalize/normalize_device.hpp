// The passes of Normalize on a device. Lanes of a block share a position whose values lie side by
// side; other positions have a thread each, neighbours in memory beside each other. A lane adds up
// a vector in the type that it computes in, and everything else in f64.
//
// For sources that include layer_support/passes.hpp.
#pragma once

#include <cmath>

#include "core/axis_split.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/row_norm_blocks.hpp"

namespace crema::l2_norm {

/// What is normalized together: the values of a position of the split. Value k of it is of channel
/// k / block % channels.
struct Vectors {
  AxisSplit split;
  int64_t block = 1, channels = 1;  // channels 1: one scale for all

  CREMA_FUNCTOR int64_t channel(int64_t k) const { return k / block % channels; }
  /// The scales of values from k on.
  template <class W, int kCount>
  CREMA_FUNCTOR void scales(const W* from, int64_t k, W (&to)[kCount]) const {
    if (block == 1 && channels == split.size)
      return crema::channels::load_coefficients(from, k, kCount, W{1}, to);
    for (int i = 0; i < kCount; ++i) to[i] = from[channel(k + i)];
  }
  CREMA_FUNCTOR int64_t position(int64_t place) const {
    return place / (split.size * split.inner) * split.inner + place % split.inner;
  }
};

/// What a place adds to the gradient of its scale.
template <class S>
struct ScaleTerm {
  Vectors vectors;
  const S *x, *dy;
  const double* inverse_norm;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t /*channel*/) const {
    return {static_cast<double>(wide_value(dy[place])) * static_cast<double>(wide_value(x[place])) *
                inverse_norm[vectors.position(place)],
            0};
  }
};

template <class S>
struct DeviceForward {
  using W = Wide<S>;
  Vectors vectors;
  double eps;
  bool aligned;
  const S* x;
  const W* scale;
  double* inverse_norm;
  W* factors;  // the same, rounded
  S* y;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes) const {
    const int64_t size = vectors.split.size;
    const row_norm::ReadRow<S, 1> row{{x + i * size}, lanes.first, lanes.count, size, aligned};
    double sum = 0;
    row.each([&]<int kSize>(int64_t, const W(&in)[1][kSize]) {
      W some{0};
      for (int k = 0; k < kSize; ++k) some = multiply_add(in[0][k], in[0][k], some);
      sum += static_cast<double>(some);
    });
    const double inverse = 1 / std::sqrt(lanes.sum(sum) + eps);
    const W factor = static_cast<W>(inverse);
    if (lanes.first == 0) {
      inverse_norm[i] = inverse;
      factors[i] = factor;
    }
    row.each([&]<int kSize>(int64_t j, const W(&in)[1][kSize]) {
      W scales[kSize], out[kSize];
      vectors.scales(scale, j, scales);
      for (int k = 0; k < kSize; ++k) out[k] = in[0][k] * factor * scales[k];
      row_norm::store_row<S>(out, y + i * size + j);
    });
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const AxisSplit& split = vectors.split;
    const int64_t first = split.at(i);
    double sum = 0;
    for (int64_t k = 0; k < split.size; ++k) {
      const double value = static_cast<double>(wide_value(x[first + k * split.inner]));
      sum += value * value;
    }
    const double inverse = 1 / std::sqrt(sum + eps);
    const W factor = static_cast<W>(inverse);
    inverse_norm[i] = inverse;
    factors[i] = factor;
    for (int64_t k = 0; k < split.size; ++k) {
      const int64_t at = first + k * split.inner;
      y[at] = stored_value<S>(wide_value(x[at]) * factor * scale[vectors.channel(k)]);
    }
  }
};

template <class S>
struct DeviceBackward {
  using W = Wide<S>;
  Vectors vectors;
  bool aligned;
  const S *x, *dy;
  const W* scale;
  const double* inverse_norm;
  S* dx;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes) const {
    const int64_t size = vectors.split.size, first = i * size;
    const row_norm::ReadRow<S, 2> row{
        {x + first, dy + first}, lanes.first, lanes.count, size, aligned};
    double sum = 0;
    row.each([&]<int kSize>(int64_t j, const W(&in)[2][kSize]) {
      W scales[kSize], some{0};
      vectors.scales(scale, j, scales);
      for (int k = 0; k < kSize; ++k) some = multiply_add(scales[k] * in[1][k], in[0][k], some);
      sum += static_cast<double>(some);
    });
    const double inverse = inverse_norm[i];
    const W factor = static_cast<W>(inverse);
    const W share = static_cast<W>(lanes.sum(sum) * inverse * inverse * inverse);
    row.each([&]<int kSize>(int64_t j, const W(&in)[2][kSize]) {
      W scales[kSize], out[kSize];
      vectors.scales(scale, j, scales);
      for (int k = 0; k < kSize; ++k) out[k] = scales[k] * in[1][k] * factor - in[0][k] * share;
      row_norm::store_row<S>(out, dx + first + j);
    });
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const AxisSplit& split = vectors.split;
    const int64_t first = split.at(i);
    double sum = 0;
    for (int64_t k = 0; k < split.size; ++k) {
      const int64_t at = first + k * split.inner;
      const W d = scale[vectors.channel(k)] * wide_value(dy[at]);
      sum += static_cast<double>(d) * static_cast<double>(wide_value(x[at]));
    }
    const double inverse = inverse_norm[i];
    const W factor = static_cast<W>(inverse);
    const W share = static_cast<W>(sum * inverse * inverse * inverse);
    for (int64_t k = 0; k < split.size; ++k) {
      const int64_t at = first + k * split.inner;
      const W d = scale[vectors.channel(k)] * wide_value(dy[at]);
      dx[at] = stored_value<S>(d * factor - wide_value(x[at]) * share);
    }
  }
};

/// Runs a body over all positions of a device.
template <class Body>
void for_each_vector(const ComputeDevice& device, const AxisSplit& split, int vector,
                     const Body& body) {
  if (split.inner == 1) {
    for_each_block(device, split.outer, split.size / vector, 0, body);
  } else {
    for_each(device, split.positions(), 1, body);
  }
}

}  // namespace crema::l2_norm
