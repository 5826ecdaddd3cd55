#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/multibox_loss/index_list.cpp"
#include "layers/multibox_loss/index_list.hpp"

#include <bit>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

/// Writes the indices to `to`. Returns their number. They come from the bits of masks: Highway's
/// Compress is as fast with AVX-512, but GCC 12 copies its table for each vector of AVX2.
int64_t list(const int32_t* values, int64_t count, int32_t least, int32_t most, int32_t* to) {
  const hn::ScalableTag<int32_t> d;
  const auto low = hn::Set(d, least), high = hn::Set(d, most);
  int32_t* const begin = to;
  for (int64_t first = 0; first < count; first += 64) {
    const int64_t together = HWY_MIN(int64_t{64}, count - first);
    uint64_t outside = 0;
    each_vector(d, together, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      const auto v = load(d, lanes, values + first + i);
      outside |= bits_of(d, hn::Or(hn::Lt(v, low), hn::Gt(v, high))) << i;
    });
    uint64_t inside = ~outside & (~uint64_t{0} >> (64 - together));
    for (; inside != 0; inside &= inside - 1)
      *to++ = static_cast<int32_t>(first + std::countr_zero(inside));
  }
  return to - begin;
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(list);

}  // namespace

std::span<const int32_t> IndexList::find(std::span<const int32_t> values, int32_t least,
                                         int32_t most) {
  if (indices_.size() < values.size()) indices_.resize(values.size());
  const int64_t count = HWY_DYNAMIC_DISPATCH(list)(
      values.data(), static_cast<int64_t>(values.size()), least, most, indices_.data());
  return std::span(indices_).first(static_cast<size_t>(count));
}

}  // namespace crema
#endif
