// Softmax: y = exp(x) / sum of exp(x) along one axis. See README.md.
#include "core/dispatch.hpp"
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

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      for_each_position(device, split_, kGrain,
                        SoftmaxForward<T>{split_, x, device.overwrite<T>(top[0]->data), nullptr});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *dy = device.read<T>(top[0]->diff), *y = device.read<T>(top[0]->data);
      for_each_position(device, split_, kGrain,
                        SoftmaxBackward<T>{split_, dy, y, device.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, true}; }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  int axis_;
  AxisSplit split_;
};

}  // namespace

void register_softmax(Registry& registry) { add_two_sided<SoftmaxLayer>(registry, "Softmax"); }

}  // namespace crema
