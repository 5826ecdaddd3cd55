// GridSample: samples maps at the points of a grid. See README.md.
#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using GridMode = GridSampleParameter::Mode;
using GridPadding = GridSampleParameter::Padding;

/// The pixels of an axis that a point takes: their indices, -1 for those outside, their weights,
/// and the derivatives of these with respect to the coordinate of the grid.
struct AxisTaps {
  int count = 0;
  int64_t index[4];
  double weight[4], slope[4];
};

/// An axis of `size` pixels, and where points of it lie.
struct GridAxis {
  int64_t size = 1;
  GridMode mode = GridSampleParameter::BILINEAR;
  GridPadding padding = GridSampleParameter::ZEROS;
  bool align_corners = false;

  /// Pixels for each unit of the grid's coordinate.
  CREMA_FUNCTOR double scale() const {
    return static_cast<double>(align_corners ? size - 1 : size) / 2;
  }
  CREMA_FUNCTOR double pixel(double coordinate) const {
    return (coordinate + 1) * scale() - (align_corners ? 0 : 0.5);
  }
  /// `at` mirrored until it lies on the map; `sign` becomes the derivative.
  CREMA_FUNCTOR double reflected(double at, double& sign) const {
    const double low = align_corners ? 0 : -0.5;
    const double span = static_cast<double>(align_corners ? size - 1 : size);
    if (span == 0) {
      sign = 0;
      return 0;
    }
    sign = at < low ? -1 : 1;
    const double distance = std::fabs(at - low), rest = std::fmod(distance, span);
    const bool is_even = std::fmod(std::floor(distance / span), 2.0) == 0;
    if (!is_even) sign = -sign;
    return low + (is_even ? rest : span - rest);
  }
  /// `at` as the padding moves it; `slope` is multiplied by the derivative. What is no number
  /// becomes pixel 0.
  CREMA_FUNCTOR double moved(double at, double& slope) const {
    if (padding == GridSampleParameter::ZEROS) return at;
    if (padding == GridSampleParameter::REFLECTION) {
      double sign = 1;
      at = reflected(at, sign);
      slope *= sign;
    }
    const double last = static_cast<double>(size - 1);
    const bool is_inside = at > 0 && at < last;
    if (is_inside) return at;
    slope = 0;
    return at >= last ? last : 0;
  }
  CREMA_FUNCTOR void add(AxisTaps& taps, double place, double weight, double slope) const {
    const bool is_inside = place >= 0 && place < static_cast<double>(size);
    taps.index[taps.count] = is_inside ? static_cast<int64_t>(place) : -1;
    taps.weight[taps.count] = weight;
    taps.slope[taps.count] = slope;
    ++taps.count;
  }

  CREMA_FUNCTOR AxisTaps taps(double coordinate) const {
    AxisTaps taps;
    double at = pixel(coordinate), slope = scale();
    if (mode == GridSampleParameter::BICUBIC) {
      add_cubic(taps, at, slope);
      return taps;
    }
    at = moved(at, slope);
    if (mode == GridSampleParameter::NEAREST) {
      add(taps, std::nearbyint(at), 1, 0);
      return taps;
    }
    const double whole = std::floor(at), part = at - whole;
    add(taps, whole, 1 - part, -slope);
    add(taps, whole + 1, part, slope);
    return taps;
  }

 private:
  /// Convolution with a cubic kernel of a = -0.75 (Keys, 1981), whose four pixels are moved one by
  /// one.
  CREMA_FUNCTOR void add_cubic(AxisTaps& taps, double at, double slope) const {
    constexpr double kA = -0.75;
    const double whole = std::floor(at), t = at - whole;
    for (int k = -1; k <= 2; ++k) {
      const double x = std::fabs(t - k);  // from pixel k
      const double sign = t - k < 0 ? -1 : 1;
      double weight = 0, derivative = 0;
      if (x <= 1) {
        weight = ((kA + 2) * x - (kA + 3)) * x * x + 1;
        derivative = (3 * (kA + 2) * x - 2 * (kA + 3)) * x;
      } else {
        weight = ((x - 5) * x + 8) * x * kA - 4 * kA;
        derivative = ((3 * x - 10) * x + 8) * kA;
      }
      double none = 1;
      add(taps, std::nearbyint(moved(whole + k, none)), weight, sign * derivative * slope);
    }
  }
};

