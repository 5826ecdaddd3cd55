// Convolution by cuDNN: any number of groups, dilation, 0 to 3 spatial axes, f32 and f64.
#include <algorithm>
#include <array>
#include <limits>

#include "backend/cuda/elementwise.hpp"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"

namespace crema {
namespace {

/// Algorithms that want more scratch memory are passed over.
constexpr size_t kWorkspaceLimit = size_t{1} << 30;
/// cuDNN wants images at least.
constexpr size_t kLeastSpatialAxes = 2;

/// A descriptor of cuDNN, destroyed with its owner.
template <class D, cudnnStatus_t (*kCreate)(D*), cudnnStatus_t (*kDestroy)(D)>
class Descriptor {
 public:
  Descriptor() { cuda_check(kCreate(&value_), "making a cuDNN descriptor"); }
  ~Descriptor() { kDestroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  D get() const { return value_; }

 private:
  D value_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

/// `values` as ints, with `fill` in front for the axes that an image lacks.
std::vector<int> spatial(const std::vector<int64_t>& values, int fill) {
  std::vector<int> result(std::max(values.size(), kLeastSpatialAxes) - values.size(), fill);
  for (const int64_t value : values) result.push_back(static_cast<int>(value));
  return result;
}

std::vector<int> with_channels(int64_t outer, int64_t channels, const std::vector<int64_t>& axes) {
  std::vector<int> dims = spatial(axes, 1);
  dims.insert(dims.begin(), {static_cast<int>(outer), static_cast<int>(channels)});
  return dims;
}

void describe(const TensorDescriptor& tensor, cudnnDataType_t type, const std::vector<int>& dims) {
  std::vector<int> strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  cuda_check(cudnnSetTensorNdDescriptor(tensor.get(), type, static_cast<int>(dims.size()),
                                        dims.data(), strides.data()),
             "cudnnSetTensorNdDescriptor");
}

/// Everything that cuDNN has to know of one problem.
class Problem {
 public:
  Problem(const ConvolutionGeometry& g, DType dtype) {
    const cudnnDataType_t type = dtype == DType::f32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_DOUBLE;
    describe(x_, type, with_channels(g.batch, g.channels, g.input));
    describe(y_, type, with_channels(g.batch, g.outputs, g.output));
    const std::vector<int> w = with_channels(g.outputs, g.channels / g.groups, g.kernel);
    cuda_check(cudnnSetFilterNdDescriptor(w_.get(), type, CUDNN_TENSOR_NCHW,
                                          static_cast<int>(w.size()), w.data()),
               "cudnnSetFilterNdDescriptor");
    const std::vector<int> pad = spatial(g.pad, 0), stride = spatial(g.stride, 1);
    const std::vector<int> dilation = spatial(g.dilation, 1);
    cuda_check(cudnnSetConvolutionNdDescriptor(convolution_.get(), static_cast<int>(pad.size()),
                                               pad.data(), stride.data(), dilation.data(),
                                               CUDNN_CROSS_CORRELATION, type),
               "cudnnSetConvolutionNdDescriptor");
    cuda_check(cudnnSetConvolutionGroupCount(convolution_.get(), static_cast<int>(g.groups)),
               "cudnnSetConvolutionGroupCount");
    // f32 is f32: no TF32.
    cuda_check(cudnnSetConvolutionMathType(convolution_.get(), CUDNN_FMA_MATH),
               "cudnnSetConvolutionMathType");
  }

  cudnnTensorDescriptor_t x() const { return x_.get(); }
  cudnnTensorDescriptor_t y() const { return y_.get(); }
  cudnnFilterDescriptor_t w() const { return w_.get(); }
  cudnnConvolutionDescriptor_t convolution() const { return convolution_.get(); }

 private:
  TensorDescriptor x_, y_;
  FilterDescriptor w_;
  ConvolutionDescriptor convolution_;
};

/// What one pass runs, and the scratch memory that it needs.
template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  size_t workspace = 0;
};

/// Of cuDNN's suggestions, the likely fastest first, the first that is modest with memory and sums
/// in the same order every time; failing that, one that does not.
template <class Perf, class Find>
auto choose(const char* pass, const Find& find) {
  constexpr int kSuggestions = 16;
  std::array<Perf, kSuggestions> found{};
  int count = 0;
  cuda_check(find(kSuggestions, &count, found.data()), "choosing a convolution algorithm");
  const Perf* best = nullptr;
  for (int i = 0; i < count; ++i) {
    const Perf& perf = found[static_cast<size_t>(i)];
    if (perf.status != CUDNN_STATUS_SUCCESS || perf.memory > kWorkspaceLimit) continue;
    const bool same_every_time = perf.determinism == CUDNN_DETERMINISTIC;
    if (!best || same_every_time) best = &perf;
    if (same_every_time) break;
  }
  require(best != nullptr, "cuDNN has no algorithm for the ", pass,
          " pass of this convolution; give the layer engine: \"reference\"");
  return Choice<decltype(best->algo)>{best->algo, best->memory};
}

class ConvolutionCudnn : public Engine {
 public:
  std::vector<FormatOption> options(Layer& layer, Blobs bottom, Blobs top,
                                    std::string& why) override {
    if (layer.dtype() != DType::f32 && layer.dtype() != DType::f64) {
      why = concat("it computes in f32 and f64, not in ", to_string(layer.dtype()));
      return {};
    }
    if (of(layer).geometry().spatial_axes() > 3) {
      why = concat("it takes at most 3 spatial axes, the bottom is ", bottom[0]->shape().str());
      return {};
    }
    const int64_t most = std::max(bottom[0]->count(), top[0]->count());
    if (most == 0 || most > std::numeric_limits<int>::max()) {
      why = concat("it takes 1 to 2^31 - 1 elements, not ", most);
      return {};
    }
    return {FormatOption{}};
  }

