#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/spatial_transformer/map_kernels.cpp"
#include "layers/spatial_transformer/map_kernels.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "backend/cpu/float_kernels.hpp"
#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using DD = hn::ScalableTag<double>;
using VV = hn::Vec<DD>;
constexpr DD kDoubles;

/// Numbers of To from doubles.
template <class To>
HWY_INLINE void store_as(VV values, To* to) {
  if constexpr (std::is_same_v<To, double>) {
    hn::StoreU(values, kDoubles, to);
  } else {
    const hn::Rebind<To, DD> d;
    hn::StoreU(hn::DemoteTo(d, values), d, to);
  }
}

/// Numbers of pixels, in lanes as wide as T's.
template <class T>
using MapIndex = std::conditional_t<sizeof(T) == 4, int32_t, double>;

/// The pixels before points along an axis, and how far behind them the points lie. Points far from
/// all pixels lie 0 behind pixel -2, and NaN lies NaN behind it. With a border, points that are not
/// between two pixels lie 0 behind the nearest one, NaN lies NaN behind pixel 0, and `step` leads
/// to the pixel behind a point: 1, or 0 for points that were moved.
template <class T, bool kBorder>
struct AxisPlaces {
  MapIndex<T> first[kMapPositions], step[kBorder ? kMapPositions : 1];
  T* behind;

  HWY_INLINE void set(VV at, int64_t pixels, int64_t i) {
    if constexpr (kBorder) return set_inside(at, pixels, i);
    const VV minus_one = hn::Set(kDoubles, -1);
    const VV end = hn::Set(kDoubles, static_cast<double>(pixels));
    const auto inside = hn::And(hn::Gt(at, minus_one), hn::Lt(at, end));
    const VV whole = hn::Floor(at);
    // Infinite points must not become NaN.
    const VV part = hn::IfThenElse(hn::Eq(at, at), hn::Zero(kDoubles), at);
    store_as(hn::IfThenElse(inside, hn::Sub(at, whole), part), behind + i);
    store_as(hn::IfThenElse(inside, whole, hn::Set(kDoubles, -2)), first + i);
  }

 private:
  HWY_INLINE void set_inside(VV at, int64_t pixels, int64_t i) {
    const VV zero = hn::Zero(kDoubles), last = hn::Set(kDoubles, static_cast<double>(pixels - 1));
    const auto between = hn::And(hn::Gt(at, zero), hn::Lt(at, last));
    const VV moved = hn::IfThenElse(hn::Gt(at, zero), last, zero);  // of NaN: 0
    const VV inside = hn::IfThenElse(between, at, moved), whole = hn::Floor(inside);
    store_as(hn::IfThenElse(hn::Eq(at, at), hn::Sub(inside, whole), at), behind + i);
    store_as(whole, first + i);
    store_as(hn::IfThenElse(between, hn::Set(kDoubles, 1), zero), step + i);
  }
};

/// Of the pixels before and behind points: whether there are any, and weights, which may be 0 by
/// rounding; NaN where a point is no number.
template <class T, bool kBorder>
struct AxisWeights {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  V there[2], weight[2];

  template <class I>
  HWY_INLINE AxisWeights(const T* behind, I first, int64_t pixels) {
    const D d;
    const hn::Rebind<MapIndex<T>, D> di;
    const V part = hn::LoadU(d, behind), one = hn::Set(d, 1), nothing = hn::Sub(part, part);
    if constexpr (kBorder) {
      there[0] = there[1] = hn::Add(one, nothing);
      weight[0] = hn::Sub(one, part);
      weight[1] = part;
      return;
    }
    const auto end = hn::Set(di, static_cast<MapIndex<T>>(pixels - 1));
    const auto is_first = hn::RebindMask(d, hn::Gt(first, hn::Set(di, -1)));
    const auto is_second =
        hn::RebindMask(d, hn::And(hn::Gt(first, hn::Set(di, -2)), hn::Lt(first, end)));
    there[0] = hn::IfThenElse(is_first, one, nothing);
    there[1] = hn::IfThenElse(is_second, one, nothing);
    weight[0] = hn::Mul(there[0], hn::Sub(one, part));
    weight[1] = hn::Mul(there[1], part);
  }
};