/// The maps and the grid. Position p of a sample is point p of its grid: column, then row.
template <class T>
struct GridPoints {
  GridAxis rows, columns;
  int64_t channels = 0, positions = 0;
  const T* grid = nullptr;  // (N, positions, 2)

  CREMA_FUNCTOR int64_t pixels() const { return rows.size * columns.size; }
  CREMA_FUNCTOR AxisTaps taps_y(int64_t point) const {
    return rows.taps(static_cast<double>(grid[2 * point + 1]));
  }
  CREMA_FUNCTOR AxisTaps taps_x(int64_t point) const {
    return columns.taps(static_cast<double>(grid[2 * point]));
  }
};

/// Of each point: all channels.
template <class T>
struct SampleGrid {
  GridPoints<T> points;
  const T* u;
  T* y;

  CREMA_FUNCTOR void operator()(int64_t point) const {
    const AxisTaps rows = points.taps_y(point), columns = points.taps_x(point);
    const int64_t sample = point / points.positions, position = point % points.positions;
    for (int64_t c = 0; c < points.channels; ++c) {
      const int64_t map = sample * points.channels + c;
      const T* const from = u + map * points.pixels();
      double value = 0;
      for (int i = 0; i < rows.count; ++i) {
        if (rows.index[i] < 0) continue;
        const T* const row = from + rows.index[i] * points.columns.size;
        double sum = 0;
        for (int j = 0; j < columns.count; ++j) {
          if (columns.index[j] >= 0)
            sum += columns.weight[j] * static_cast<double>(row[columns.index[j]]);
        }
        value += rows.weight[i] * sum;
      }
      y[map * points.positions + position] = static_cast<T>(value);
    }
  }
};

/// The gradient of each map. Points one after the other add to it.
template <class T>
struct GridMapGradient {
  GridPoints<T> points;
  const T* dy;
  T* du;

  CREMA_FUNCTOR void add(int64_t map, int64_t position, const AxisTaps& rows,
                         const AxisTaps& columns) const {
    const double g = static_cast<double>(dy[map * points.positions + position]);
    T* const to = du + map * points.pixels();
    for (int i = 0; i < rows.count; ++i) {
      if (rows.index[i] < 0) continue;
      T* const row = to + rows.index[i] * points.columns.size;
      for (int j = 0; j < columns.count; ++j) {
        if (columns.index[j] >= 0)
          row[columns.index[j]] += static_cast<T>(g * rows.weight[i] * columns.weight[j]);
      }
    }
  }
  CREMA_FUNCTOR void add_all(int64_t first, int64_t last) const {
    const int64_t sample = first / points.channels;
    for (int64_t p = 0; p < points.positions; ++p) {
      const int64_t point = sample * points.positions + p;
      const AxisTaps rows = points.taps_y(point), columns = points.taps_x(point);
      for (int64_t map = first; map < last; ++map) add(map, p, rows, columns);
    }
  }
  CREMA_FUNCTOR void operator()(int64_t map) const { add_all(map, map + 1); }
  /// Maps of a sample together: they have the same points.
  void on_host(int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t of_sample = (begin / points.channels + 1) * points.channels;
      const int64_t last = std::min(end, of_sample);
      add_all(begin, last);
      begin = last;
    }
  }
};

/// The gradient of each point.
template <class T>
struct GridPointGradient {
  GridPoints<T> points;
  const T *u, *dy;
  T* d_grid;

