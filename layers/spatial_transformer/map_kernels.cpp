#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/spatial_transformer/map_kernels.cpp"
#include "layers/spatial_transformer/map_kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using DD = hn::ScalableTag<double>;
using VV = hn::Vec<DD>;
constexpr DD kDoubles;

/// Numbers of T, or whole ones, from doubles.
template <class To>
HWY_INLINE void store_as(VV values, To* to) {
  if constexpr (std::is_same_v<To, double>) {
    hn::StoreU(values, kDoubles, to);
  } else {
    const hn::Rebind<To, DD> d;
    hn::StoreU(hn::DemoteTo(d, values), d, to);
  }
}

/// Corners of as many points as a vector of doubles has lanes, from `i` on.
template <class T, bool kSlopes>
HWY_INLINE void find_vector(VV y, VV x, double rows, double columns, int64_t i,
                            MapCorners<T>& corners) {
  const auto set = [](double value) HWY_ATTR { return hn::Set(kDoubles, value); };
  const VV zero = hn::Zero(kDoubles), one = set(1);
  const auto inside = hn::And(hn::And(hn::Gt(y, set(-1)), hn::Lt(y, set(rows))),
                              hn::And(hn::Gt(x, set(-1)), hn::Lt(x, set(columns))));
  // NaN at points that are none.
  const VV nothing = hn::IfThenElse(hn::And(hn::Eq(y, y), hn::Eq(x, x)), zero, hn::Add(y, x));
  y = hn::IfThenElseZero(inside, y);
  x = hn::IfThenElseZero(inside, x);
  const VV top = hn::Floor(y), left = hn::Floor(x), outside = set(rows * columns);
  const VV below = hn::Sub(y, top), behind = hn::Sub(x, left);
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const int64_t at = k * kMapPositions + i;
    const VV row = k / 2 ? hn::Add(top, one) : top, column = k % 2 ? hn::Add(left, one) : left;
    const auto row_there = k / 2 ? hn::Lt(row, set(rows)) : hn::Ge(row, zero);
    const auto column_there = k % 2 ? hn::Lt(column, set(columns)) : hn::Ge(column, zero);
    const auto there = hn::And(inside, hn::And(row_there, column_there));
    const VV pixel = hn::IfThenElseZero(there, hn::MulAdd(row, set(columns), column));
    const VV of_y = k / 2 ? below : hn::Sub(one, below);
    const VV of_x = k % 2 ? behind : hn::Sub(one, behind);
    const VV weight = hn::IfThenElse(there, hn::Mul(of_y, of_x), nothing);
    store_as(weight, corners.weight + at);
    store_as(hn::IfThenElse(hn::Eq(weight, zero), outside, pixel), corners.at + at);
    if constexpr (kSlopes) {
      const VV by_y = hn::IfThenElse(there, k / 2 ? of_x : hn::Neg(of_x), nothing);
      const VV by_x = hn::IfThenElse(there, k % 2 ? of_y : hn::Neg(of_y), nothing);
      const auto flat = hn::And(hn::Eq(by_y, zero), hn::Eq(by_x, zero));
      store_as(by_y, corners.by_y + at);
      store_as(by_x, corners.by_x + at);
      store_as(hn::IfThenElse(flat, outside, pixel), corners.near + at);
    }
  }
}

template <class T, bool kSlopes>
HWY_INLINE void find_all(const double* points, double rows, double columns,
                         MapCorners<T>& corners) {
  const int64_t lanes = lanes_of(kDoubles);
  static_assert(kMapPositions % hn::MaxLanes(DD()) == 0);
  int64_t i = 0;
  VV y, x;
  for (; i + lanes <= corners.count; i += lanes) {
    hn::LoadInterleaved2(kDoubles, points + 2 * i, y, x);
    find_vector<T, kSlopes>(y, x, rows, columns, i, corners);
  }
  if (i == corners.count) return;
  double rest[2 * hn::MaxLanes(DD())] = {};
  std::copy_n(points + 2 * i, 2 * (corners.count - i), rest);
  hn::LoadInterleaved2(kDoubles, rest, y, x);
  find_vector<T, kSlopes>(y, x, rows, columns, i, corners);
}

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
HWY_FLATTEN void find(const double* points, int64_t rows, int64_t columns, bool slopes,
                      MapCorners<T>& corners) {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  if (slopes) return find_all<T, true>(points, height, width, corners);
  find_all<T, false>(points, height, width, corners);
}
template <class T>
HWY_FLATTEN void sample(const MapCorners<T>& corners, int64_t width, const T* maps, T* values) {
  with_width(width,
             [&](auto w) CREMA_LANES_LAMBDA { sample_points<T, w.value>(corners, maps, values); });
}
template <class T>
HWY_FLATTEN void spread(const MapCorners<T>& corners, int64_t width, const T* values, T* maps) {
  with_width(width,
             [&](auto w) CREMA_LANES_LAMBDA { spread_values<T, w.value>(corners, values, maps); });
}
template <class T>
HWY_FLATTEN void add_slopes(const MapCorners<T>& corners, int64_t width, const T* maps,
                            const T* values, double* sums) {
  with_width(width, [&](auto w) CREMA_LANES_LAMBDA {
    slopes_of_points<T, w.value>(corners, maps, values, sums);
  });
}

template <class T>
constexpr MapKernels<T> kKernels = {find<T>, sample<T>, spread<T>, add_slopes<T>};

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
