// Where the windows of pooling lie, and pooling written once for the reference and CUDA: bodies for
// one output or one input.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/functor.hpp"
#include "core/philox.hpp"

namespace crema {

/// Where windows lie along one axis. Output o covers the inputs [begin(o), end(o)): none where the
/// last window starts behind the image (has_empty()). Device code may call what is constexpr.
struct PoolingAxis {
  int64_t size = 1;  // inputs
  int64_t out = 1;   // outputs
  int64_t kernel = 1, stride = 1, pad = 0;

  /// Where the window starts, padding counted: may be negative.
  constexpr int64_t start(int64_t o) const { return o * stride - pad; }
  constexpr int64_t begin(int64_t o) const { return std::max<int64_t>(start(o), 0); }
  constexpr int64_t end(int64_t o) const { return std::min(start(o) + kernel, size); }
  /// Cells of the window within the padded input: what the published average divides by.
  constexpr int64_t padded_extent(int64_t o) const {
    return std::min(start(o) + kernel, size + pad) - start(o);
  }
  constexpr int64_t extent(int64_t o) const { return end(o) - begin(o); }
  constexpr bool has_empty() const { return extent(out - 1) <= 0; }

  /// The outputs whose windows hold input i: [first_cover(i), last_cover(i)), perhaps none.
  constexpr int64_t first_cover(int64_t i) const {
    const int64_t reach = i + pad - kernel + 1;
    return reach <= 0 ? 0 : (reach + stride - 1) / stride;
  }
  constexpr int64_t last_cover(int64_t i) const {
    return out == 1 ? 1 : std::min((i + pad) / stride + 1, out);
  }

  /// The outputs whose windows lie wholly inside the input: [first_inner(), last_inner()).
  constexpr int64_t first_inner() const { return std::min((pad + stride - 1) / stride, out); }
  constexpr int64_t last_inner() const {
    const int64_t room = size + pad - kernel;
    return room < 0 ? first_inner() : std::clamp(room / stride + 1, first_inner(), out);
  }
};

enum class PoolingMethod : uint8_t { maximum, average, stochastic };

/// The output of a channel at which a window lies.
struct PoolingOutput {
  int64_t z = 0, y = 0, x = 0;
};

/// Windows over channels of (z.size, y.size, x.size), contiguous; images have one plane.
struct PoolingWindows {
  PoolingAxis z = {}, y = {}, x = {};  // of the planes, of the rows, and within a row
  bool counts_padding = true;          // an average counts padding as zeros

  CREMA_FUNCTOR int64_t inputs() const { return z.size * y.size * x.size; }
  CREMA_FUNCTOR int64_t outputs() const { return z.out * y.out * x.out; }

  /// The output with number `o` of [0, outputs()).
  CREMA_FUNCTOR PoolingOutput output(int64_t o) const {
    const int64_t row = o / x.out, ox = o - row * x.out;
    if (z.out == 1) return {0, row, ox};
    return {row / y.out, row % y.out, ox};
  }
  CREMA_FUNCTOR bool is_empty(const PoolingOutput& o) const {
    return z.extent(o.z) <= 0 || y.extent(o.y) <= 0 || x.extent(o.x) <= 0;
  }
  /// The place, within the channel, of the first cell of the window.
  CREMA_FUNCTOR int64_t first(const PoolingOutput& o) const {
    return (z.begin(o.z) * y.size + y.begin(o.y)) * x.size + x.begin(o.x);
  }
  /// Calls body with the places, within the channel, of the window of an output.
  template <class Body>
  CREMA_FUNCTOR void each(const PoolingOutput& o, const Body& body) const {
    const int64_t x_begin = x.begin(o.x), x_end = x.end(o.x);
    const int64_t y_begin = y.begin(o.y), y_end = y.end(o.y);
    for (int64_t iz = z.begin(o.z); iz < z.end(o.z); ++iz) {
      const int64_t plane = iz * y.size;
      for (int64_t row = plane + y_begin; row < plane + y_end; ++row) {
        for (int64_t i = row * x.size + x_begin; i < row * x.size + x_end; ++i) body(i);
      }
    }
  }
  /// What an average divides by.
  CREMA_FUNCTOR int64_t divisor(const PoolingOutput& o) const {
    return counts_padding ? z.padded_extent(o.z) * y.padded_extent(o.y) * x.padded_extent(o.x)
                          : z.extent(o.z) * y.extent(o.y) * x.extent(o.x);
  }
};

/// Where the outputs of channels begin: one channel behind the other.
struct PoolingDense {
  CREMA_FUNCTOR int64_t begin(int64_t channel, int64_t outputs) const { return channel * outputs; }
};

/// The random numbers of one pass.
struct PoolingChance {
  uint32_t key0 = 0, key1 = 0;  // from (seed, layer, iteration, pass)

  /// In [0, 1), for one output.
  CREMA_FUNCTOR float of(int64_t output) const {
    const auto i = static_cast<uint64_t>(output);
    const PhiloxBlock words =
        philox_block({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, key0, key1);
    return static_cast<float>(words.a >> 8) * 0x1p-24F;
  }
};

/// Two sums of a window, for the probability-weighted average: sum of x^2 / sum of x.
template <class T>
struct PoolingWeighted {
  T sum = 0, squares = 0;

