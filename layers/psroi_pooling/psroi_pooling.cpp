// PSROIPooling: averages a region's cells, each from score maps of its own. See README.md.
#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/region_sums.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

struct Cells {
  int64_t map_height, map_width, side, outputs;
  double scale;

  CREMA_FUNCTOR int64_t channels() const { return outputs * side * side; }
  CREMA_FUNCTOR CellRange cell(double first, double last, int64_t i, int64_t size) const {
    const double begin = std::round(first) * scale, end = (std::round(last) + 1) * scale;
    constexpr double kLeast = 0.1;  // of the map; smaller regions are that large
    const double extent = end - begin > kLeast ? end - begin : kLeast;
    const double each = extent / static_cast<double>(side);
    return CellRange{static_cast<int64_t>(std::floor(begin + static_cast<double>(i) * each)),
                     static_cast<int64_t>(std::ceil(begin + static_cast<double>(i + 1) * each))}
        .cut(size);
  }
  CREMA_FUNCTOR CellRange rows(const Region& r, int64_t i) const {
    return cell(r.y1, r.y2, i, map_height);
  }
  CREMA_FUNCTOR CellRange columns(const Region& r, int64_t i) const {
    return cell(r.x1, r.x2, i, map_width);
  }
};

template <class T>
struct Forward {
  Cells cells;
  const Region* regions;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t cell = i % (cells.side * cells.side), in_region = i % cells.channels();
    const Region& region = regions[i / cells.channels()];
    const CellRange rows = cells.rows(region, cell / cells.side);
    const CellRange columns = cells.columns(region, cell % cells.side);
    // Score map (output, row, column) of the image.
    const T* const map =
        x + (region.image * cells.channels() + in_region) * cells.map_height * cells.map_width;
    double sum = 0;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        sum += static_cast<double>(map[h * cells.map_width + w]);
      }
    }
    const int64_t area = rows.count() * columns.count();
    y[i] = area > 0 ? static_cast<T>(sum / static_cast<double>(area)) : T{0};
  }
};

template <class T>
struct AddGradients {
  Cells cells;
  const T* dy;
  CREMA_FUNCTOR void add(int64_t r, const Region& region, int64_t c, T* dx) const {
    const int64_t cell = c % (cells.side * cells.side);
    const CellRange rows = cells.rows(region, cell / cells.side);
    const CellRange columns = cells.columns(region, cell % cells.side);
    const int64_t area = rows.count() * columns.count();
    if (area == 0) return;
    const T share = static_cast<T>(static_cast<double>(dy[r * cells.channels() + c]) /
                                   static_cast<double>(area));
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) dx[h * cells.map_width + w] += share;
    }
  }
};

class PSROIPoolingLayer : public RegionLayer {
 public:
  explicit PSROIPoolingLayer(const LayerInit& init)
      : RegionLayer(init, init.param.psroi_pooling_param().spatial_scale()) {
    const PSROIPoolingParameter& settings = init.param.psroi_pooling_param();
    cells_.side = settings.group_size();
    cells_.outputs = settings.output_dim();
    cells_.scale = static_cast<double>(settings.spatial_scale());
    if (cells_.side < 1 || cells_.outputs < 1)
      throw Error("group_size ", cells_.side, " and output_dim ", cells_.outputs,
                  " must be above 0: the cells along a side, and the channels of the top");
    checked_multiply(checked_multiply(cells_.side, cells_.side, "group_size squared"),
                     cells_.outputs, "output_dim times group_size squared");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& maps = bottom[0]->shape();
    reshape_regions(bottom, top, cells_.outputs, cells_.side, cells_.side);
    if (maps[1] != cells_.channels())
      throw Error("'", bottom[0]->name, "' (", maps.str(), ") has ", maps[1],
                  " channels, but output_dim ", cells_.outputs, " times group_size ", cells_.side,
                  " squared are ", cells_.channels());
    cells_.map_height = maps[2];
    cells_.map_width = maps[3];
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Region* regions = read_regions(device, bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, top[0]->count(), kPassGrain / 4,
               Forward<T>{cells_, regions, device.read<T>(bottom[0]->data),
                          device.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      sum_regions<T>(device, bottom, regions(device),
                     AddGradients<T>{cells_, device.read<T>(top[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  Cells cells_{};
};

}  // namespace

void register_psroi_pooling(Registry& registry) {
  add_two_sided<PSROIPoolingLayer>(registry, "PSROIPooling");
}

}  // namespace crema
