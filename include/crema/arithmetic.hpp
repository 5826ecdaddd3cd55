// Arithmetic: how a device computes where that is a choice between speed, rounding and memory. A
// net has one; its layers hand it to their engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace crema {

/// How a GPU multiplies f32. The CPU always does so in f32.
enum class Math : uint8_t {
  tf32,    // factors are rounded to 10 bits of fraction, products are summed in f32
  strict,  // in f32
};

constexpr std::string_view to_string(Math math) { return math == Math::tf32 ? "TF32" : "STRICT"; }

struct Arithmetic {
  Math math = Math::tf32;
  /// Whether all sums have the same order every time, so that two runs have the same bits.
  bool deterministic = true;
  /// The most scratch memory that one algorithm of a GPU's library may take, in bytes.
  size_t workspace_limit = size_t{1} << 30;

  bool operator==(const Arithmetic&) const = default;
};

}  // namespace crema