  void prepare(Layer& layer, Blobs bottom, Blobs /*top*/) override {
    ConvolutionLayer& conv = of(layer);
    problem_ = std::make_unique<Problem>(conv.geometry(), layer.dtype());
    const Problem& p = *problem_;
    const cudnnHandle_t dnn = cuda(layer.context()).dnn();
    forward_ = choose<cudnnConvolutionFwdAlgoPerf_t>("forward", [&](int n, int* count, auto* list) {
      return cudnnGetConvolutionForwardAlgorithm_v7(dnn, p.x(), p.w(), p.convolution(), p.y(), n,
                                                    count, list);
    });
    if (!layer.trains()) return;
    if (conv.weights().needs_gradient) {
      of_weights_ = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          "backward weights", [&](int n, int* count, auto* list) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, p.x(), p.y(), p.convolution(),
                                                                 p.w(), n, count, list);
          });
    }
    bool any = false;
    for (size_t i = 0; i < bottom.size(); ++i) any |= layer.propagates(static_cast<int>(i));
    if (any) {
      of_data_ = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          "backward data", [&](int n, int* count, auto* list) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, p.w(), p.y(), p.convolution(),
                                                               p.x(), n, count, list);
          });
    }
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

  std::string detail() const override {
    return concat("cuDNN algorithms ", static_cast<int>(forward_.algorithm), ", ",
                  static_cast<int>(of_data_.algorithm), ", ",
                  static_cast<int>(of_weights_.algorithm));
  }

 private:
  static ConvolutionLayer& of(Layer& layer) { return static_cast<ConvolutionLayer&>(layer); }
  static int64_t positions(const ConvolutionGeometry& g) { return Shape(g.output).count(); }

  template <class T>
  void forward_as(ConvolutionLayer& layer, Blobs bottom, Blobs top) {
    CudaBackend& backend = cuda(layer.context());
    const ConvolutionGeometry& g = layer.geometry();
    const Problem& p = *problem_;
    const T* w = layer.weights().data.device<T>(backend);
    const T* bias = layer.bias() ? layer.bias()->data.device<T>(backend) : nullptr;
    const T one = 1, zero = 0;
    for (size_t i = 0; i < bottom.size(); ++i) {
      const T* x = bottom[i]->data.device<T>(backend);
      T* y = top[i]->data.device_overwrite<T>(backend);
      void* workspace = backend.scratch(forward_.workspace);
      cuda_check(cudnnConvolutionForward(backend.dnn(), &one, p.x(), x, p.w(), w, p.convolution(),
                                         forward_.algorithm, workspace, forward_.workspace, &zero,
                                         p.y(), y),
                 "cudnnConvolutionForward");
      cuda_add_bias(backend, g.batch, g.outputs, positions(g), bias, layer.relu(), y);
    }
  }

  template <class T>
  void backward_as(ConvolutionLayer& layer, Blobs top, const std::vector<bool>& propagate,
                   Blobs bottom) {
    CudaBackend& backend = cuda(layer.context());
    const ConvolutionGeometry& g = layer.geometry();
    const Problem& p = *problem_;
    Parameter& weights = layer.weights();
    Parameter* const bias = layer.bias();
    const T one = 1, zero = 0;
    for (size_t i = 0; i < top.size(); ++i) {
      if (layer.relu()) {
        // Nothing reads the top's diff afterwards.
        T* diff = top[i]->diff.device_mut<T>(backend);
        cuda_undo_relu(backend, top[i]->count(), *layer.relu(), diff,
                       top[i]->data.device<T>(backend), diff);
      }
      const T* dy = top[i]->diff.device<T>(backend);
      if (bias && bias->needs_gradient) {
        const T beta = static_cast<T>(bias->begin_gradient());
        cuda_bias_gradient(backend, g.batch, g.outputs, positions(g), dy, beta,
                           bias->diff.device_mut<T>(backend));
      }
      if (weights.needs_gradient) {
        const T beta = static_cast<T>(weights.begin_gradient());
        const T* x = bottom[i]->data.device<T>(backend);
        T* dw = weights.diff.device_mut<T>(backend);
        void* workspace = backend.scratch(of_weights_.workspace);
        cuda_check(cudnnConvolutionBackwardFilter(backend.dnn(), &one, p.x(), x, p.y(), dy,
                                                  p.convolution(), of_weights_.algorithm, workspace,
                                                  of_weights_.workspace, &beta, p.w(), dw),
                   "cudnnConvolutionBackwardFilter");
      }
      if (!propagate[i]) continue;
      const T* w = weights.data.device<T>(backend);
      T* dx = bottom[i]->diff.device_overwrite<T>(backend);
      void* workspace = backend.scratch(of_data_.workspace);
      cuda_check(cudnnConvolutionBackwardData(backend.dnn(), &one, p.w(), w, p.y(), dy,
                                              p.convolution(), of_data_.algorithm, workspace,
                                              of_data_.workspace, &zero, p.x(), dx),
                 "cudnnConvolutionBackwardData");
    }
  }

  std::unique_ptr<Problem> problem_;
  Choice<cudnnConvolutionFwdAlgo_t> forward_;
  Choice<cudnnConvolutionBwdDataAlgo_t> of_data_;
  Choice<cudnnConvolutionBwdFilterAlgo_t> of_weights_;
};

}  // namespace

void register_convolution_cuda(Registry& registry);

void register_convolution_cuda(Registry& registry) {
  registry.add_engine<ConvolutionCudnn>("Convolution", "cudnn", DeviceType::cuda);
}

}  // namespace crema
