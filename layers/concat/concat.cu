#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/concat/concat.hpp"

namespace crema {
namespace {

/// Copies rows of `row` elements; strides in elements.
template <class T>
struct CopyRows {
  int64_t row;
  const T* from;
  int64_t from_stride;
  T* to;
  int64_t to_stride;
  __device__ void operator()(int64_t i) const {
    to[i / row * to_stride + i % row] = from[i / row * from_stride + i % row];
  }
};

class ConcatCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, true);
  }

  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override {
    static_cast<ConcatLayer&>(layer).prepare_reference(bottom, top);
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    if (bottom.size() == 1 && top[0]->data.same_memory(bottom[0]->data)) return;
    CudaBackend& backend = cuda(layer.context());
    const auto& layout = static_cast<const ConcatLayer&>(layer).layout();
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* to = top[0]->data.template device_overwrite<T>(backend);
      for (size_t k = 0; k < bottom.size(); ++k) {
        const T* from = bottom[k]->data.template device<T>(backend);
        cuda_for_each(
            backend, layout.rows * layout.row[k],
            CopyRows<T>{layout.row[k], from, layout.row[k], to + layout.begins[k], layout.top_row});
      }
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (bottom.size() == 1 && bottom[0]->diff.same_memory(top[0]->diff)) return;
    CudaBackend& backend = cuda(layer.context());
    const auto& layout = static_cast<const ConcatLayer&>(layer).layout();
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* from = top[0]->diff.template device<T>(backend);
      for (size_t k = 0; k < bottom.size(); ++k) {
        if (!propagate[k]) continue;
        T* to = bottom[k]->diff.template device_overwrite<T>(backend);
        cuda_for_each(
            backend, layout.rows * layout.row[k],
            CopyRows<T>{layout.row[k], from + layout.begins[k], layout.top_row, to, layout.row[k]});
      }
    });
  }
};

}  // namespace

void register_concat_cuda(Registry& registry);

void register_concat_cuda(Registry& registry) {
  registry.add_engine<ConcatCuda>("Concat", "cuda", DeviceType::cuda);
}

}  // namespace crema
