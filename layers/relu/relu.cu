#include "backend/cuda/pointwise.cuh"
#include "crema/registry.hpp"
#include "layers/relu/relu.hpp"

namespace crema {
namespace {

/// The type stands for two layers, one a sign of the slope.
class ReLUCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top,
                                    std::string& why) override {
    return of(layer).options(layer, bottom, top, why);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}
  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    of(layer).forward(layer, bottom, top);
  }
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    of(layer).backward(layer, top, propagate, bottom);
  }

 private:
  Engine& of(Layer& layer) {
    if (dynamic_cast<const NegativeSlopeReLULayer*>(&layer)) return negative_;
    return plain_;
  }

  PointwiseCuda<ReLULayer> plain_;
  PointwiseCuda<NegativeSlopeReLULayer> negative_;
};

}  // namespace

void register_relu_cuda(Registry& registry);

void register_relu_cuda(Registry& registry) {
  registry.add_engine<ReLUCuda>("ReLU", "cuda", DeviceType::cuda);
}

}  // namespace crema
