// ROIPooling: the maximum in each cell of a grid over a region. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/region_sums.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The cells of regions on a map.
struct Cells {
  int64_t map_height, map_width, height, width;  // of the map, and cells
  double scale;

  static CREMA_FUNCTOR CellRange cell(double first, double last, int64_t cells, int64_t i,
                                      int64_t size) {
    const auto begin = static_cast<int64_t>(std::round(first)),
               end = static_cast<int64_t>(std::round(last));
    const double extent = end - begin + 1 > 1 ? static_cast<double>(end - begin + 1) : 1.0;
    const double each = extent / static_cast<double>(cells);
    const auto from = static_cast<int64_t>(std::floor(static_cast<double>(i) * each));
    const auto to = static_cast<int64_t>(std::ceil(static_cast<double>(i + 1) * each));
    return CellRange{begin + from, begin + to}.cut(size);
  }
  CREMA_FUNCTOR CellRange rows(const Region& r, int64_t y) const {
    return cell(r.y1 * scale, r.y2 * scale, height, y, map_height);
  }
  CREMA_FUNCTOR CellRange columns(const Region& r, int64_t x) const {
    return cell(r.x1 * scale, r.x2 * scale, width, x, map_width);
  }
};

template <class T>
struct Forward {
  Cells cells;
  int64_t channels;
  const Region* regions;
  const T* x;
  int32_t* places;  // of the maxima in their maps; -1: the cell is empty
  T* y;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t column = i % cells.width, row = i / cells.width % cells.height;
    const int64_t c = i / cells.width / cells.height % channels;
    const Region& region = regions[i / cells.width / cells.height / channels];
    const CellRange rows = cells.rows(region, row), columns = cells.columns(region, column);
    const T* const map = x + (region.image * channels + c) * cells.map_height * cells.map_width;
    int64_t best = -1;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const int64_t at = h * cells.map_width + w;
        // NaN is a maximum that stays.
        if (best < 0 || map[at] > map[best] || map[at] != map[at]) best = at;
        if (map[best] != map[best]) break;
      }
      if (best >= 0 && map[best] != map[best]) break;
    }
    places[i] = static_cast<int32_t>(best);
    y[i] = best < 0 ? T{0} : map[best];
  }
};

template <class T>
struct AddGradients {
  int64_t channels, cells;
  const int32_t* places;
  const T* dy;
  CREMA_FUNCTOR void add(int64_t r, const Region&, int64_t c, T* dx) const {
    for (int64_t i = (r * channels + c) * cells; i < (r * channels + c + 1) * cells; ++i) {
      if (places[i] >= 0) dx[places[i]] += dy[i];
    }
  }
};

class ROIPoolingLayer : public RegionLayer {
 public:
  explicit ROIPoolingLayer(const LayerInit& init)
      : RegionLayer(init, init.param.roi_pooling_param().spatial_scale()) {
    const ROIPoolingParameter& settings = init.param.roi_pooling_param();
    const int sizes = settings.pooled_size_size();
    if (sizes > 2) throw Error(sizes, " values of pooled_size; give one, or height and width");
    if (sizes > 0 && (settings.has_pooled_h() || settings.has_pooled_w()))
      throw Error("pooled_size and pooled_h or pooled_w mean the same; give one of them");
    cells_.height = sizes > 0 ? settings.pooled_size(0) : settings.pooled_h();
    cells_.width = sizes > 0 ? settings.pooled_size(sizes - 1) : settings.pooled_w();
    cells_.scale = static_cast<double>(settings.spatial_scale());
    check_grid(cells_.height, cells_.width);
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& maps = bottom[0]->shape();
    reshape_regions(bottom, top, maps.dim_or_1(1), cells_.height, cells_.width);
    cells_.map_height = maps[2];
    cells_.map_width = maps[3];
    places_.reshape(top[0]->shape());
  }
  size_t kept_bytes() const override { return RegionLayer::kept_bytes() + places_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Region* regions = read_regions(device, bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, top[0]->count(), kPassGrain / 4,
               Forward<T>{cells_, bottom[0]->shape()[1], regions, device.read<T>(bottom[0]->data),
                          device.overwrite<int32_t>(places_), device.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      sum_regions<T>(device, bottom, regions(device),
                     AddGradients<T>{bottom[0]->shape()[1], cells_.height * cells_.width,
                                     device.read<int32_t>(places_), device.read<T>(top[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  Cells cells_{};
  Tensor places_{Shape{0}, DType::i32};
};

}  // namespace

void register_roi_pooling(Registry& registry) {
  add_two_sided<ROIPoolingLayer>(registry, "ROIPooling");
}

}  // namespace crema
