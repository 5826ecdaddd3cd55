#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/dropout/dropout.hpp"

namespace crema {
namespace {

/// Body for Philox blocks: four elements each.
template <class T>
struct DropContiguous {
  DropoutMath math;
  int64_t count;
  const T* x;
  T* y;
  __device__ void operator()(int64_t block) const {
    const PhiloxBlock drawn = math.words(static_cast<uint64_t>(block));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int64_t k = 0, i = 4 * block; k < 4 && i < count; ++k, ++i) {
      y[i] = math.apply(x[i], words[k]);
    }
  }
};

/// Body for elements of (N, pixels, C); a mask goes by the logical index.
template <class T>
struct DropChannelsLast {
  DropoutMath math;
  int64_t channels, pixels;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t n = i / (channels * pixels), pixel = i / channels % pixels;
    const int64_t logical = (n * channels + i % channels) * pixels + pixel;
    const PhiloxBlock drawn = math.words(static_cast<uint64_t>(logical / 4));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    y[i] = math.apply(x[i], words[logical % 4]);
  }
};

class DropoutCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, true);
  }
  void prepare(Layer&, const Option&, Blobs, Blobs) override {}

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    auto& dropout = static_cast<DropoutLayer&>(layer);
    if (dropout.drops()) dropout.new_mask();
    apply(dropout, bottom[0]->data, top[0]->data);
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    apply(static_cast<DropoutLayer&>(layer), top[0]->diff, bottom[0]->diff);
  }

 private:
  static void apply(const DropoutLayer& layer, const Tensor& from, Tensor& to) {
    if (!layer.drops() && to.same_memory(from)) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* x = from.device<T>(backend);
      T* y = to.device_overwrite<T>(backend);
      const int64_t count = to.count();
      if (!layer.drops()) {
        backend.copy(y, x, to.bytes());
      } else if (to.format() == Format::contiguous) {
        cuda_for_each(backend, (count + 3) / 4, DropContiguous<T>{layer.mask(), count, x, y});
      } else {
        const Shape& shape = to.shape();
        cuda_for_each(backend, count,
                      DropChannelsLast<T>{layer.mask(), shape[1], shape.count(2), x, y});
      }
    });
  }
};

}  // namespace

void register_dropout_cuda(Registry& registry);

void register_dropout_cuda(Registry& registry) {
  registry.add_engine<DropoutCuda>("Dropout", "cuda", DeviceType::cuda);
}

}  // namespace crema