  CREMA_FUNCTOR void operator()(int64_t point) const {
    const AxisTaps rows = points.taps_y(point), columns = points.taps_x(point);
    const int64_t sample = point / points.positions, position = point % points.positions;
    double of_x = 0, of_y = 0;
    for (int64_t c = 0; c < points.channels; ++c) {
      const int64_t map = sample * points.channels + c;
      const T* const from = u + map * points.pixels();
      const double g = static_cast<double>(dy[map * points.positions + position]);
      for (int i = 0; i < rows.count; ++i) {
        if (rows.index[i] < 0) continue;
        const T* const row = from + rows.index[i] * points.columns.size;
        for (int j = 0; j < columns.count; ++j) {
          if (columns.index[j] < 0) continue;
          const double value = g * static_cast<double>(row[columns.index[j]]);
          of_x += value * rows.weight[i] * columns.slope[j];
          of_y += value * rows.slope[i] * columns.weight[j];
        }
      }
    }
    d_grid[2 * point] = static_cast<T>(of_x);
    d_grid[2 * point + 1] = static_cast<T>(of_y);
  }
};

class GridSampleLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0 || !takes_nearest(); }
  bool takes_constants(int bottom) const override { return bottom == 1 && takes_nearest(); }
  bool is_exact_bottom(int bottom) const override { return bottom == 1; }

  void reshape(Blobs bottom, Blobs top) override {
    const GridSampleParameter& s = param().grid_sample_param();
    const Shape &maps = bottom[0]->shape(), &grid = bottom[1]->shape();
    if (maps.rank() != 4 || maps[2] * maps[3] == 0)
      throw Error("'", bottom[0]->name, "' (", maps.str(),
                  ") is not of the form (N, C, H, W) with pixels");
    if (grid.rank() != 4 || grid[0] != maps[0] || grid[3] != 2)
      throw Error("'", bottom[1]->name, "' (", grid.str(),
                  ") is not of the form (N, H', W', 2): column and row of each point, for the ",
                  maps[0], " samples of '", bottom[0]->name, "' (", maps.str(), ")");
    rows_ = {maps[2], s.mode(), s.padding(), s.align_corners()};
    columns_ = rows_;
    columns_.size = maps[3];
    samples_ = maps[0];
    channels_ = maps[1];
    positions_ = grid[1] * grid[2];
    top[0]->reshape(Shape{maps[0], maps[1], grid[1], grid[2]});
  }

  Flops flops(Blobs, Blobs top) const override {
    const auto n = static_cast<double>(top[0]->count());
    const double taps = taps_of_point();
    return {2 * taps * n, (propagates(0) ? 3 * taps * n : 0) + (propagates(1) ? 7 * taps * n : 0)};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (top[0]->count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, samples_ * positions_, grain(),
               SampleGrid<T>{points<T>(device, bottom), device.read<T>(bottom[0]->data),
                             device.overwrite<T>(top[0]->data)});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      if (propagate[0]) {
        fill_zero(device, bottom[0]->diff);
        if (top[0]->count() > 0) {
          for_each(device, samples_ * channels_, 1,
                   GridMapGradient<T>{points<T>(device, bottom), device.read<T>(top[0]->diff),
                                      device.change<T>(bottom[0]->diff)});
        }
      }
      if (propagate[1]) {
        for_each(device, samples_ * positions_, grain(),
                 GridPointGradient<T>{points<T>(device, bottom), device.read<T>(bottom[0]->data),
                                      device.read<T>(top[0]->diff),
                                      device.overwrite<T>(bottom[1]->diff)});
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    if (propagates(1) && can_propagate(1)) return {true, false};
    return {{1}, false};
  }

 private:
  bool takes_nearest() const {
    return param().grid_sample_param().mode() == GridSampleParameter::NEAREST;
  }
  double taps_of_point() const {
    const GridMode mode = rows_.mode;
    return mode == GridSampleParameter::NEAREST ? 1 : mode == GridSampleParameter::BICUBIC ? 16 : 4;
  }
  int64_t grain() const { return kPassGrain / 16 / std::max<int64_t>(channels_, 1) + 1; }
  template <class T>
  GridPoints<T> points(const ComputeDevice& device, Blobs bottom) const {
    return {rows_, columns_, channels_, positions_, device.read<T>(bottom[1]->data)};
  }

  GridAxis rows_, columns_;
  int64_t samples_ = 0, channels_ = 0, positions_ = 0;
};

}  // namespace

void register_grid_sample(Registry& registry) {
  add_two_sided<GridSampleLayer>(registry, "GridSample");
}

}  // namespace crema