template <class T, bool kSlopes, bool kBorder>
HWY_INLINE void find_all(const double* points, int64_t rows, int64_t columns,
                         MapCorners<T>& corners) {
  AxisPlaces<T, kBorder> y_axis, x_axis;
  y_axis.behind = corners.below;
  x_axis.behind = corners.behind;
  double filled[2 * kMapPositions];
  if (corners.count < kMapPositions) {
    std::fill(std::copy_n(points, 2 * corners.count, filled), std::end(filled), 0.0);
    points = filled;
  }
  for (int64_t i = 0; i < kMapPositions; i += lanes_of(kDoubles)) {
    VV y, x;
    hn::LoadInterleaved2(kDoubles, points + 2 * i, y, x);
    y_axis.set(y, rows, i);
    x_axis.set(x, columns, i);
  }
  const hn::ScalableTag<T> d;
  const hn::Rebind<MapIndex<T>, hn::ScalableTag<T>> di;
  static_assert(kMapPositions % hn::MaxLanes(d) == 0);
  const auto whole = [&](int64_t value) CREMA_LANES_LAMBDA {
    return hn::Set(di, static_cast<MapIndex<T>>(value));
  };
  const auto store_pixel = [&](auto pixel, auto weight, int32_t* to) CREMA_LANES_LAMBDA {
    const auto none = hn::RebindMask(di, hn::Eq(weight, hn::Zero(d)));
    pixel = hn::IfThenElse(none, whole(rows * columns), pixel);
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(pixel, di, to);
    } else {
      store_as(pixel, to);
    }
  };
  for (int64_t i = 0; i < kMapPositions; i += lanes_of(d)) {
    const auto row = hn::LoadU(di, y_axis.first + i), column = hn::LoadU(di, x_axis.first + i);
    const AxisWeights<T, kBorder> y(corners.below + i, row, rows);
    const AxisWeights<T, kBorder> x(corners.behind + i, column, columns);
    // NaN takes the first pixel four times.
    const auto sum = hn::Add(y.weight[0], x.weight[0]);
    const auto is_number = hn::RebindMask(di, hn::Eq(sum, sum));
    const auto first = hn::Add(hn::Mul(row, whole(columns)), column);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      auto place = first;
      if constexpr (kBorder) {
        if (k / 2 == 1)
          place = hn::Add(place, hn::Mul(hn::LoadU(di, y_axis.step + i), whole(columns)));
        if (k % 2 == 1) place = hn::Add(place, hn::LoadU(di, x_axis.step + i));
      } else {
        place = hn::Add(place, whole(k / 2 * columns + k % 2));
      }
      const auto pixel = hn::IfThenElseZero(is_number, place);
      const auto of_y = y.weight[k / 2], of_x = x.weight[k % 2];
      const auto weight = hn::Mul(of_y, of_x);
      hn::StoreU(weight, d, corners.weight + k * kMapPositions + i);
      store_pixel(pixel, weight, corners.at + k * kMapPositions + i);
      if constexpr (kSlopes) {
        // A pixel that is there counts in a slope if it weighs something along the other axis.
        const auto reach = hn::MulAdd(y.there[k / 2], of_x, hn::Mul(of_y, x.there[k % 2]));
        store_pixel(pixel, reach, corners.near + k * kMapPositions + i);
      }
    }
  }
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
    // All four first: loads do not wait for stores. What lies outside may be there twice, and is
    // not read.
    typename C::V sums[4][C::kVectors];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const int64_t corner = k * kMapPositions + i;
      const T* const from = maps + int64_t{corners.at[corner]} * kWidth;
      const auto weight = hn::Set(d, corners.weight[corner]);
