#include "layer_support/two_sided.hpp"

#include <algorithm>

#include "layer_support/device_kernel.hpp"
#include "layer_support/options.hpp"
#include "layer_support/pointwise_chain.hpp"

namespace crema {
namespace {

/// The passes of a TwoSidedLayer on the device of its context.
class DeviceKernel : public Kernel, public PointwiseLink {
 public:
  DeviceKernel(TwoSidedLayer& layer, Blobs bottom, Blobs top) : Kernel(layer), layer_(layer) {
    layer.prepare_device(bottom, top);
    scratch_bytes_ = layer.scratch_bytes();
  }
  void enter(Blobs bottom, Blobs top) override { layer_.prepare_device(bottom, top); }
  size_t bytes() const override { return layer_.kept_bytes(); }
  void forward(Blobs bottom, Blobs top) override {
    layer_.run_forward(ComputeDevice(layer_.context().backend()), bottom, top);
  }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!any_of(propagate) && layer_.params().empty()) return;
    layer_.run_backward(ComputeDevice(layer_.context().backend()), top, propagate, bottom);
  }
  bool capturable() const override { return layer_.capturable(); }
  const ChainLink* chain_link() const override { return this; }
  std::vector<ChainStep> chain_steps(size_t entry, const Blob& top) const override {
    return layer_.chain_steps(entry, top);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    if (scratch_bytes_ > 0) plan.need(kDeviceScratch, scratch_bytes_);
  }

 private:
  TwoSidedLayer& layer_;
  size_t scratch_bytes_;
};

class DeviceEngine : public Engine {
 public:
  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& why) const override {
    const auto& two_sided = static_cast<const TwoSidedLayer&>(layer);
    why = two_sided.device_refusal(bottom);
    if (!why.empty()) return {};
    return two_sided.device_options(bottom, top);
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs bottom,
                               Blobs top) const override {
    return make_device_kernel(static_cast<TwoSidedLayer&>(layer), bottom, top);
  }
};

}  // namespace

std::unique_ptr<Kernel> make_device_kernel(TwoSidedLayer& layer, Blobs bottom, Blobs top) {
  return std::make_unique<DeviceKernel>(layer, bottom, top);
}

std::vector<Option> TwoSidedLayer::device_options(Blobs bottom, Blobs top) const {
  std::vector<Option> options = without_blocks(reference_options(bottom, top));
  return stores_16_bits() ? in_activations(*this, std::move(options)) : options;
}

void TwoSidedLayer::run_backward(const ComputeDevice&, Blobs top,
                                 const std::vector<bool>& propagate, Blobs bottom) {
  Layer::backward_cpu(top, propagate, bottom);  // an Error: there is no gradient
}

void TwoSidedLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!any_of(propagate) && params().empty()) return;
  run_backward(ComputeDevice(), top, propagate, bottom);
}

std::vector<Option> without_blocks(std::vector<Option> options) {
  std::erase_if(options, [](const Option& option) {
    return std::any_of(option.bottoms.begin(), option.bottoms.end(),
                       [](const Layout& layout) { return block_of(layout.format) > 1; });
  });
  return options;
}

std::vector<Option> in_activations(const Layer& layer, std::vector<Option> options) {
  if (layer.activations() == layer.dtype()) return options;
  std::vector<Option> all = options;
  for (Option& option : all) {
    for (size_t i = 0; i < option.bottoms.size(); ++i) {
      DType& dtype = option.bottoms[i].dtype;
      if (dtype == layer.dtype() && !layer.is_exact_bottom(static_cast<int>(i)))
        dtype = layer.activations();
    }
    for (size_t i = 0; i < option.tops.size(); ++i) {
      DType& dtype = option.tops[i].dtype;
      if (dtype == layer.dtype() && !layer.is_exact_top(static_cast<int>(i)))
        dtype = layer.activations();
    }
  }
  all.insert(all.end(), options.begin(), options.end());
  return all;
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

std::vector<ChainStep> TwoSidedLayer::chain_steps(size_t /*entry*/, const Blob& /*top*/) {
  return {};
}

void add_device_engine(Registry& registry, const std::string& type) {
  registry.add_engine<DeviceEngine>(type, "cuda", DeviceType::cuda);
}

}  // namespace crema