  CREMA_FUNCTOR PoolingWeighted(const PoolingWindows& windows, const T* channel,
                                const PoolingOutput& output) {
    windows.each(output, [&](int64_t i) { sum += channel[i], squares += channel[i] * channel[i]; });
  }
};

/// What a choice says where no input gets a gradient: ReLU held the maximum back.
inline constexpr int32_t kNoChoice = -1;

/// Body for outputs. choice, the place within the channel, and mask, the same as a value, may be
/// null. `Outputs` says where outputs lie.
template <class T, class Outputs = PoolingDense>
struct PoolingForward {
  PoolingWindows windows;
  PoolingMethod method;
  bool rectifies;  // a ReLU follows the maximum
  bool samples;    // stochastic: draws, or else takes the weighted average
  PoolingChance chance;
  const T* in;
  T* out;
  int32_t* choice;
  T* mask;
  Outputs places = {};

  CREMA_FUNCTOR void operator()(int64_t number) const {
    const int64_t channel_number = number / windows.outputs();
    const int64_t within = number - channel_number * windows.outputs();
    const int64_t o = places.begin(channel_number, windows.outputs()) + within;
    const PoolingOutput at = windows.output(within);
    const T* const channel = in + channel_number * windows.inputs();
    if (windows.is_empty(at)) {
      out[o] = T{0};
      if (choice) choice[o] = kNoChoice;
      if (mask) mask[o] = T{-1};
      return;
    }
    int64_t chosen = windows.first(at);
    if (method == PoolingMethod::maximum) {
      // NaN, which alone differs from itself, wins and stays.
      windows.each(at, [&](int64_t i) {
        if (channel[i] > channel[chosen] || channel[i] != channel[i]) chosen = i;
      });
      out[o] = rectifies && channel[chosen] < T{0} ? T{0} : channel[chosen];
    } else if (method == PoolingMethod::average) {
      T sum = 0;
      windows.each(at, [&](int64_t i) { sum += channel[i]; });
      out[o] = sum / static_cast<T>(windows.divisor(at));
    } else if (samples) {
      const T all = PoolingWeighted<T>(windows, channel, at).sum;
      const T threshold = static_cast<T>(chance.of(o)) * all;
      T before = 0;
      bool found = false;
      windows.each(at, [&](int64_t i) {
        before += channel[i];
        if (!found && before >= threshold) chosen = i, found = true;
      });
      out[o] = all == all ? channel[chosen] : all;  // NaN, which alone differs from itself
    } else {
      const PoolingWeighted<T> weighted(windows, channel, at);
      out[o] = weighted.sum == T{0} ? T{0} : weighted.squares / weighted.sum;
    }
    const bool held_back = rectifies && !(out[o] > T{0});
    if (choice) choice[o] = held_back ? kNoChoice : static_cast<int32_t>(chosen);
    if (mask) mask[o] = static_cast<T>(chosen);
  }
};

/// Body for inputs, each of which gathers from the windows that hold it: no two threads write one
/// place. `choice` is null where every input of a window has a share, `in` where shares do not
/// depend on it.
template <class T, class Outputs = PoolingDense>
struct PoolingBackward {
  PoolingWindows windows;
  const T* dy;
  const T* in;
  const int32_t* choice;
  bool adds;  // to what dx holds
  T* dx;
  Outputs places = {};

  CREMA_FUNCTOR void operator()(int64_t place) const {
    const PoolingAxis &z = windows.z, &y = windows.y, &x = windows.x;
    const int64_t channel_number = place / windows.inputs();
    const int64_t i = place - channel_number * windows.inputs();
    const int64_t row = i / x.size, ix = i - row * x.size;
    const int64_t iz = z.size == 1 ? 0 : row / y.size, iy = row - iz * y.size;
    const int64_t first = places.begin(channel_number, windows.outputs());
    T sum = adds ? dx[place] : T{0};
    const int64_t z_end = z.last_cover(iz), y_end = y.last_cover(iy), x_end = x.last_cover(ix);
    const int64_t y_begin = y.first_cover(iy), x_begin = x.first_cover(ix);
    for (int64_t oz = z.first_cover(iz); oz < z_end; ++oz) {
      for (int64_t oy = y_begin; oy < y_end; ++oy) {
        for (int64_t ox = x_begin; ox < x_end; ++ox) {
          const int64_t o = first + (oz * y.out + oy) * x.out + ox;
          if (choice) {
            if (choice[o] == i) sum += dy[o];
          } else if (!in) {
            sum += dy[o] / static_cast<T>(windows.divisor({oz, oy, ox}));
          } else {
            // y = sum of x^2 / sum of x, so dy/dx = (2 x - y) / sum of x.
            const PoolingWeighted<T> weighted(windows, in + channel_number * windows.inputs(),
                                              {oz, oy, ox});
            if (weighted.sum == T{0}) continue;
            sum += dy[o] * (2 * in[place] - weighted.squares / weighted.sum) / weighted.sum;
          }
        }
      }
    }
    dx[place] = sum;
  }
};

}  // namespace crema
