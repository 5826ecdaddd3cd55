// The passes of Normalize on a device. Where each place is normalized by itself, lanes of a block
// share a position whose values lie side by side; other positions have a thread each, neighbours in
// memory beside each other. A lane adds up a vector in the type that it computes in, and everything
// else in f64. Whole samples are sums and maps of channels (layer_support/channel_passes.hpp),
// whose coefficients are made here.
//
// For sources that include layer_support/passes.hpp.
#pragma once

#include <cmath>

#include "core/axis_split.hpp"
#include "core/fast_division.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/row_norm_blocks.hpp"

namespace crema::l2_norm {

/// What is normalized together: the values of a position of the split. Value k of it is of channel
/// k / block % channels.
struct Vectors {
  AxisSplit split;
  int64_t block = 1, channels = 1;   // channels 1: one scale for all
  FastDivision by_sample, by_inner;  // by size * inner, and by inner

  CREMA_FUNCTOR int64_t channel(int64_t k) const {
    if (channels == 1) return 0;
    return channels == split.size ? k : k / block % channels;
  }
  /// The scales of values from k on, where a position has a value of each channel.
  template <class W, int kCount>
  CREMA_FUNCTOR void scales(const W* from, int64_t k, W (&to)[kCount]) const {
    if (channels > 1) return crema::channels::load_coefficients(from, k, kCount, W{1}, to);
    for (int i = 0; i < kCount; ++i) to[i] = from[0];
  }
  CREMA_FUNCTOR int64_t position(int64_t place) const {
    return place / by_sample * split.inner + place % by_inner;
  }
};

/// What a place adds to the gradient of its scale.
template <class S>
struct ScaleTerm {
  Vectors vectors;
  const S *x, *dy;
  const double* inverse_norm;
  CREMA_FUNCTOR double operator()(int64_t place) const {
    return static_cast<double>(wide_value(dy[place])) * static_cast<double>(wide_value(x[place])) *
           inverse_norm[vectors.position(place)];
  }
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t /*channel*/) const {
    return {(*this)(place), 0};
  }
};

/// Body for a sum that is the gradient of the one scale.
template <class T>
struct AddTotal {
  const double* total;
  channels::AddSums<T> to;  // its second
  CREMA_FUNCTOR void operator()(int64_t i) const { to(i, {0, total[i]}); }
};

/// From the sum of the squares of sample n.
struct SetInverse {
  double eps;
  double* inverse_norm;
  CREMA_FUNCTOR void operator()(int64_t n, const SumPair& sums) const {
    inverse_norm[n] = 1 / std::sqrt(sums.second + eps);
  }
};

/// Body for gains, `each` of a sample: y = x * gain.
template <class T>
struct SetGain {
  int64_t each;
  const T* scale;
  const double* inverse_norm;
  T* gain;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t n = i / each;
    gain[i] = static_cast<T>(inverse_norm[n] * static_cast<double>(scale[i - n * each]));
  }
};

/// Body for samples, from sums of dy * x: dx = dy * gain - x * slope.
template <class T>
struct SetSampleGradient {
  int64_t each;  // coefficients of a sample
  const SumPair* sums;
  const T* scale;
  const double* inverse_norm;
  channels::Coefficients<T> to;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t n, const Lanes& lanes) const {
    const double inverse = inverse_norm[n];
    double sum = 0;
    for (int64_t c = lanes.first; c < each; c += lanes.count) {
      sum += static_cast<double>(scale[c]) * sums[n * each + c].second;
    }
    const double slope = lanes.sum(sum) * inverse * inverse * inverse;
    for (int64_t c = lanes.first; c < each; c += lanes.count) {
      to.gain[n * each + c] = static_cast<T>(static_cast<double>(scale[c]) * inverse);
      to.slope[n * each + c] = static_cast<T>(slope);
    }
  }
};

/// Body for scales, from the same sums: their gradients.
template <class T>
struct AddScale {
  int64_t each, samples;
  const SumPair* sums;
  const double* inverse_norm;
  channels::AddSums<T> to;  // its second

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t c, const Lanes& lanes) const {
    double sum = 0;
    for (int64_t n = lanes.first; n < samples; n += lanes.count) {
      sum += sums[n * each + c].second * inverse_norm[n];
    }
    sum = lanes.sum(sum);
    if (lanes.first == 0) to(c, {0, sum});
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
