// Where pooling windows lie along one axis.
#pragma once

#include <algorithm>
#include <cstdint>

namespace crema {

/// Output o covers the inputs [begin(o), end(o)): none where the last window starts behind the
/// image (has_empty()). Device code may call what is constexpr.
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

}  // namespace crema
