#include "layers/split/split.hpp"

#include "backend/pointwise.hpp"
#include "crema/registry.hpp"

namespace crema {

void SplitLayer::reshape(Blobs bottom, Blobs top) {
  for (Blob* blob : top) blob->reshape(bottom[0]->shape());
}

Flops SplitLayer::flops(Blobs bottom, Blobs top) const {
  return {0, static_cast<double>(bottom[0]->count()) * static_cast<double>(top.size() - 1)};
}

std::vector<Option> SplitLayer::reference_options(Blobs bottom, Blobs top) const {
  return same_format_options(bottom, top, dtype(), true);
}

void SplitLayer::forward_cpu(Blobs bottom, Blobs top) {
  for (Blob* blob : top) {
    if (!blob->data.same_memory(bottom[0]->data)) blob->data.copy_from(bottom[0]->data);
  }
}

void SplitLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  if (top.size() == 1) {
    if (!bottom[0]->diff.same_memory(top[0]->diff)) bottom[0]->diff.copy_from(top[0]->diff);
    return;
  }
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* dx = bottom[0]->diff.host_overwrite<T>();
    const int64_t n = bottom[0]->diff.storage();
    for (size_t k = 1; k < top.size(); ++k) {
      const T* so_far = k == 1 ? top[0]->diff.host<T>() : dx;
      const T* dy = top[k]->diff.host<T>();
      parallel_for(n, kPointwiseGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) dx[i] = so_far[i] + dy[i];
      });
    }
  });
}

void register_split(Registry& registry);

void register_split(Registry& registry) { registry.add<SplitLayer>("Split"); }

}  // namespace crema
