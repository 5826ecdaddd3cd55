#include "kit/two_sided.hpp"

#include <algorithm>

#include "kit/options.hpp"

namespace crema {
namespace {

class DeviceSide : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override {
    why = of(layer).device_refusal(bottom);
    if (!why.empty()) return {};
    return without_blocks(of(layer).reference_options(bottom, top));
  }
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override {
    of(layer).prepare_reference(bottom, top);
    scratch_bytes_ = of(layer).scratch_bytes();
  }
  void resume(Layer& layer, Blobs bottom, Blobs top) override {
    of(layer).prepare_reference(bottom, top);
  }
  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    of(layer).run_forward(Side(layer.context().backend()), bottom, top);
  }
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!any_of(propagate) && layer.params().empty()) return;
    of(layer).run_backward(Side(layer.context().backend()), top, propagate, bottom);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    if (scratch_bytes_ > 0) plan.need(kDeviceScratch, scratch_bytes_);
  }

 private:
  static TwoSidedLayer& of(Layer& layer) { return static_cast<TwoSidedLayer&>(layer); }

  size_t scratch_bytes_ = 0;
};

}  // namespace

void TwoSidedLayer::run_backward(const Side&, Blobs top, const std::vector<bool>& propagate,
                                 Blobs bottom) {
  Layer::backward_cpu(top, propagate, bottom);  // an Error: there is no gradient
}

void TwoSidedLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!any_of(propagate) && params().empty()) return;
  run_backward(Side(), top, propagate, bottom);
}

std::vector<Option> without_blocks(std::vector<Option> options) {
  std::erase_if(options, [](const Option& option) {
    return std::any_of(option.bottoms.begin(), option.bottoms.end(),
                       [](const Layout& layout) { return block_of(layout.format) > 1; });
  });
  return options;
}

bool any_of(const std::vector<bool>& propagate) {
  return std::find(propagate.begin(), propagate.end(), true) != propagate.end();
}

std::vector<Option> moving_options(const Layer& layer, Blobs bottom, Blobs top, bool any_format) {
  std::vector<Option> options;
  const auto add = [&](DType dtype) {
    std::vector<Option> more = any_format ? same_format_options(bottom, top, dtype, true)
                                          : std::vector{uniform_option(bottom, top, dtype)};
    options.insert(options.end(), more.begin(), more.end());
  };
  add(layer.activations());
  if (layer.dtype() != layer.activations()) add(layer.dtype());
  return options;
}

void add_device_side(Registry& registry, const std::string& type) {
  registry.add_engine<DeviceSide>(type, "cuda", DeviceType::cuda);
}

}  // namespace crema
