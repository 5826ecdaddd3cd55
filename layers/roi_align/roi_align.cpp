// ROIAlign: averages of interpolated samples in each cell of a grid over a region. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/region_samples.hpp"
#include "layer_support/region_sums.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct AddGradients {
  SampledCells cells;
  int64_t channels;
  const T* dy;
  CREMA_FUNCTOR void add(int64_t r, const Region& region, int64_t c, T* dx) const {
    const T* from = dy + (r * channels + c) * cells.height * cells.width;
    for (int64_t row = 0; row < cells.height; ++row) {
      for (int64_t column = 0; column < cells.width; ++column) {
        cells.each_sample(region, row, column, AddSampleShare<T>{static_cast<double>(*from++), dx});
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

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Region* regions = read_regions(device, bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(
          device, top[0]->count(), kPassGrain / 16,
          AverageSamples<T>{cells_, bottom[0]->shape()[1], cells_.height * cells_.width, regions,
                            device.read<T>(bottom[0]->data), device.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      sum_regions<T>(device, bottom, regions(device),
                     AddGradients<T>{cells_, bottom[0]->shape()[1], device.read<T>(top[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  SampledCells cells_{};
};

}  // namespace

void register_roi_align(Registry& registry) { add_two_sided<ROIAlignLayer>(registry, "ROIAlign"); }

}  // namespace crema
