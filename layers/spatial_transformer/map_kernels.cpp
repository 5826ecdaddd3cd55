#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/spatial_transformer/map_kernels.cpp"
#include "layers/spatial_transformer/map_kernels.hpp"

#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

/// Vectors of kWidth channels.
template <class T, int kWidth>
struct Channels {
  using D = hn::CappedTag<T, kWidth>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kVectors = kWidth / kLanes;
};

template <class T, int kWidth>
HWY_INLINE void sample_points(const MapCorners<T>& corners, const T* maps, T* values) {
  using C = Channels<T, kWidth>;
  const typename C::D d;
  for (int64_t i = 0; i < corners.count; ++i, values += kWidth) {
    typename C::V sums[C::kVectors];
#pragma GCC unroll 4
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t corner = k * kMapPositions + i;
      const T* const from = maps + int64_t{corners.at[corner]} * kWidth;
      const auto weight = hn::Set(d, corners.weight[corner]);
#pragma GCC unroll 16
      for (int v = 0; v < C::kVectors; ++v) {
        const auto value = hn::LoadU(d, from + v * C::kLanes);
        sums[v] = k == 0 ? hn::Mul(weight, value) : hn::MulAdd(weight, value, sums[v]);
      }
    }
#pragma GCC unroll 16
    for (int v = 0; v < C::kVectors; ++v) hn::StoreU(sums[v], d, values + v * C::kLanes);
  }
}

template <class T, int kWidth>
HWY_INLINE void spread_values(const MapCorners<T>& corners, const T* values, T* maps) {
  using C = Channels<T, kWidth>;
  const typename C::D d;
  for (int64_t i = 0; i < corners.count; ++i, values += kWidth) {
    typename C::V value[C::kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < C::kVectors; ++v) value[v] = hn::LoadU(d, values + v * C::kLanes);
#pragma GCC unroll 4
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t corner = k * kMapPositions + i;
      T* const to = maps + int64_t{corners.at[corner]} * kWidth;
      const auto weight = hn::Set(d, corners.weight[corner]);
#pragma GCC unroll 16
      for (int v = 0; v < C::kVectors; ++v) {
        T* const at = to + v * C::kLanes;
        hn::StoreU(hn::MulAdd(weight, value[v], hn::LoadU(d, at)), d, at);
      }
    }
  }
}

template <class T, int kWidth>
HWY_INLINE void slopes_of_points(const MapCorners<T>& corners, const T* maps, const T* values,
                                 double* sums) {
  using C = Channels<T, kWidth>;
  const typename C::D d;
  for (int v = 0; v < C::kVectors; ++v) {
    typename C::V parts[6];
#pragma GCC unroll 6
    for (int e = 0; e < 6; ++e) parts[e] = hn::Zero(d);
    for (int64_t i = 0; i < corners.count; ++i) {
      auto down = hn::Zero(d), right = hn::Zero(d);
#pragma GCC unroll 4
      for (int64_t k = 0; k < 4; ++k) {
        const int64_t corner = k * kMapPositions + i;
        const auto value =
            hn::LoadU(d, maps + int64_t{corners.near[corner]} * kWidth + v * C::kLanes);
        down = hn::MulAdd(hn::Set(d, corners.by_y[corner]), value, down);
        right = hn::MulAdd(hn::Set(d, corners.by_x[corner]), value, right);
      }
      const auto value = hn::LoadU(d, values + i * kWidth + v * C::kLanes);
      const auto y = hn::Set(d, corners.y[i]), x = hn::Set(d, corners.x[i]);
      down = hn::Mul(down, value);
      right = hn::Mul(right, value);
      parts[0] = hn::MulAdd(down, y, parts[0]);
      parts[1] = hn::MulAdd(down, x, parts[1]);
      parts[2] = hn::Add(down, parts[2]);
      parts[3] = hn::MulAdd(right, y, parts[3]);
      parts[4] = hn::MulAdd(right, x, parts[4]);
      parts[5] = hn::Add(right, parts[5]);
    }
    HWY_ALIGN T lanes[C::kLanes];
    for (int e = 0; e < 6; ++e) {
      hn::Store(parts[e], d, lanes);
      for (int c = 0; c < C::kLanes; ++c) {
        sums[e * kWidth + v * C::kLanes + c] += static_cast<double>(lanes[c]);
      }
    }
  }
}

/// Calls body(width) with the width as a constant.
template <class Body>
HWY_INLINE void with_width(int64_t width, const Body& body) {
  if (width == 16) return body(std::integral_constant<int, 16>());
  if (width == 8) return body(std::integral_constant<int, 8>());
  if (width == 4) return body(std::integral_constant<int, 4>());
  body(std::integral_constant<int, 1>());
}

template <class T>
HWY_FLATTEN void sample(const MapCorners<T>& corners, int64_t width, const T* maps, T* values) {
  with_width(width, [&](auto w)
                        CREMA_LANES_LAMBDA { sample_points<T, w.value>(corners, maps, values); });
}
template <class T>
HWY_FLATTEN void spread(const MapCorners<T>& corners, int64_t width, const T* values, T* maps) {
  with_width(width, [&](auto w)
                        CREMA_LANES_LAMBDA { spread_values<T, w.value>(corners, values, maps); });
}
template <class T>
HWY_FLATTEN void add_slopes(const MapCorners<T>& corners, int64_t width, const T* maps,
                            const T* values, double* sums) {
  with_width(width, [&](auto w) CREMA_LANES_LAMBDA {
    slopes_of_points<T, w.value>(corners, maps, values, sums);
  });
}

template <class T>
constexpr MapKernels<T> kKernels = {sample<T>, spread<T>, add_slopes<T>};

const MapKernels<float>* kernels_f32() { return &kKernels<float>; }
const MapKernels<double>* kernels_f64() { return &kKernels<double>; }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(kernels_f32);
HWY_EXPORT(kernels_f64);

}  // namespace

template <>
const MapKernels<float>& map_kernels<float>() {
  return *HWY_DYNAMIC_DISPATCH(kernels_f32)();
}
template <>
const MapKernels<double>& map_kernels<double>() {
  return *HWY_DYNAMIC_DISPATCH(kernels_f64)();
}

}  // namespace crema
#endif  // HWY_ONCE
