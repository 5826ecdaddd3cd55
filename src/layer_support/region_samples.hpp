// Interpolated samples in the cells of a grid over a region: ROIAlign and PSROIAlign.
#pragma once

#include <cmath>

#include "layer_support/regions.hpp"

namespace crema {

/// The samples of a cell along one axis.
struct CellSamples {
  double first, step;
  int64_t count;
};

/// The two values that a sample lies between; weights of 0 outside the map.
struct SampledBetween {
  int64_t low, high;
  double low_weight, high_weight;

  static CREMA_FUNCTOR SampledBetween of(double at, int64_t size) {
    if (at < -1 || at > static_cast<double>(size)) return {0, 0, 0, 0};
    if (at < 0) at = 0;
    const auto low = static_cast<int64_t>(at);
    if (low >= size - 1) return {size - 1, size - 1, 1, 0};
    return {low, low + 1, 1 - (at - static_cast<double>(low)), at - static_cast<double>(low)};
  }
};

/// The cells of regions on a map.
struct SampledCells {
  int64_t map_height, map_width, height, width, ratio;
  double scale, offset;  // from image to map: x * scale - offset
  bool aligned;          // else a region is at least one pixel wide

  CREMA_FUNCTOR CellSamples samples(double first, double last, int64_t cells, int64_t i) const {
    const double begin = first * scale - offset;
    double extent = last * scale - offset - begin;
    if (!aligned && extent < 1) extent = 1;
    const double each = extent / static_cast<double>(cells);
    const int64_t whole = static_cast<int64_t>(std::ceil(each));
    const int64_t count = ratio > 0 ? ratio : whole > 0 ? whole : 0;
    const double step = each / static_cast<double>(count > 0 ? count : 1);
    return {begin + static_cast<double>(i) * each + step / 2, step, count};
  }
  /// body(place in the map, weight) for all samples of a cell, the weights adding up to 1 inside
  /// the map.
  template <class Body>
  CREMA_FUNCTOR void each_sample(const Region& r, int64_t row, int64_t column,
                                 const Body& body) const {
    const CellSamples ys = samples(r.y1, r.y2, height, row),
                      xs = samples(r.x1, r.x2, width, column);
    const double share =
        1.0 / static_cast<double>(ys.count * xs.count > 0 ? ys.count * xs.count : 1);
    for (int64_t i = 0; i < ys.count; ++i) {
      const SampledBetween y =
          SampledBetween::of(ys.first + static_cast<double>(i) * ys.step, map_height);
      if (y.low_weight == 0 && y.high_weight == 0) continue;
      for (int64_t j = 0; j < xs.count; ++j) {
        const SampledBetween x =
            SampledBetween::of(xs.first + static_cast<double>(j) * xs.step, map_width);
        if (x.low_weight == 0 && x.high_weight == 0) continue;
        body(y.low * map_width + x.low, share * y.low_weight * x.low_weight);
        body(y.low * map_width + x.high, share * y.low_weight * x.high_weight);
        body(y.high * map_width + x.low, share * y.high_weight * x.low_weight);
        body(y.high * map_width + x.high, share * y.high_weight * x.high_weight);
      }
    }
  }
};

/// *sum += a sample of the map.
template <class T>
struct AddSample {
  const T* map;
  double* sum;
  CREMA_FUNCTOR void operator()(int64_t at, double weight) const {
    *sum += weight * static_cast<double>(map[at]);
  }
};

/// y = the averages of the samples in each cell. Each channel of the maps gives `each` values of
/// a region, the cells of its rows last.
template <class T>
struct AverageSamples {
  SampledCells cells;
  int64_t channels, each;
  const Region* regions;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t column = i % cells.width, row = i / cells.width % cells.height;
    const int64_t c = i / each % channels;
    const Region& region = regions[i / each / channels];
    double sum = 0;
    cells.each_sample(
        region, row, column,
        AddSample<T>{x + (region.image * channels + c) * cells.map_height * cells.map_width, &sum});
    y[i] = static_cast<T>(sum);
  }
};

/// Adds the gradient of a cell to that of a sample of the map.
template <class T>
struct AddSampleShare {
  double gradient;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t at, double weight) const {
    dx[at] += static_cast<T>(weight * gradient);
  }
};

}  // namespace crema
