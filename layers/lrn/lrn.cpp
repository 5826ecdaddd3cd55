#include "layers/lrn/lrn.hpp"

#include "backend/host_pass.hpp"
#include "crema/registry.hpp"
#include "layers/lrn/lrn_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {

LRNLayer::LRNLayer(const LayerInit& init)
    : PassLayer(init, std::make_unique<HostPassEngine<LRNLayer, lrn_passes::Passes>>()) {
  const LRNParameter& s = init.param.lrn_param();
  const int64_t size = s.local_size();
  if (size % 2 != 1)
    throw Error("local_size ", size, " is even; it has to be odd, so that there is a middle");
  settings_.across_channels = s.norm_region() == LRNParameter::ACROSS_CHANNELS;
  settings_.reach = size / 2;
  settings_.beta = static_cast<double>(s.beta());
  const double values = static_cast<double>(settings_.across_channels ? size : size * size);
  settings_.weight = static_cast<double>(s.alpha()) / values;
  // Within a channel the published layer leaves k out.
  settings_.k = settings_.across_channels ? static_cast<double>(s.k()) : 1;
}

void LRNLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (settings_.across_channels) {
    if (shape.rank() < 2)
      throw Error("takes a bottom with channels, (N, C, ...), not ", shape.str());
  } else {
    if (shape.rank() != 4)
      throw Error("WITHIN_CHANNEL takes images, (N, C, H, W), not ", shape.str());
  }
  top[0]->reshape(shape);
}

Flops LRNLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  const double size = static_cast<double>(2 * settings_.reach + 1);
  const double cells = settings_.across_channels ? size : size * size;
  return {n * (2 * cells + 4), n * (3 * cells + 9)};
}

void register_lrn(Registry& registry);

void register_lrn(Registry& registry) { registry.add<LRNLayer>("LRN"); }

}  // namespace crema
