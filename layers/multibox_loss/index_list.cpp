#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/multibox_loss/index_list.cpp"
#include "layers/multibox_loss/index_list.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

/// Writes the indices to `to`, which has room for a vector more than `count`. Returns their number.
int64_t list(const int32_t* values, int64_t count, int32_t least, int32_t most, int32_t* to) {
  const hn::ScalableTag<int32_t> d;
  const auto low = hn::Set(d, least), high = hn::Set(d, most);
  const auto first = hn::Iota(d, 0), all = hn::Not(hn::Zero(d));
  int32_t* const begin = to;
  each_vector(d, count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const auto v = load(d, lanes, values + i);
    const auto outside = hn::Or(hn::Lt(v, low), hn::Gt(v, high));
    const auto inside = keep(d, lanes, hn::IfThenZeroElse(outside, all), hn::Zero(d));
    const auto taken = hn::MaskFromVec(inside);
    const auto indices = hn::Add(first, hn::Set(d, static_cast<int32_t>(i)));
    hn::StoreU(hn::Compress(indices, taken), d, to);
    to += hn::CountTrue(d, taken);
  });
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
  constexpr size_t kRoom = 64;  // of the widest vector
  if (indices_.size() < values.size() + kRoom) indices_.resize(values.size() + kRoom);
  const int64_t count = HWY_DYNAMIC_DISPATCH(list)(
      values.data(), static_cast<int64_t>(values.size()), least, most, indices_.data());
  return std::span(indices_).first(static_cast<size_t>(count));
}

}  // namespace crema
#endif
