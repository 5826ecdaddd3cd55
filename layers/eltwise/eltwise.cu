#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/eltwise/eltwise.hpp"
#include "layers/eltwise/eltwise_math.hpp"
#include "layers/relu/relu.hpp"

namespace crema {
namespace {

/// Pointers travel to the kernel as arguments, whose room is limited.
constexpr int kMaximumBottoms = 16;

template <class T>
struct Operands {
  const T* x[kMaximumBottoms];  // one a bottom; null where they are not read
  T* dx[kMaximumBottoms];       // null where no diff is wanted
  T coefficient[kMaximumBottoms];
  int count;
};

// A thread reads its element of all operands before it writes any, so results may lie in the memory
// of operands.

template <class T>
struct Sum {
  Operands<T> in;
  ReLUMath relu;
  T* y;
  __device__ void operator()(int64_t i) const {
    T sum = in.coefficient[0] * in.x[0][i];
    for (int k = 1; k < in.count; ++k) sum += in.coefficient[k] * in.x[k][i];
    y[i] = relu.forward(sum);
  }
};

template <class T>
struct Product {
  Operands<T> in;
  T* y;
  __device__ void operator()(int64_t i) const {
    T product = in.x[0][i];
    for (int k = 1; k < in.count; ++k) product *= in.x[k][i];
    y[i] = product;
  }
};

/// `which` may be null.
template <class T>
struct Maximum {
  Operands<T> in;
  T* y;
  uint8_t* which;
  __device__ void operator()(int64_t i) const {
    EltwiseMaximum<T> maximum(in.x[0][i]);
    for (int k = 1; k < in.count; ++k) maximum.add(in.x[k][i], static_cast<uint8_t>(k));
    y[i] = maximum.value;
    if (which) which[i] = maximum.bottom;
  }
};

/// y is given where a ReLU was absorbed.
template <class T>
struct SumGradient {
  Operands<T> in;
  ReLUMath relu;
  const T* dy;
  const T* y;
  __device__ void operator()(int64_t i) const {
    const T g = y ? relu.backward(dy[i], T{0}, y[i]) : dy[i];
    for (int k = 0; k < in.count; ++k) {
      if (in.dx[k]) in.dx[k][i] = in.coefficient[k] * g;
    }
  }
};

/// y is given where the quotient y / x is to be taken for the product of the others.
template <class T>
struct ProductGradient {
  Operands<T> in;
  const T* dy;
  const T* y;
  __device__ void operator()(int64_t i) const {
    const T g = dy[i];
    for (int k = 0; k < in.count; ++k) {
      if (!in.dx[k]) continue;
      T factor = 1;
      if (y) {
        factor = y[i] / in.x[k][i];
      } else {
        for (int j = 0; j < in.count; ++j) {
          if (j != k) factor *= in.x[j][i];
        }
      }
      in.dx[k][i] = g * factor;
    }
  }
};

template <class T>
struct MaximumGradient {
  Operands<T> in;
  const T* dy;
  const uint8_t* which;
  __device__ void operator()(int64_t i) const {
    const T g = dy[i];
    for (int k = 0; k < in.count; ++k) {
      if (in.dx[k]) in.dx[k][i] = which[i] == k ? g : T{0};
    }
  }
};

class EltwiseCuda : public Engine {
  using Operation = EltwiseLayer::Operation;

 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override {
    if (bottom.size() > kMaximumBottoms) {
      why = concat("it takes at most ", kMaximumBottoms, " bottoms, not ", bottom.size());
      return {};
    }
    return cuda_options(layer, bottom, top, true);
  }

  void prepare(Layer& layer, const Option&, Blobs /*bottom*/, Blobs top) override {
    if (of(layer).operation() != Operation::maximum || !layer.trains()) return;
    maximum_of_.reshape(top[0]->shape());
    maximum_of_.set_layout(DType::u8, top[0]->data.format());
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    dispatch_float(layer.dtype(),
                   [&](auto zero) { forward_as<decltype(zero)>(of(layer), bottom, top); });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    dispatch_float(layer.dtype(), [&](auto zero) {
      backward_as<decltype(zero)>(of(layer), top, propagate, bottom);
    });
  }

  size_t extra_bytes() const override { return maximum_of_.bytes(); }

 private:
  static const EltwiseLayer& of(Layer& layer) { return static_cast<const EltwiseLayer&>(layer); }

  template <class T>
  static Operands<T> operands(const EltwiseLayer& layer, Blobs bottom, bool reads_x) {
    CudaBackend& backend = cuda(layer.context());
    Operands<T> in{};
    in.count = static_cast<int>(bottom.size());
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (reads_x) in.x[k] = bottom[k]->data.template device<T>(backend);
      in.coefficient[k] = static_cast<T>(layer.coefficient(k));
    }
    return in;
  }

  template <class T>
  void forward_as(const EltwiseLayer& layer, Blobs bottom, Blobs top) {
    CudaBackend& backend = cuda(layer.context());
    const Operands<T> in = operands<T>(layer, bottom, true);
    T* y = top[0]->data.template device_overwrite<T>(backend);
    const int64_t count = top[0]->data.storage();
    switch (layer.operation()) {
      case Operation::sum:
        return cuda_for_each(backend, count, Sum<T>{in, {layer.relu_slope().value_or(1)}, y});
      case Operation::product:
        return cuda_for_each(backend, count, Product<T>{in, y});
      case Operation::maximum: {
        uint8_t* which = layer.trains() ? maximum_of_.device_overwrite<uint8_t>(backend) : nullptr;
        return cuda_for_each(backend, count, Maximum<T>{in, y, which});
      }
    }
  }

  template <class T>
  void backward_as(const EltwiseLayer& layer, Blobs top, const std::vector<bool>& propagate,
                   Blobs bottom) {
    CudaBackend& backend = cuda(layer.context());
    const BackwardReads reads = backward_reads(layer);
    Operands<T> in = operands<T>(layer, bottom, static_cast<bool>(reads.bottom_data));
    const T* dy = top[0]->diff.template device<T>(backend);
    const T* y = reads.top_data ? top[0]->data.template device<T>(backend) : nullptr;
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (propagate[k]) in.dx[k] = bottom[k]->diff.template device_overwrite<T>(backend);
    }
    const int64_t count = top[0]->diff.storage();
    switch (layer.operation()) {
      case Operation::sum:
        return cuda_for_each(backend, count,
                             SumGradient<T>{in, {layer.relu_slope().value_or(1)}, dy, y});
      case Operation::product:
        return cuda_for_each(backend, count, ProductGradient<T>{in, dy, y});
      case Operation::maximum:
        return cuda_for_each(backend, count,
                             MaximumGradient<T>{in, dy, maximum_of_.device<uint8_t>(backend)});
    }
  }

  Tensor maximum_of_;  // which bottom each element came from; laid out like the top
};

}  // namespace

void register_eltwise_cuda(Registry& registry);

void register_eltwise_cuda(Registry& registry) {
  registry.add_engine<EltwiseCuda>("Eltwise", "cuda", DeviceType::cuda);
}

}  // namespace crema
