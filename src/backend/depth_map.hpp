// DepthMap: a convolution whose strides are moved into its channels (space to depth), and the
// bodies of passes that rearrange its pixels and weights, for the CPU's tests and CUDA's kernels.
//
// A convolution of stride s reads pixel u = s p - pad + t for tap t. With e = ceil(pad / s) s -
// pad, t + e = s q + r and 0 <= r < s, pixel u is residue r of position p + q - ceil(pad / s) of a
// map that is coarser by s. So the result is a convolution of stride 1, without padding, whose taps
// are q and whose channels are (r, c):
//
//   deep pixels   (N, D.., channels')      the pixel, or 0 outside of the image; D = outputs + q -
//   1 deep weights  (K, q.., channels')      the weight, or 0 where t is no tap
//
// channels' is s.. * C and zeros up to a multiple of what a device reads at once. With strides of 1
// it is the convolution itself, with padded channels and with the zeros around the image in memory.
// A map of `plain` weights only changes their order: (K, C, taps) to (K, taps, C).
#pragma once

#include <array>
#include <cstdint>

#include "core/convert.hpp"
#include "core/functor.hpp"

namespace crema {

struct DepthMap {
  static constexpr int kAxes = 3;
  using Extents = std::array<uint32_t, kAxes>;  // of the spatial axes; missing ones are first, 1

  bool is_plain = false;
  uint32_t channels = 1;  // of a group
  uint32_t deep_channels = 1;
  Extents stride{1, 1, 1}, taps{1, 1, 1}, deep_taps{1, 1, 1};
  Extents shift{0, 0, 0};   // e
  Extents before{0, 0, 0};  // ceil(pad / s)
  Extents extent{1, 1, 1}, deep_extent{1, 1, 1};

  static DepthMap plain(uint32_t channels, const Extents& taps) {
    DepthMap map;
    map.is_plain = true;
    map.channels = map.deep_channels = channels;
    map.taps = map.deep_taps = taps;
    return map;
  }
  /// `multiple`: that of deep_channels.
  static DepthMap deep(uint32_t channels, const Extents& taps, const Extents& stride,
                       const Extents& pad, const Extents& extent, const Extents& outputs,
                       uint32_t multiple) {
    DepthMap map;
    map.channels = map.deep_channels = channels;
    map.taps = taps;
    map.stride = stride;
    map.extent = extent;
    for (size_t a = 0; a < kAxes; ++a) {
      const uint32_t s = stride[a];
      map.before[a] = (pad[a] + s - 1) / s;
      map.shift[a] = map.before[a] * s - pad[a];
      map.deep_taps[a] = (taps[a] + map.shift[a] + s - 1) / s;
      map.deep_extent[a] = outputs[a] + map.deep_taps[a] - 1;
      map.deep_channels *= s;
    }
    map.deep_channels = (map.deep_channels + multiple - 1) / multiple * multiple;
    return map;
  }

  bool operator==(const DepthMap&) const = default;
  /// What it says of weights: the same for all extents of the pixels.
  DepthMap of_weights() const {
    DepthMap map = *this;
    map.extent = map.deep_extent = {1, 1, 1};
    return map;
  }
  /// The deep weights are the weights, in their order.
  CREMA_FUNCTOR bool keeps_order() const {
    return is_plain && (channels == 1 || taps[0] * taps[1] * taps[2] == 1);
  }

  CREMA_FUNCTOR uint32_t weights() const { return channels * taps[0] * taps[1] * taps[2]; }
  CREMA_FUNCTOR uint32_t deep_weights() const {
    return deep_channels * deep_taps[0] * deep_taps[1] * deep_taps[2];
  }
  CREMA_FUNCTOR uint32_t deep_pixels() const {
    return deep_extent[0] * deep_extent[1] * deep_extent[2];
  }

