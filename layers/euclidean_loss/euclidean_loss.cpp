#include "layers/euclidean_loss/euclidean_loss.hpp"

#include <algorithm>
#include <numeric>

#include "backend/pointwise.hpp"
#include "crema/registry.hpp"
#include "layers/euclidean_loss/euclidean_loss_math.hpp"

namespace crema {
namespace {

constexpr int64_t kChunk = 4096;  // elements of one partial sum

}  // namespace

void EuclideanLossLayer::reshape(Blobs bottom, Blobs top) {
  const Shape &a = bottom[0]->shape(), &b = bottom[1]->shape();
  require(a.rank() > 0 && b.rank() > 0 && a[0] == b[0] && a.count() == b.count(), "'",
          bottom[0]->name, "' (", a.str(), ") and '", bottom[1]->name, "' (", b.str(),
          ") cannot be compared; give both the same batch size and as many values an item");
  items_ = std::max<int64_t>(a[0], 1);  // the loss of an empty batch is 0
  partial_sums_.resize(static_cast<size_t>((a.count() + kChunk - 1) / kChunk));
  top[0]->reshape(Shape{});
}

Flops EuclideanLossLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return {3 * n, 2 * n};
}

void EuclideanLossLayer::forward_cpu(Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *a = bottom[0]->data.host<T>(), *b = bottom[1]->data.host<T>();
    const int64_t count = bottom[0]->count();
    parallel_for(std::ssize(partial_sums_), kPointwiseGrain / kChunk,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t chunk = begin; chunk < end; ++chunk) {
                     const int64_t last = std::min(count, (chunk + 1) * kChunk);
                     double sum = 0;
                     for (int64_t i = chunk * kChunk; i < last; ++i) {
                       sum += EuclideanLossMath{}.forward(a[i], b[i]);
                     }
                     partial_sums_[static_cast<size_t>(chunk)] = sum;
                   }
                 });
    const double sum = std::accumulate(partial_sums_.begin(), partial_sums_.end(), 0.0);
    top[0]->data.host_overwrite<T>()[0] = static_cast<T>(sum / 2 / static_cast<double>(items_));
  });
}

void EuclideanLossLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *a = bottom[0]->data.host<T>(), *b = bottom[1]->data.host<T>();
    const T scale = top[0]->diff.host<T>()[0] / static_cast<T>(items_);
    for (size_t k = 0; k < 2; ++k) {
      if (!propagate[k]) continue;
      const T signed_scale = k == 0 ? scale : -scale;
      T* dx = bottom[k]->diff.host_overwrite<T>();
      parallel_for(bottom[0]->count(), kPointwiseGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          dx[i] = EuclideanLossMath{}.backward(a[i], b[i], signed_scale);
        }
      });
    }
  });
}

void register_euclidean_loss(Registry& registry);

void register_euclidean_loss(Registry& registry) {
  registry.add<EuclideanLossLayer>("EuclideanLoss");
}

}  // namespace crema
