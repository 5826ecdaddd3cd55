#include "layers/softmax_loss/softmax_loss.hpp"

#include <algorithm>
#include <numeric>

#include "backend/parallel.hpp"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/softmax/softmax_kernels.hpp"
#include "layers/softmax_loss/softmax_loss_math.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least
constexpr int64_t kChunk = 16;    // positions whose losses are one partial sum

}  // namespace

SoftmaxLossLayer::SoftmaxLossLayer(const LayerInit& init)
    : Layer(init),
      axis_(init.param.softmax_param().axis()),
      smoothing_(init.param.loss_param().label_smoothing()),
      ignored_(ignored_label(init.param)),
      normalization_(init.param) {
  require(smoothing_ >= 0 && smoothing_ < 1, "label_smoothing ", smoothing_,
          " is outside [0, 1); give the share of the target that all classes get");
}

void SoftmaxLossLayer::reshape(Blobs bottom, Blobs top) {
  const Shape &scores = bottom[0]->shape(), &labels = bottom[1]->shape();
  const int axis = scores.canonical_axis(axis_);
  outer_ = scores.count(0, axis);
  classes_ = scores[axis];
  inner_ = scores.count(axis + 1);
  require(classes_ > 0, "axis ", axis_, " of '", bottom[0]->name, "' (", scores.str(),
          ") is empty; it has to hold one score for each class");
  require(outer_ * inner_ == labels.count(), "'", bottom[0]->name, "' (", scores.str(), ") has ",
          outer_ * inner_, " positions beside its class axis ", axis, ", but '", bottom[1]->name,
          "' (", labels.str(), ") has ", labels.count(),
          " labels; give one label for each position");
  top[0]->reshape(Shape{});
  if (top.size() > 1) top[1]->reshape(scores);
  partial_loss_.resize(static_cast<size_t>((outer_ * inner_ + kChunk - 1) / kChunk));
}

void SoftmaxLossLayer::prepare_reference(Blobs bottom, Blobs) {
  if (!trains()) return;
  probability_.reshape(bottom[0]->shape());
  probability_.set_layout(dtype(), Format::contiguous);
}

Flops SoftmaxLossLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return {4 * n, 2 * n};
}

void SoftmaxLossLayer::forward_cpu(Blobs bottom, Blobs top) {
  labels_.read(bottom[1]->data, inner_, classes_, ignored_);
  dispatch_float(dtype(), [&](auto zero) { forward_as<decltype(zero)>(bottom, top); });
}

template <class T>
void SoftmaxLossLayer::forward_as(Blobs bottom, Blobs top) {
  const T* x = bottom[0]->data.host<T>();
  T* shown = top.size() > 1 ? top[1]->data.host_overwrite<T>() : nullptr;
  T* y = trains() ? probability_.host_overwrite<T>() : shown;
  const int32_t* labels = labels_.data();
  const double spread = smoothing_ / static_cast<double>(classes_);
  const int64_t positions = outer_ * inner_;
  const SoftmaxShape shape{classes_, inner_};
  parallel_for(std::ssize(partial_loss_), kGrain / (classes_ * kChunk) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t chunk = begin; chunk < end; ++chunk) {
                   const int64_t first = chunk * kChunk, last = std::min(positions, first + kChunk);
                   double log_sum[kChunk];
                   softmax_positions(shape, first, last, x, y, log_sum);
                   double loss = 0;
                   for (int64_t i = first; i < last; ++i) {
                     const int64_t at = shape.at(i);
                     if (labels[i] < 0) continue;
                     loss += log_sum[i - first] -
                             (1 - smoothing_) * static_cast<double>(x[at + labels[i] * inner_]);
                     for (int64_t c = 0; spread > 0 && c < classes_; ++c) {
                       loss -= spread * static_cast<double>(x[at + c * inner_]);
                     }
                   }
                   partial_loss_[static_cast<size_t>(chunk)] = loss;
                 }
               });
  if (shown && shown != y) std::copy_n(y, bottom[0]->count(), shown);
  const double sum = std::accumulate(partial_loss_.begin(), partial_loss_.end(), 0.0);
  const double divisor = normalization_.divisor(outer_, inner_, labels_.valid());
  top[0]->data.host_overwrite<T>()[0] = static_cast<T>(sum / divisor);
}

void SoftmaxLossLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* probability = probability_.host<T>();
    const int32_t* labels = labels_.data();
    T* dx = bottom[0]->diff.host_overwrite<T>();
    const SoftmaxLossMath math(static_cast<double>(top[0]->diff.host<T>()[0]) /
                                   normalization_.divisor(outer_, inner_, labels_.valid()),
                               smoothing_, classes_);
    parallel_for(outer_ * classes_, 4 * kGrain / std::max<int64_t>(inner_, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const int32_t* label = labels + row / classes_ * inner_;
                     for (int64_t j = 0; j < inner_; ++j) {
                       const int64_t at = row * inner_ + j;
                       dx[at] = math.backward(probability[at], row % classes_, label[j]);
                     }
                   }
                 });
  });
}

void register_softmax_loss(Registry& registry);

void register_softmax_loss(Registry& registry) {
  registry.add<SoftmaxLossLayer>("SoftmaxWithLoss");
}

}  // namespace crema