  /// Where an output's weights, (C, taps), have element `i` of its deep weights, (q, channels').
  /// Returns weights() for a zero.
  CREMA_FUNCTOR uint32_t weight_of(uint32_t i) const {
    if (is_plain) return i % channels * (taps[0] * taps[1] * taps[2]) + i / channels;
    uint32_t deep = i % deep_channels, tap = i / deep_channels, c = deep % channels;
    deep /= channels;
    uint32_t place = 0, scale = 1;
    for (int a = kAxes - 1; a >= 0; --a) {
      const uint32_t q = tap % deep_taps[a], r = deep % stride[a];
      tap /= deep_taps[a];
      deep /= stride[a];
      const uint32_t t = q * stride[a] + r;
      if (t < shift[a] || t - shift[a] >= taps[a]) return weights();
      place += (t - shift[a]) * scale;
      scale *= taps[a];
    }
    return deep > 0 ? weights() : c * scale + place;
  }
  /// The reverse of it.
  CREMA_FUNCTOR uint32_t deep_weight_of(uint32_t i) const {
    const uint32_t all = taps[0] * taps[1] * taps[2];
    if (is_plain) return i % all * channels + i / all;
    uint32_t place = i % all, residue = 0, residues = 1, tap = 0, deep_all = 1;
    for (int a = kAxes - 1; a >= 0; --a) {
      const uint32_t t = place % taps[a] + shift[a];
      place /= taps[a];
      residue += t % stride[a] * residues;
      residues *= stride[a];
      tap += t / stride[a] * deep_all;
      deep_all *= deep_taps[a];
    }
    return tap * deep_channels + residue * channels + i / all;
  }
};

/// deep weights = weights, in the order of the map and another type. One index an element.
template <class To, class From>
struct DeepenWeights {
  DepthMap map;
  const From* from;  // (K, weights)
  To* to;            // (K, deep weights)
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const auto index = static_cast<uint32_t>(i), k = index / map.deep_weights();
    const uint32_t place = map.weight_of(index - k * map.deep_weights());
    to[i] = place < map.weights() ? convert_value<To>(from[k * map.weights() + place]) : To{};
  }
};

/// gradient = beta * gradient + that of the deep weights. One index an element of the gradient.
template <class From>
struct AddDeepGradient {
  DepthMap map;
  float beta;
  const From* from;
  float* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const auto index = static_cast<uint32_t>(i), k = index / map.weights();
    const uint32_t place = map.deep_weight_of(index - k * map.weights());
    const auto value = convert_value<float>(from[k * map.deep_weights() + place]);
    // 0 * NaN is NaN, so what is to be overwritten is not read.
    to[i] = beta == 0 ? value : beta * to[i] + value;
  }
};

/// Values that a device stores at once: 16 bytes.
template <class T>
struct alignas(16) ValuePack {
  static constexpr uint32_t kCount = 16 / sizeof(T);
  T values[kCount];
};

/// How an image lies in memory: elements between neighbours.
struct PixelStrides {
  int64_t image = 0, channel = 0;
  std::array<int64_t, DepthMap::kAxes> axis{0, 0, 0};
};

/// deep pixels = pixels. One index a pack of channels', below 2^32.
template <class To, class From>
struct DeepenPixels {
  DepthMap map;
  PixelStrides strides;
  const From* from;
  To* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    constexpr int kAxes = DepthMap::kAxes;
    using Pack = ValuePack<To>;
    // Divisions in 32 bits, and none for the values of a pack.
    const uint32_t packs = map.deep_channels / Pack::kCount, index = static_cast<uint32_t>(i);
    const uint32_t pixel = index / packs, first = (index - pixel * packs) * Pack::kCount;
    const uint32_t image = pixel / map.deep_pixels();
    uint32_t place = pixel - image * map.deep_pixels(), residue = first / map.channels;
    uint32_t c = first - residue * map.channels;
    // The pixel of the residue along each axis, with the margin in front of the image.
    uint32_t base[kAxes], r[kAxes];
    for (int a = kAxes - 1; a >= 0; --a) {
      const uint32_t next = place / map.deep_extent[a], above = residue / map.stride[a];
      base[a] = (place - next * map.deep_extent[a]) * map.stride[a];
      r[a] = residue - above * map.stride[a];
      place = next;
      residue = above;
    }
    Pack pack;
    for (uint32_t k = 0; k < Pack::kCount; ++k) {
      int64_t source = int64_t{image} * strides.image + int64_t{c} * strides.channel;
      bool inside = residue == 0;  // else behind the last one: padding
      for (int a = 0; a < kAxes; ++a) {
        const uint32_t margin = map.before[a] * map.stride[a], u = base[a] + r[a];
        inside = inside && u >= margin && u - margin < map.extent[a];
        source += int64_t{u - margin} * strides.axis[static_cast<size_t>(a)];
      }
      pack.values[k] = inside ? convert_value<To>(from[source]) : To{};
      if (++c < map.channels) continue;
      c = 0;
      uint32_t carry = 1;
      for (int a = kAxes - 1; a >= 0; --a) {
        r[a] += carry;
        carry = r[a] == map.stride[a] ? 1 : 0;
        r[a] -= carry * map.stride[a];
      }
      residue += carry;
    }
    reinterpret_cast<Pack*>(to)[i] = pack;
  }
};

}  // namespace crema
