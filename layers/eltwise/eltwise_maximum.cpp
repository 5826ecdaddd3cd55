#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/eltwise/eltwise_maximum.cpp"
#include "layers/eltwise/eltwise_maximum.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "layers/eltwise/eltwise_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using Bytes = hn::Rebind<uint8_t, D>;
using Words = hn::Rebind<int32_t, D>;

/// The first elements, as many as fill vectors; returns how many.
int64_t maximum(const void* const* arrays, size_t count, int64_t begin, int64_t end, float* y,
                uint8_t* which) {
  const D d;
  const int64_t lanes = lanes_of(d);
  auto array = [&](size_t k) { return static_cast<const float*>(arrays[k]); };
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    auto most = hn::LoadU(d, array(0) + i);
    auto source = hn::Zero(Words());
    for (size_t k = 1; k < count; ++k) {
      const auto x = hn::LoadU(d, array(k) + i);
      const auto taken = hn::Or(hn::Gt(x, most), hn::Not(hn::Eq(x, x)));
      most = hn::IfThenElse(taken, x, most);
      source = hn::IfThenElse(hn::RebindMask(Words(), taken),
                              hn::Set(Words(), static_cast<int32_t>(k)), source);
    }
    hn::StoreU(most, d, y + i);
    if (which) hn::StoreU(hn::DemoteTo(Bytes(), source), Bytes(), which + i);
  }
  return i - begin;
}

int64_t maximum_gradient(const uint8_t* which, uint8_t self, const float* dy, float* dx,
                         int64_t n) {
  const D d;
  const int64_t lanes = lanes_of(d);
  const auto wanted = hn::Set(Words(), self);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto source = hn::PromoteTo(Words(), hn::LoadU(Bytes(), which + i));
    const auto mine = hn::RebindMask(d, hn::Eq(source, wanted));
    hn::StoreU(hn::IfThenElseZero(mine, hn::LoadU(d, dy + i)), d, dx + i);
  }
  return i;
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(maximum);
HWY_EXPORT(maximum_gradient);

template <class T>
void plain_maximum(const void* const* arrays, size_t count, int64_t begin, int64_t end, T* y,
                   uint8_t* which) {
  auto array = [&](size_t k) { return static_cast<const T*>(arrays[k]); };
  for (int64_t i = begin; i < end; ++i) {
    EltwiseMaximum<T> most(array(0)[i]);
    for (size_t k = 1; k < count; ++k) most.add(array(k)[i], static_cast<uint8_t>(k));
    y[i] = most.value;
    if (which) which[i] = most.bottom;
  }
}

template <class T>
void plain_gradient(const uint8_t* which, uint8_t self, const T* dy, T* dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = which[i] == self ? dy[i] : T{0};
}

}  // namespace

void eltwise_maximum(const void* const* arrays, size_t count, int64_t begin, int64_t end, float* y,
                     uint8_t* which) {
  begin += HWY_DYNAMIC_DISPATCH(maximum)(arrays, count, begin, end, y, which);
  plain_maximum(arrays, count, begin, end, y, which);
}

void eltwise_maximum(const void* const* arrays, size_t count, int64_t begin, int64_t end, double* y,
                     uint8_t* which) {
  plain_maximum(arrays, count, begin, end, y, which);
}

void eltwise_maximum_gradient(const uint8_t* which, uint8_t self, const float* dy, float* dx,
                              int64_t n) {
  const int64_t done = HWY_DYNAMIC_DISPATCH(maximum_gradient)(which, self, dy, dx, n);
  plain_gradient(which + done, self, dy + done, dx + done, n - done);
}

void eltwise_maximum_gradient(const uint8_t* which, uint8_t self, const double* dy, double* dx,
                              int64_t n) {
  plain_gradient(which, self, dy, dx, n);
}

}  // namespace crema
#endif
