// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). There is no state to save: the same key and counter give
// the same number on every machine, thread and device.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace crema {

/// A 64-bit name for a stream of numbers (FNV-1a of the text): a layer's name, a blob's.
uint64_t stream_id(std::string_view name);

/// A sequence of random numbers addressed by (seed, stream, step), where step is the iteration or
/// the sample. Cheap to make; sequences of different addresses are independent.
class Random {
 public:
  Random(uint64_t seed, uint64_t stream, uint64_t step = 0);

  uint32_t next_u32();
  uint64_t next_u64();
  /// Fills `words` with what as many calls of next_u32 would give; several times as fast.
  void fill(std::span<uint32_t> words);
  /// Uniform in [0, 1), 24 bits.
  float uniform();
  /// Uniform in [low, high).
  double uniform(double low, double high);
  /// Standard normal (Box-Muller).
  double gaussian();
  /// Uniform integer in [0, n); n must be positive. Without modulo bias.
  uint64_t below(uint64_t n);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

}  // namespace crema
