#include "crema/random.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "crema/error.hpp"

namespace crema {
namespace {

// The finaliser of SplitMix64: a bijection in which every bit of the input moves half of the
// output.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t second = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1],
               low(first)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

uint64_t stream_id(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Seed and stream make the key; the step is one half of the counter, the number of the block drawn
// the other, so that no two steps of a stream share a block.
Random::Random(uint64_t seed, uint64_t stream, uint64_t step) {
  const uint64_t key = mixed(mixed(seed) ^ stream);
  key_ = {low(key), high(key)};
  counter_ = {0, 0, low(step), high(step)};
}

uint32_t Random::next_u32() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Random::next_u64() {
  const uint64_t upper = next_u32();
  return upper << 32 | next_u32();
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
  require(n > 0, "a random integer below 0 does not exist");
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
