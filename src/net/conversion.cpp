#include "net/conversion.hpp"

#include "proto/layer.pb.h"

namespace crema {
namespace {

class Conversion : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override { top[0]->data.copy_from(bottom[0]->data); }
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (propagate[0]) bottom[0]->diff.copy_from(top[0]->diff);
  }

 protected:
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    const auto layout = [](const Blob* blob) {
      return Layout{blob->data.dtype(), blob->data.format()};
    };
    return {{.bottoms = {layout(bottom[0])}, .tops = {layout(top[0])}}};
  }
  BackwardReads reference_backward_reads() const override { return {false, false}; }
};

}  // namespace

std::unique_ptr<Layer> make_conversion(const std::string& name, Context& context,
                                       const RunState& run, DType dtype) {
  LayerParameter param;
  param.set_name(name);
  param.set_type("Conversion");
  return std::make_unique<Conversion>(
      LayerInit{.param = param, .context = context, .run = run, .dtype = dtype});
}

}  // namespace crema
