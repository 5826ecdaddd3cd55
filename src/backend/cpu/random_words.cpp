#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/random_words.cpp"
#include "backend/cpu/random_words.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
using Longs = hn::CappedTag<uint64_t, 1>;
#else
using Longs = hn::CappedTag<uint64_t, kWordBlocks>;
#endif
using Long = hn::Vec<Longs>;

/// The product of the lower halves of each lane.
HWY_INLINE Long times(Long x, uint32_t factor) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Longs(), uint64_t{static_cast<uint32_t>(hn::GetLane(x))} * factor);
#else
  const hn::Repartition<uint32_t, Longs> words;
  return hn::MulEven(hn::BitCast(words, x), hn::Set(words, factor));
#endif
}

/// Blocks, one a lane: a, b, c and d are lower halves. What stands above them is never looked at.
struct Blocks {
  Long a, b, c, d;

  explicit HWY_INLINE Blocks(int64_t first)
      : a(hn::Iota(Longs(), static_cast<uint64_t>(first))),
        b(hn::ShiftRight<32>(a)),
        c(hn::Zero(Longs())),
        d(c) {}
  HWY_INLINE void round(Long key0, Long key1) {
    const Long x = times(a, 0xd2511f53), y = times(c, 0xcd9e8d57);
    a = hn::Xor(hn::Xor(hn::ShiftRight<32>(y), b), key0);
    c = hn::Xor(hn::Xor(hn::ShiftRight<32>(x), d), key1);
    b = y;
    d = x;
  }
  HWY_INLINE void store(uint16_t* words) const {
    const Longs longs;
    const Long lower = hn::Set(longs, 0xffffffff);
    const Long ab = hn::Or(hn::And(a, lower), hn::ShiftLeft<32>(b));
    const Long cd = hn::Or(hn::And(c, lower), hn::ShiftLeft<32>(d));
    hn::StoreInterleaved2(ab, cd, longs, reinterpret_cast<uint64_t*>(words));
  }
};

HWY_FLATTEN void draw(uint32_t key0, uint32_t key1, int64_t first, int64_t count, uint16_t* words) {
  const Longs longs;
  const int64_t step = lanes_of(longs);
  Long keys[10][2];
  for (auto& key : keys) {
    key[0] = hn::Set(longs, key0);
    key[1] = hn::Set(longs, key1);
    key0 += 0x9e3779b9;
    key1 += 0xbb67ae85;
  }
  int64_t block = 0;
  // Two at a time: a round waits for the products of the one before.
  for (; block + 2 * step <= count; block += 2 * step) {
    Blocks even(first + block), odd(first + block + step);
    for (const auto& key : keys) {
      even.round(key[0], key[1]);
      odd.round(key[0], key[1]);
    }
    even.store(words + 8 * block);
    odd.store(words + 8 * (block + step));
  }
  for (; block < count; block += step) {
    Blocks last(first + block);
    for (const auto& key : keys) last.round(key[0], key[1]);
    last.store(words + 8 * block);
  }
}

HWY_FLATTEN void apply(const uint16_t* words, uint32_t threshold, float scale, int64_t rows,
                       int64_t n, const float* x, float* y, int64_t stride) {
  const hn::ScalableTag<float> floats;
  const hn::Rebind<int32_t, decltype(floats)> ints;
  const hn::Rebind<uint16_t, decltype(floats)> halves;
  const auto limit = hn::Set(ints, static_cast<int32_t>(threshold));
  const auto factor = hn::Set(floats, scale);
  if (stride == n) {
    n *= rows;
    rows = 1;
  }
  for (int64_t row = 0; row < rows; ++row, words += n, x += stride, y += stride) {
    each_vector(floats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      const auto word = hn::PromoteTo(ints, load(halves, lanes, words + i));
      const auto dropped = hn::RebindMask(floats, hn::Lt(word, limit));
      const auto kept = hn::Mul(load(floats, lanes, x + i), factor);
      store(floats, lanes, hn::IfThenZeroElse(dropped, kept), y + i);
    });
  }
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(draw);
HWY_EXPORT(apply);

}  // namespace

void draw_words(uint32_t key0, uint32_t key1, int64_t first, int64_t count, uint16_t* words) {
  HWY_DYNAMIC_DISPATCH(draw)(key0, key1, first, count, words);
}

void apply_words(const uint16_t* words, uint32_t threshold, float scale, int64_t rows, int64_t n,
                 const float* x, float* y, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(apply)(words, threshold, scale, rows, n, x, y, stride);
}

}  // namespace crema
#endif
