#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/dropout/dropout_kernels.cpp"
#include "layers/dropout/dropout_kernels.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

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

HWY_EXPORT(apply);

}  // namespace

void apply_words(const uint16_t* words, uint32_t threshold, float scale, int64_t rows, int64_t n,
                 const float* x, float* y, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(apply)(words, threshold, scale, rows, n, x, y, stride);
}

}  // namespace crema
#endif
