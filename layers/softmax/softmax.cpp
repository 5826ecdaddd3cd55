#include "layers/softmax/softmax.hpp"

#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/softmax/softmax_kernels.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Elements that a thread should have at least: an exponential costs a nanosecond.
constexpr int64_t kGrain = 8192;

}  // namespace

SoftmaxLayer::SoftmaxLayer(const LayerInit& init)
    : Layer(init), axis_(init.param.softmax_param().axis()) {}

void SoftmaxLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  const int axis = shape.canonical_axis(axis_);
  outer_ = shape.count(0, axis);
  classes_ = shape[axis];
  inner_ = shape.count(axis + 1);
  require(classes_ > 0, "axis ", axis_, " of the bottom's shape ", shape.str(),
          " is empty; there is nothing to share out");
  top[0]->reshape(shape);
}

Flops SoftmaxLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return {4 * n, 4 * n};
}

void SoftmaxLayer::forward_cpu(Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = bottom[0]->data.host<T>();
    T* y = top[0]->data.host_overwrite<T>();
    parallel_for(outer_ * inner_, kGrain / classes_ + 1, [=, this](int64_t begin, int64_t end) {
      softmax_positions({classes_, inner_}, begin, end, x, y, nullptr);
    });
  });
}

void SoftmaxLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* dy = top[0]->diff.host<T>();
    const T* y = top[0]->data.host<T>();
    T* dx = bottom[0]->diff.host_overwrite<T>();
    parallel_for(outer_ * inner_, kGrain / classes_ + 1, [=, this](int64_t begin, int64_t end) {
      softmax_positions_gradient({classes_, inner_}, begin, end, dy, y, dx);
    });
  });
}

void register_softmax(Registry& registry);

void register_softmax(Registry& registry) { registry.add<SoftmaxLayer>("Softmax"); }

}  // namespace crema
