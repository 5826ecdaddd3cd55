// Softmax: y = exp(x) / sum of exp(x) along one axis. See README.md.
#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Elements that a thread should have at least: an exponential costs a nanosecond.
constexpr int64_t kGrain = 8192;

class SoftmaxLayer : public TwoSidedLayer {
 public:
  explicit SoftmaxLayer(const LayerInit& init)
      : TwoSidedLayer(init), axis_(init.param.softmax_param().axis()) {}

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    split_ = AxisSplit(shape, axis_);
    if (split_.size <= 0)
      throw Error("axis ", axis_, " of the bottom's shape ", shape.str(),
                  " is empty: the axis has no classes");
    top[0]->reshape(shape);
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 4 * n};
  }

  bool stores_16_bits() const override { return true; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override {
    if (bottom[0]->shape().canonical_axis(axis_) != 1)
      return TwoSidedLayer::device_options(bottom, top);
    return in_activations(*this, without_blocks(same_format_options(bottom, top, dtype(), true)));
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Tensor& x = bottom[0]->data;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In in, Out out) {
        for_each_position(side, split(x), kGrain,
                          SoftmaxForward<T, In, Out>{split(x), in, out, nullptr});
      };
      if (device.on_host())
        return run(HostSide(), device.read<T>(x), device.overwrite<T>(top[0]->data));
      const auto in = values_in<T>(device, x);  // before the top, which may share its memory
      run(DeviceSide(device), in, values_out<T>(device, top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    const Tensor &dy = top[0]->diff, &y = top[0]->data;
    Tensor& dx = bottom[0]->diff;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In g, In values, Out out) {
        for_each_position(side, split(dy), kGrain,
                          SoftmaxBackward<T, In, Out>{split(dy), g, values, out});
      };
      if (device.on_host()) {
        return run(HostSide(), device.read<T>(dy), device.read<T>(y), device.overwrite<T>(dx));
      }
      const auto g = values_in<T>(device, dy), values = values_in<T>(device, y);
      run(DeviceSide(device), g, values, values_out<T>(device, dx));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, true}; }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  AxisSplit split(const Tensor& tensor) const {
    return tensor.format() == Format::channels_last ? split_.innermost() : split_;
  }

  int axis_;
  AxisSplit split_;
};

}  // namespace

void register_softmax(Registry& registry) { add_two_sided<SoftmaxLayer>(registry, "Softmax"); }

}  // namespace crema
