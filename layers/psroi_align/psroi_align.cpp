// PSROIAlign: averages of interpolated samples in each cell of a grid over a region, each cell from
// score maps of its own. See README.md.
#include "core/checked.hpp"
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
    cells.each_sample(region, c / cells.width % cells.height, c % cells.width,
                      AddSampleShare<T>{static_cast<double>(dy[r * channels + c]), dx});
  }
};

class PSROIAlignLayer : public RegionLayer {
 public:
  explicit PSROIAlignLayer(const LayerInit& init)
      : RegionLayer(init, init.param.psroi_align_param().spatial_scale()) {
    const PSROIAlignParameter& settings = init.param.psroi_align_param();
    const int64_t side = settings.group_size();
    outputs_ = settings.output_dim();
    if (side < 1 || outputs_ < 1)
      throw Error("group_size ", side, " and output_dim ", outputs_,
                  " must be above 0: the cells along a side, and the channels of the top");
    channels_ = checked_multiply(checked_multiply(side, side, "group_size squared"), outputs_,
                                 "output_dim times group_size squared");
    cells_.height = cells_.width = side;
    cells_.ratio = settings.sampling_ratio();
    cells_.scale = static_cast<double>(settings.spatial_scale());
    cells_.aligned = true;
    cells_.offset = 0.5;
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& maps = bottom[0]->shape();
    reshape_regions(bottom, top, outputs_, cells_.height, cells_.width);
    if (maps[1] != channels_)
      throw Error("'", bottom[0]->name, "' (", maps.str(), ") has ", maps[1],
                  " channels, but output_dim ", outputs_, " times group_size ", cells_.height,
                  " squared are ", channels_);
    cells_.map_height = maps[2];
    cells_.map_width = maps[3];
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Region* regions = read_regions(device, bottom);
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, top[0]->count(), kPassGrain / 16,
               AverageSamples<T>{cells_, channels_, 1, regions, device.read<T>(bottom[0]->data),
                                 device.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      sum_regions<T>(device, bottom, regions(device),
                     AddGradients<T>{cells_, channels_, device.read<T>(top[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  SampledCells cells_{};
  int64_t outputs_ = 0, channels_ = 0;  // of the top and of the maps
};

}  // namespace

void register_psroi_align(Registry& registry) {
  add_two_sided<PSROIAlignLayer>(registry, "PSROIAlign");
}

}  // namespace crema
