// Parameter: its top is a learned tensor. See README.md.
#include "core/move.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ParameterLayer : public TwoSidedLayer {
 public:
  explicit ParameterLayer(const LayerInit& init) : TwoSidedLayer(init) {
    if (!init.param.parameter_param().has_shape())
      throw Error("parameter_param has no shape; say parameter_param { shape { dim: N ... } }");
  }

  Arity arity() const override { return {.min_bottoms = 0, .max_bottoms = 0}; }

  void setup(Blobs, Blobs) override {
    const auto& dims = param().parameter_param().shape().dim();
    add_param(Shape(std::vector<int64_t>(dims.begin(), dims.end())), Filler::constant(0));
  }
  void reshape(Blobs, Blobs top) override { top[0]->reshape(learned().shape()); }

  void run_forward(const ComputeDevice& device, Blobs, Blobs top) override {
    copy(device, learned().data, top[0]->data);
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs) override {
    if (!learned().needs_gradient) return;
    Tensor& gradient = learned().gradient();
    const Tensor* const terms[] = {&gradient, &top[0]->diff};
    add(device, terms, gradient);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  Parameter& learned() const { return *params()[0]; }
};

}  // namespace

void register_parameter(Registry& registry) {
  add_two_sided<ParameterLayer>(registry, "Parameter");
}

}  // namespace crema
