// Pooling3D: Pooling over volumes, with depth or time by itself. See README.md.
#include "layer_support/passes.hpp"
#include "layers/pooling/pooling.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The settings as a Pooling has them.
PoolingParameter translated(const Pooling3DParameter& from) {
  if (from.kernel_size() == 0 || from.kernel_depth() == 0)
    throw Error("kernel_size ", from.kernel_size(), " and kernel_depth ", from.kernel_depth(),
                " are no window; give both, above 0: kernel_depth for the first spatial axis, "
                "kernel_size for the other two");
  PoolingParameter to;
  to.set_pool(from.pool() == Pooling3DParameter::MAX   ? PoolingParameter::MAX
              : from.pool() == Pooling3DParameter::AVE ? PoolingParameter::AVE
                                                       : PoolingParameter::STOCHASTIC);
  const auto axes = [](auto* values, uint32_t depth, uint32_t others) {
    for (const uint32_t value : {depth, others, others}) values->Add(value);
  };
  axes(to.mutable_kernel_size_3d(), from.kernel_depth(), from.kernel_size());
  axes(to.mutable_stride_3d(), from.temporal_stride(), from.stride());
  axes(to.mutable_pad_3d(), 0, from.pad());
  return to;
}

class Pooling3DLayer : public PoolingLayer {
 public:
  explicit Pooling3DLayer(const LayerInit& init)
      : PoolingLayer(init, translated(init.param.pooling3d_param())) {}

  void setup(Blobs bottom, Blobs top) override {
    if (bottom[0]->shape().rank() != 5)
      throw Error("takes volumes, (N, C, D, H, W), not '", bottom[0]->name, "' (",
                  bottom[0]->shape().str(), "); use Pooling for images");
    PoolingLayer::setup(bottom, top);
  }
};

}  // namespace

void register_pooling3d(Registry& registry) {
  add_two_sided<Pooling3DLayer>(registry, "Pooling3D");
}

}  // namespace crema
