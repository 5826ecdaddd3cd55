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
  constexpr int64_t last_cover(int64_t i) const { return std::min((i + pad) / stride + 1, out); }

  /// The outputs whose windows lie wholly inside the input: [first_inner(), last_inner()).
  constexpr int64_t first_inner() const { return std::min((pad + stride - 1) / stride, out); }
  constexpr int64_t last_inner() const {
    const int64_t room = size + pad - kernel;
    return room < 0 ? first_inner() : std::clamp(room / stride + 1, first_inner(), out);
  }
};

enum class PoolingMethod : uint8_t { maximum, average, stochastic };

/// Windows over planes of (y.size, x.size), contiguous.
struct PoolingWindows {
  PoolingAxis y, x;            // of the rows, and within a row
  bool counts_padding = true;  // an average counts padding as zeros

  CREMA_FUNCTOR int64_t plane() const { return y.size * x.size; }
  CREMA_FUNCTOR int64_t outputs() const { return y.out * x.out; }

  CREMA_FUNCTOR bool is_empty(int64_t oy, int64_t ox) const {
    return y.extent(oy) <= 0 || x.extent(ox) <= 0;
  }
  /// Calls body with the places, within the plane, of the window of output (oy, ox).
  template <class Body>
  CREMA_FUNCTOR void each(int64_t oy, int64_t ox, const Body& body) const {
    for (int64_t iy = y.begin(oy); iy < y.end(oy); ++iy) {
      for (int64_t ix = x.begin(ox); ix < x.end(ox); ++ix) body(iy * x.size + ix);
    }
  }
  /// What an average at output (oy, ox) divides by.
  CREMA_FUNCTOR int64_t divisor(int64_t oy, int64_t ox) const {
    return counts_padding ? y.padded_extent(oy) * x.padded_extent(ox) : y.extent(oy) * x.extent(ox);
  }
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

  CREMA_FUNCTOR PoolingWeighted(const PoolingWindows& windows, const T* plane, int64_t oy,
                                int64_t ox) {
    windows.each(oy, ox, [&](int64_t i) { sum += plane[i], squares += plane[i] * plane[i]; });
  }
};

/// What a choice says where no input gets a gradient: ReLU held the maximum back.
inline constexpr int32_t kNoChoice = -1;

/// Body for outputs. choice, the place within the plane, and mask, the same as a value, may be
/// null.
template <class T>
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

  CREMA_FUNCTOR void operator()(int64_t o) const {
    const int64_t ox = o % windows.x.out, oy = o / windows.x.out % windows.y.out;
    const T* const plane = in + o / windows.outputs() * windows.plane();
    if (windows.is_empty(oy, ox)) {
      out[o] = T{0};
      if (choice) choice[o] = kNoChoice;
      if (mask) mask[o] = T{-1};
      return;
    }
    int64_t chosen = windows.y.begin(oy) * windows.x.size + windows.x.begin(ox);
    if (method == PoolingMethod::maximum) {
      // NaN, which alone differs from itself, wins and stays.
      windows.each(oy, ox, [&](int64_t i) {
        if (plane[i] > plane[chosen] || plane[i] != plane[i]) chosen = i;
      });
      out[o] = rectifies && plane[chosen] < T{0} ? T{0} : plane[chosen];
    } else if (method == PoolingMethod::average) {
      T sum = 0;
      windows.each(oy, ox, [&](int64_t i) { sum += plane[i]; });
      out[o] = sum / static_cast<T>(windows.divisor(oy, ox));
    } else if (samples) {
      const T all = PoolingWeighted<T>(windows, plane, oy, ox).sum;
      const T threshold = static_cast<T>(chance.of(o)) * all;
      T before = 0;
      bool found = false;
      windows.each(oy, ox, [&](int64_t i) {
        before += plane[i];
        if (!found && before >= threshold) chosen = i, found = true;
      });
      out[o] = plane[chosen];
    } else {
      const PoolingWeighted<T> weighted(windows, plane, oy, ox);
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
template <class T>
struct PoolingBackward {
  PoolingWindows windows;
  const T* dy;
  const T* in;
  const int32_t* choice;
  T* dx;

  CREMA_FUNCTOR void operator()(int64_t place) const {
    const int64_t i = place % windows.plane(), number = place / windows.plane();
    const int64_t iy = i / windows.x.size, ix = i % windows.x.size;
    T sum = 0;
    for (int64_t oy = windows.y.first_cover(iy); oy < windows.y.last_cover(iy); ++oy) {
      for (int64_t ox = windows.x.first_cover(ix); ox < windows.x.last_cover(ix); ++ox) {
        const int64_t o = number * windows.outputs() + oy * windows.x.out + ox;
        if (choice) {
          if (choice[o] == i) sum += dy[o];
        } else if (!in) {
          sum += dy[o] / static_cast<T>(windows.divisor(oy, ox));
        } else {
          // y = sum of x^2 / sum of x, so dy/dx = (2 x - y) / sum of x.
          const PoolingWeighted<T> weighted(windows, in + number * windows.plane(), oy, ox);
          if (weighted.sum == T{0}) continue;
          sum += dy[o] * (2 * in[place] - weighted.squares / weighted.sum) / weighted.sum;
        }
      }
    }
    dx[place] = sum;
  }
};

}  // namespace crema
