#include "crema/random.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/philox.hpp"
#include "core/simd.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

/// Blocks [first, first + count) of a step, one after the other.
[[gnu::always_inline]] inline void draw_blocks(uint64_t first, uint32_t step_low,
                                               uint32_t step_high, uint32_t key0, uint32_t key1,
                                               uint32_t* words, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t block = first + static_cast<uint64_t>(i);
    const PhiloxBlock x = philox_block(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step_low, step_high},
        key0, key1);
    words[4 * i] = x.a;
    words[4 * i + 1] = x.b;
    words[4 * i + 2] = x.c;
    words[4 * i + 3] = x.d;
  }
}

}  // namespace

uint64_t stream_id(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Seed and stream make the key; the step is one half of the counter, the number of the block drawn
// the other, so that no two steps of a stream share a block.
Random::Random(uint64_t seed, uint64_t stream, uint64_t step) {
  const uint64_t key = key_of_stream(seed, stream);
  key_ = {low(key), high(key)};
  counter_ = {0, 0, low(step), high(step)};
}

uint32_t Random::next_u32() {
  if (used_ == 4) {
    const PhiloxBlock x =
        philox_block({counter_[0], counter_[1], counter_[2], counter_[3]}, key_[0], key_[1]);
    block_ = {x.a, x.b, x.c, x.d};
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Random::next_u64() {
  const uint64_t upper = next_u32();
  return upper << 32 | next_u32();
}

void Random::fill(std::span<uint32_t> words) {
  while (used_ < 4 && !words.empty()) {
    words.front() = next_u32();
    words = words.subspan(1);
  }
  const size_t blocks = words.size() / 4;
  const uint64_t first = uint64_t{counter_[1]} << 32 | counter_[0];
  vectorized<draw_blocks>(first, counter_[2], counter_[3], key_[0], key_[1], words.data(),
                          static_cast<int64_t>(blocks));
  counter_[0] = low(first + blocks);
  counter_[1] = high(first + blocks);
  for (uint32_t& word : words.subspan(4 * blocks)) word = next_u32();
}

float Random::uniform() { return static_cast<float>(next_u32() >> 8) * 0x1p-24f; }

double Random::uniform(double low, double high) {
  const double unit = static_cast<double>(next_u64() >> 11) * 0x1p-53;
  const double value = low + (high - low) * unit;
  // Rounding may reach the upper end, which is excluded.
  return value < high || !(low < high) ? value : std::nextafter(high, low);
}

double Random::gaussian() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double u = (static_cast<double>(next_u64() >> 11) + 1) * 0x1p-53;  // (0, 1]
  const double angle = 2 * std::numbers::pi * (static_cast<double>(next_u64() >> 11) * 0x1p-53);
  const double radius = std::sqrt(-2 * std::log(u));
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

uint64_t Random::below(uint64_t n) {
  if (n == 0) throw Error("a random integer below 0 does not exist");
  // The upper half of a 64x64-bit product (Lemire 2019); the lowest products, which would favour
  // some results, are drawn again.
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{next_u64()} * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t unfair = (0 - n) % n;
    while (static_cast<uint64_t>(product) < unfair) product = Wide{next_u64()} * n;
  }
  return static_cast<uint64_t>(product >> 64);
}

}  // namespace crema
