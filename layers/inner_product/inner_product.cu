#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/gemm.hpp"
#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/inner_product/inner_product.hpp"

namespace crema {
namespace {

/// cuBLAS, with bias and ReLU in one pass behind the product.
class InnerProductCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }

  void prepare(Layer& layer, const Option&, Blobs /*bottom*/, Blobs top) override {
    if (!of(layer).relu_slope() || !layer.trains()) return;
    masked_.reshape(top[0]->shape());
    masked_.set_layout(layer.dtype(), Format::contiguous);
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    dispatch_float(layer.dtype(),
                   [&](auto zero) { forward_as<decltype(zero)>(of(layer), bottom, top); });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    dispatch_float(layer.dtype(), [&](auto zero) {
      backward_as<decltype(zero)>(of(layer), top, propagate[0], bottom);
    });
  }

  size_t extra_bytes() const override { return masked_.bytes(); }

 private:
  static InnerProductLayer& of(Layer& layer) { return static_cast<InnerProductLayer&>(layer); }

  template <class T>
  void forward_as(InnerProductLayer& layer, Blobs bottom, Blobs top) {
    CudaBackend& backend = cuda(layer.context());
    const T* x = bottom[0]->data.device<T>(backend);          // (rows, inputs)
    const T* w = layer.params()[0]->data.device<T>(backend);  // (outputs, inputs)
    T* y = top[0]->data.device_overwrite<T>(backend);         // (rows, outputs)
    cuda_gemm<T>(backend, false, !layer.transposed(), layer.rows(), layer.outputs(), layer.inputs(),
                 1, x, w, 0, y);
    const T* bias = layer.has_bias() ? layer.params()[1]->data.device<T>(backend) : nullptr;
    cuda_add_bias(backend, layer.rows(), layer.outputs(), 1, bias, layer.relu_slope(), y);
  }

  template <class T>
  void backward_as(InnerProductLayer& layer, Blobs top, bool propagate, Blobs bottom) {
    CudaBackend& backend = cuda(layer.context());
    const int64_t rows = layer.rows(), inputs = layer.inputs(), outputs = layer.outputs();
    const T* dy = top[0]->diff.device<T>(backend);
    if (layer.relu_slope()) {
      T* masked = masked_.device_overwrite<T>(backend);
      cuda_undo_relu(backend, rows * outputs, *layer.relu_slope(), dy,
                     top[0]->data.device<T>(backend), masked);
      dy = masked;
    }
    if (layer.has_bias() && layer.params()[1]->needs_gradient) {
      Parameter& bias = *layer.params()[1];
      const T beta = static_cast<T>(bias.begin_gradient());
      cuda_bias_gradient(backend, rows, outputs, 1, dy, beta, bias.diff.device_mut<T>(backend));
    }
    Parameter& weight = *layer.params()[0];
    if (weight.needs_gradient) {
      const T* x = bottom[0]->data.device<T>(backend);
      const T beta = static_cast<T>(weight.begin_gradient());
      T* dw = weight.diff.device_mut<T>(backend);
      if (layer.transposed()) {
        cuda_gemm<T>(backend, true, false, inputs, outputs, rows, 1, x, dy, beta, dw);
      } else {
        cuda_gemm<T>(backend, true, false, outputs, inputs, rows, 1, dy, x, beta, dw);
      }
    }
    if (!propagate) return;
    cuda_gemm<T>(backend, false, layer.transposed(), rows, inputs, outputs, 1, dy,
                 weight.data.device<T>(backend), 0, bottom[0]->diff.device_overwrite<T>(backend));
  }

  Tensor masked_;  // (rows, outputs): dy through the ReLU; the top's own diff is not ours to change
};

}  // namespace

void register_inner_product_cuda(Registry& registry);

void register_inner_product_cuda(Registry& registry) {
  registry.add_engine<InnerProductCuda>("InnerProduct", "cuda", DeviceType::cuda);
}

}  // namespace crema
