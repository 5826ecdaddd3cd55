// UpsampleDarknet: repeats each pixel. See README.md.
#include "core/checked.hpp"
#include "layer_support/resample.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class UpsampleDarknetLayer : public ResampleLayer {
 public:
  explicit UpsampleDarknetLayer(const LayerInit& init)
      : ResampleLayer(init), stride_(init.param.upsample_darknet_param().stride()) {
    if (stride_ == 0) throw Error("stride is 0; give the number of copies along each axis");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() != 4) throw Error("takes bottoms N x C x H x W, not ", shape.str());
    const auto taps = [&](int64_t from) {
      return nearest_taps(from, checked_multiply(from, stride_, "size times stride"),
                          Sampling::edges);
    };
    set_taps(bottom, top, taps(shape[2]), taps(shape[3]));
  }

 private:
  int64_t stride_;
};

}  // namespace

void register_upsample_darknet(Registry& registry) {
  add_two_sided<UpsampleDarknetLayer>(registry, "UpsampleDarknet");
}

}  // namespace crema
