#include "backend/cuda/device_passes.cuh"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/gemm.hpp"
#include "layers/inner_product/inner_product.hpp"

namespace crema {
namespace {

/// cuBLAS, with bias and ReLU in one pass behind the product.
class InnerProductPasses {
 public:
  template <class T>
  void forward(const CudaPass<T>& pass, InnerProductLayer& layer, Blobs bottom, Blobs top) {
    const T* x = pass.read(bottom[0]->data);          // (rows, inputs)
    const T* w = pass.read(layer.params()[0]->data);  // (outputs, inputs)
    T* y = pass.write(top[0]->data);                  // (rows, outputs)
    cuda_gemm<T>(pass.backend, false, !layer.transposed(), layer.rows(), layer.outputs(),
                 layer.inputs(), 1, x, w, 0, y);
    const T* bias = layer.has_bias() ? pass.read(layer.params()[1]->data) : nullptr;
    cuda_add_bias(pass.backend, layer.rows(), layer.outputs(), 1, bias, layer.relu_slope(), y);
  }

  template <class T>
  void backward(const CudaPass<T>& pass, InnerProductLayer& layer, Blobs top,
                const std::vector<bool>& propagate, Blobs bottom) {
    CudaBackend& backend = pass.backend;
    const int64_t rows = layer.rows(), inputs = layer.inputs(), outputs = layer.outputs();
    const T* dy = pass.read(top[0]->diff);
    if (layer.relu_slope()) {
      T* masked = pass.write(masked_);
      cuda_undo_relu(backend, rows * outputs, *layer.relu_slope(), dy, pass.read(top[0]->data),
                     masked);
      dy = masked;
    }
    if (layer.has_bias() && layer.params()[1]->needs_gradient) {
      Parameter& bias = *layer.params()[1];
      const T beta = static_cast<T>(bias.begin_gradient());
      cuda_bias_gradient(backend, rows, outputs, 1, dy, beta, pass.change(bias.diff));
    }
    Parameter& weight = *layer.params()[0];
    if (weight.needs_gradient) {
      const T* x = pass.read(bottom[0]->data);
      const T beta = static_cast<T>(weight.begin_gradient());
      T* dw = pass.change(weight.diff);
      if (layer.transposed()) {
        cuda_gemm<T>(backend, true, false, inputs, outputs, rows, 1, x, dy, beta, dw);
      } else {
        cuda_gemm<T>(backend, true, false, outputs, inputs, rows, 1, dy, x, beta, dw);
      }
    }
    if (!propagate[0]) return;
    cuda_gemm<T>(backend, false, layer.transposed(), rows, inputs, outputs, 1, dy,
                 pass.read(weight.data), 0, pass.write(bottom[0]->diff));
  }

  size_t extra_bytes() const { return masked_.bytes(); }

  void make_room(const InnerProductLayer& layer, Blobs /*bottom*/, Blobs top) {
    if (!layer.relu_slope() || !layer.trains()) return;
    masked_.reshape(top[0]->shape());
    masked_.set_layout(layer.dtype(), Format::contiguous);
  }

 private:
  Tensor masked_;  // (rows, outputs): dy through the ReLU; the top's own diff is not ours to change
};

}  // namespace

void register_inner_product_cuda(Registry& registry) {
  add_cuda_passes<InnerProductLayer, InnerProductPasses>(registry, "InnerProduct");
}

}  // namespace crema
