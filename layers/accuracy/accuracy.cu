#include <algorithm>

#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/accuracy/accuracy.hpp"
#include "layers/accuracy/accuracy_math.hpp"

namespace crema {
namespace {

/// Of one class: whole numbers, whose sums do not depend on the order of threads.
struct Counts {
  unsigned long long hits, occurrences;

  __device__ double share() const {
    return occurrences == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(occurrences);
  }
};

/// Body for positions.
template <class T>
struct Count {
  const T* scores;
  const int32_t* labels;  // -1: ignored
  int64_t classes, inner, top_k;
  Counts* counts;
  __device__ void operator()(int64_t i) const {
    const int32_t label = labels[i];
    if (label < 0) return;
    atomicAdd(&counts[label].occurrences, 1ULL);
    const T* at = scores + i / inner * classes * inner + i % inner;
    if (is_among_best(at, classes, inner, label, top_k)) atomicAdd(&counts[label].hits, 1ULL);
  }
};

struct Hits {
  const Counts* counts;
  __device__ double operator()(int64_t c) const { return static_cast<double>(counts[c].hits); }
};

template <class T>
struct ShareByClass {
  const Counts* counts;
  T* y;
  __device__ void operator()(int64_t c) const { y[c] = static_cast<T>(counts[c].share()); }
};

class AccuracyCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }

  void prepare(Layer& layer, const Option&, Blobs, Blobs) override {
    counts_.reshape(Shape{of(layer).classes(), 2});
  }

  /// Labels come from the host as a rule: there they are checked, before anything is launched.
  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    const AccuracyLayer& accuracy = of(layer);
    CudaBackend& backend = cuda(layer.context());
    labels_.read(bottom[1]->data, accuracy.inner(), accuracy.classes(), accuracy.ignored());
    const int32_t* labels = labels_.classes().device<int32_t>(backend);
    int64_t* const memory = counts_.device_overwrite<int64_t>(backend);
    backend.fill_zero(memory, counts_.bytes());
    static_assert(sizeof(Counts) == 2 * sizeof(int64_t));
    Counts* const counts = reinterpret_cast<Counts*>(memory);
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* scores = bottom[0]->data.template device<T>(backend);
      cuda_for_each(
          backend, accuracy.outer() * accuracy.inner(),
          Count<T>{scores, labels, accuracy.classes(), accuracy.inner(), accuracy.top_k(), counts});
      const double valid = static_cast<double>(std::max<int64_t>(labels_.valid(), 1));
      cuda_sum(backend, accuracy.classes(), Hits{counts}, 1 / valid,
               top[0]->data.template device_overwrite<T>(backend));
      if (top.size() < 2) return;
      cuda_for_each(backend, accuracy.classes(),
                    ShareByClass<T>{counts, top[1]->data.template device_overwrite<T>(backend)});
    });
  }

  void backward(Layer&, Blobs, const std::vector<bool>&, Blobs) override {}

  size_t extra_bytes() const override { return counts_.bytes(); }

 private:
  static const AccuracyLayer& of(const Layer& layer) {
    return static_cast<const AccuracyLayer&>(layer);
  }

  Labels labels_;
  Tensor counts_{Shape{0, 2}, DType::i64};  // Counts, one a class
};

}  // namespace

void register_accuracy_cuda(Registry& registry);

void register_accuracy_cuda(Registry& registry) {
  registry.add_engine<AccuracyCuda>("Accuracy", "cuda", DeviceType::cuda);
}

}  // namespace crema
