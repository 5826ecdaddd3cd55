#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/deformable_convolution/deformable_kernels.cpp"
#include "layers/deformable_convolution/deformable_kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/float_kernels.hpp"
#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

template <class T>
using Tag = hn::ScalableTag<T>;

/// Calls body(corners), as a constant.
template <class Body>
HWY_INLINE void with_corners(int corners, const Body& body) {
  if (corners == 4) return body(std::integral_constant<int, 4>());
  if (corners == 2) return body(std::integral_constant<int, 2>());
  if (corners == 1) return body(std::integral_constant<int, 1>());
  if (corners == 3) return body(std::integral_constant<int, 3>());
}

template <class T>
HWY_FLATTEN void sample(int corners, const T* const* from, const T* weights, int64_t channels,
                        T* to) {
  if (corners == 0) {
    std::fill_n(to, channels, T{0});
    return;
  }
  with_corners(corners, [&](auto count) CREMA_LANES_LAMBDA {
    constexpr int kCorners = count.value;
    const Tag<T> d;
    hn::Vec<Tag<T>> weight[kCorners];
    const T* pixel[kCorners];
    for (int k = 0; k < kCorners; ++k) {
      weight[k] = hn::Set(d, weights[k]);
      pixel[k] = from[k];
    }
    each_vector(d, channels, [&](int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      auto sum = hn::Mul(weight[0], load(d, lanes, pixel[0] + c));
#pragma GCC unroll 4
      for (int k = 1; k < kCorners; ++k)
        sum = hn::MulAdd(weight[k], load(d, lanes, pixel[k] + c), sum);
      store(d, lanes, sum, to + c);
    });
  });
}

template <class T>
HWY_FLATTEN void spread(int corners, T* const* to, const T* weights, int64_t channels,
                        const T* values) {
  with_corners(corners, [&](auto count) CREMA_LANES_LAMBDA {
    constexpr int kCorners = count.value;
    const Tag<T> d;
    hn::Vec<Tag<T>> weight[kCorners];
    T* pixel[kCorners];
    for (int k = 0; k < kCorners; ++k) {
      weight[k] = hn::Set(d, weights[k]);
      pixel[k] = to[k];
    }
    each_vector(d, channels, [&](int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      const auto value = load(d, lanes, values + c);
      // All first: loads do not wait for stores.
      hn::Vec<Tag<T>> sums[kCorners];
#pragma GCC unroll 4
      for (int k = 0; k < kCorners; ++k)
        sums[k] = hn::MulAdd(weight[k], value, load(d, lanes, pixel[k] + c));
#pragma GCC unroll 4
      for (int k = 0; k < kCorners; ++k) store(d, lanes, sums[k], pixel[k] + c);
    });
  });
}

template <class T>
HWY_FLATTEN void dots(int corners, const T* const* from, int64_t channels, const T* values,
                      double* sums) {
  with_corners(corners, [&](auto count) CREMA_LANES_LAMBDA {
    constexpr int kCorners = count.value;
    const Tag<T> d;
    hn::Vec<Tag<T>> parts[kCorners];
    const T* pixel[kCorners];
    for (int k = 0; k < kCorners; ++k) {
      parts[k] = hn::Zero(d);
      pixel[k] = from[k];
    }
    each_vector(d, channels, [&](int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      const auto value = load(d, lanes, values + c);
#pragma GCC unroll 4
      for (int k = 0; k < kCorners; ++k)
        parts[k] = hn::MulAdd(load(d, lanes, pixel[k] + c), value, parts[k]);
    });
    for (int k = 0; k < kCorners; ++k)
      sums[k] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, parts[k])));
  });
}

template <class T>
constexpr DeformableKernels<T> kKernels = {sample<T>, spread<T>, dots<T>};

const DeformableKernels<float>* kernels_f32() { return &kKernels<float>; }
const DeformableKernels<double>* kernels_f64() { return CREMA_KERNELS_F64(kKernels); }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
CREMA_FLOAT_KERNELS(DeformableKernels, deformable_kernels);
}  // namespace crema
#endif  // HWY_ONCE
