// InstanceNorm: zero mean and unit variance over each channel of each sample. See README.md.
#include "layer_support/row_norm.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class InstanceNormLayer : public RowNormLayer {
 public:
  explicit InstanceNormLayer(const LayerInit& init)
      : RowNormLayer(init, settings_of(init.param.instance_norm_param())) {}

 protected:
  row_norm::Rows rows_of(const Shape& bottom) const override {
    check(bottom);
    return {bottom[0] * bottom[1], bottom.count(2), bottom[1], 1, bottom.count(2)};
  }
  Shape parameter_shape(const Shape& bottom) const override {
    check(bottom);
    return Shape{bottom[1]};
  }

 private:
  static void check(const Shape& bottom) {
    if (bottom.rank() < 3)
      throw Error("normalizes the positions of each channel, N x C x ..., but the bottom is ",
                  bottom.str());
  }
};

}  // namespace

void register_instance_norm(Registry& registry) {
  add_two_sided<InstanceNormLayer>(registry, "InstanceNorm");
}

}  // namespace crema
