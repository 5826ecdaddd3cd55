// Bias: adds a tensor that covers some axes and is broadcast over the others. See README.md.
#include "layers/scale/scale.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class BiasLayer : public ScaleLayer {
 public:
  explicit BiasLayer(const LayerInit& init)
      : ScaleLayer(init, {.scales = false,
                          .axis = init.param.bias_param().axis(),
                          .num_axes = init.param.bias_param().num_axes(),
                          .filler = Filler(init.param.bias_param().filler()),
                          .bias_term = false,
                          .bias_filler = {}}) {}
};

}  // namespace

void register_bias(Registry& registry) {
  add_two_sided<BiasLayer>(registry, "Bias");
  add_scale_engines(registry, "Bias");
}

}  // namespace crema
