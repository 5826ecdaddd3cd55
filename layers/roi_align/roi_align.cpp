// ROIAlign: averages of interpolated samples in each cell of a grid over a region. See README.md.
#include "kit/passes.hpp"
#include "kit/regions.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The samples of a cell along one axis.
struct Samples {
  double first, step;
  int64_t count;
};

/// The two values that a sample lies between; weights of 0 outside the map.
struct Between {
  int64_t low, high;
  double low_weight, high_weight;

  static CREMA_FUNCTOR Between of(double at, int64_t size) {
    if (at < -1 || at > static_cast<double>(size)) return {0, 0, 0, 0};
    if (at < 0) at = 0;
    const auto low = static_cast<int64_t>(at);
    if (low >= size - 1) return {size - 1, size - 1, 1, 0};
    return {low, low + 1, 1 - (at - static_cast<double>(low)), at - static_cast<double>(low)};
  }
};

struct Cells {
  int64_t map_height, map_width, height, width, ratio;
  double scale, offset;
  bool aligned;

  CREMA_FUNCTOR Samples samples(double first, double last, int64_t cells, int64_t i) const {
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
    const Samples ys = samples(r.y1, r.y2, height, row), xs = samples(r.x1, r.x2, width, column);
    const double share =
        1.0 / static_cast<double>(ys.count * xs.count > 0 ? ys.count * xs.count : 1);
    for (int64_t i = 0; i < ys.count; ++i) {
      const Between y = Between::of(ys.first + static_cast<double>(i) * ys.step, map_height);
      if (y.low_weight == 0 && y.high_weight == 0) continue;
      for (int64_t j = 0; j < xs.count; ++j) {
        const Between x = Between::of(xs.first + static_cast<double>(j) * xs.step, map_width);
        if (x.low_weight == 0 && x.high_weight == 0) continue;
        body(y.low * map_width + x.low, share * y.low_weight * x.low_weight);
        body(y.low * map_width + x.high, share * y.low_weight * x.high_weight);
        body(y.high * map_width + x.low, share * y.high_weight * x.low_weight);
        body(y.high * map_width + x.high, share * y.high_weight * x.high_weight);
      }
    }
  }
};

template <class T>
struct AddValue {
  const T* map;
  double* sum;
  CREMA_FUNCTOR void operator()(int64_t at, double weight) const {
    *sum += weight * static_cast<double>(map[at]);
  }
};

template <class T>
struct Forward {
  Cells cells;
  int64_t channels;
  const Region* regions;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t column = i % cells.width, row = i / cells.width % cells.height;
    const int64_t c = i / cells.width / cells.height % channels;
    const Region& region = regions[i / cells.width / cells.height / channels];
    double sum = 0;
    cells.each_sample(
        region, row, column,
        AddValue<T>{x + (region.image * channels + c) * cells.map_height * cells.map_width, &sum});
    y[i] = static_cast<T>(sum);
  }
};

template <class T>
struct AddShare {
  double gradient;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t at, double weight) const {
    dx[at] += static_cast<T>(weight * gradient);
  }
};

template <class T>
struct AddGradients {
  Cells cells;
  int64_t channels;
  const T* dy;
  CREMA_FUNCTOR void add(int64_t r, const Region& region, int64_t c, T* dx) const {
    const T* from = dy + (r * channels + c) * cells.height * cells.width;
    for (int64_t row = 0; row < cells.height; ++row) {
      for (int64_t column = 0; column < cells.width; ++column) {
        cells.each_sample(region, row, column, AddShare<T>{static_cast<double>(*from++), dx});
      }
    }
  }
};

class ROIAlignLayer : public RegionLayer {
 public:
  explicit ROIAlignLayer(const LayerInit& init)
      : RegionLayer(init, init.param.roi_align_param().spatial_scale()) {
    const ROIAlignParameter& settings = init.param.roi_align_param();
    cells_.height = settings.pooled_h();
    cells_.width = settings.pooled_w();
    cells_.ratio = settings.sampling_ratio();
    cells_.scale = static_cast<double>(settings.spatial_scale());
    cells_.aligned = settings.aligned();
    cells_.offset = settings.aligned() ? 0.5 : 0;
    check_grid(cells_.height, cells_.width);
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& maps = bottom[0]->shape();
    reshape_regions(bottom, top, maps.dim_or_1(1), cells_.height, cells_.width);
    cells_.map_height = maps[2];
    cells_.map_width = maps[3];
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    const Region* regions = read_regions(side, bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(side, top[0]->count(), kPassGrain / 16,
               Forward<T>{cells_, bottom[0]->shape()[1], regions, side.read<T>(bottom[0]->data),
                          side.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      sum_regions<T>(side, bottom,
                     AddGradients<T>{cells_, bottom[0]->shape()[1], side.read<T>(top[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  Cells cells_{};
};

}  // namespace

void register_roi_align(Registry& registry) { add_two_sided<ROIAlignLayer>(registry, "ROIAlign"); }

}  // namespace crema