#pragma GCC unroll 16
      for (int v = 0; v < C::kVectors; ++v)
        sums[k][v] = hn::MulAdd(weight, value[v], hn::LoadU(d, from + v * C::kLanes));
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      T* const to = maps + int64_t{corners.at[k * kMapPositions + i]} * kWidth;
#pragma GCC unroll 16
      for (int v = 0; v < C::kVectors; ++v) hn::StoreU(sums[k][v], d, to + v * C::kLanes);
    }
  }
}

template <class T, int kWidth>
HWY_INLINE void slopes_of_points(const MapCorners<T>& corners, const T* maps, const T* values,
                                 double* sums) {
  using C = Channels<T, kWidth>;
  using V = typename C::V;
  const typename C::D d;
  V parts[6][C::kVectors];
#pragma GCC unroll 6
  for (int e = 0; e < 6; ++e) {
#pragma GCC unroll 16
    for (int v = 0; v < C::kVectors; ++v) parts[e][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < corners.count;) {
    const T row = corners.y[i];  // of the top
    V of_row[2][C::kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < C::kVectors; ++v) of_row[0][v] = of_row[1][v] = hn::Zero(d);
    do {
      const T* at[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k)
        at[k] = maps + int64_t{corners.near[k * kMapPositions + i]} * kWidth;
      const V below = hn::Set(d, corners.below[i]), behind = hn::Set(d, corners.behind[i]);
      const V x = hn::Set(d, corners.x[i]);
#pragma GCC unroll 16
      for (int v = 0; v < C::kVectors; ++v) {
        V pixel[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) pixel[k] = hn::LoadU(d, at[k] + v * C::kLanes);
        const V left = hn::Sub(pixel[2], pixel[0]), top = hn::Sub(pixel[1], pixel[0]);
        const V change = hn::Sub(hn::Sub(pixel[3], pixel[1]), left);
        const V value = hn::LoadU(d, values + i * kWidth + v * C::kLanes);
        const V down = hn::Mul(hn::MulAdd(behind, change, left), value);
        const V right = hn::Mul(hn::MulAdd(below, change, top), value);
        of_row[0][v] = hn::Add(of_row[0][v], down);
        of_row[1][v] = hn::Add(of_row[1][v], right);
        parts[1][v] = hn::MulAdd(down, x, parts[1][v]);
        parts[4][v] = hn::MulAdd(right, x, parts[4][v]);
      }
    } while (++i < corners.count && corners.y[i] == row);
#pragma GCC unroll 16
    for (int v = 0; v < C::kVectors; ++v) {
      for (int e = 0; e < 2; ++e) {
        parts[3 * e][v] = hn::MulAdd(of_row[e][v], hn::Set(d, row), parts[3 * e][v]);
        parts[3 * e + 2][v] = hn::Add(of_row[e][v], parts[3 * e + 2][v]);
      }
    }
  }
  HWY_ALIGN T lanes[C::kLanes];
#pragma GCC unroll 6
  for (int e = 0; e < 6; ++e) {
#pragma GCC unroll 16
    for (int v = 0; v < C::kVectors; ++v) {
      hn::Store(parts[e][v], d, lanes);
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
HWY_FLATTEN void find(const double* points, int64_t rows, int64_t columns, bool slopes, bool border,
                      MapCorners<T>& corners) {
  if (border) {
    if (slopes) return find_all<T, true, true>(points, rows, columns, corners);
    return find_all<T, false, true>(points, rows, columns, corners);
  }
  if (slopes) return find_all<T, true, false>(points, rows, columns, corners);
  find_all<T, false, false>(points, rows, columns, corners);
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
const MapKernels<double>* kernels_f64() { return CREMA_KERNELS_F64(kKernels); }

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
CREMA_FLOAT_KERNELS(MapKernels, map_kernels);
}  // namespace crema
#endif  // HWY_ONCE
