// Convolution and Deconvolution by cuDNN: any number of groups, dilation, 0 to 3 spatial axes, f32
// and f64.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <tuple>

#include "backend/cuda/cuda_backend.hpp"
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

// How cuDNN names each pass, suggests algorithms for it, the likely fastest first, and measures the
// scratch memory of one; and the order in which these functions take the operands.

struct ForwardPass {
  using Suggestion = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr const char* kName = "forward";
  static constexpr auto kSuggest = cudnnGetConvolutionForwardAlgorithm_v7;
  static constexpr auto kMeasure = cudnnGetConvolutionForwardWorkspaceSize;
  static auto operands(const Problem& p) {
    return std::tuple(p.x(), p.w(), p.convolution(), p.y());
  }
};

struct DataPass {
  using Suggestion = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr const char* kName = "backward data";
  static constexpr auto kSuggest = cudnnGetConvolutionBackwardDataAlgorithm_v7;
  static constexpr auto kMeasure = cudnnGetConvolutionBackwardDataWorkspaceSize;
  static auto operands(const Problem& p) {
    return std::tuple(p.w(), p.y(), p.convolution(), p.x());
  }
};

struct WeightsPass {
  using Suggestion = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr const char* kName = "backward weights";
  static constexpr auto kSuggest = cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  static constexpr auto kMeasure = cudnnGetConvolutionBackwardFilterWorkspaceSize;
  static auto operands(const Problem& p) {
    return std::tuple(p.x(), p.y(), p.convolution(), p.w());
  }
};

/// What one pass runs, and the scratch memory that it needs.
template <class Pass>
struct Choice {
  decltype(Pass::Suggestion::algo) algorithm{};
  size_t workspace = 0;
  bool same_every_time = true;  // it sums in one order

  std::string str() const {
    return concat(Pass::kName, " ", static_cast<int>(algorithm),
                  same_every_time ? "" : " (sums in any order)");
  }
};

bool uses_tensor_cores(cudnnMathType_t type) {
  return type == CUDNN_TENSOR_OP_MATH || type == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

/// Of cuDNN's suggestions the one that `wanted` holds by its str(), where it is among them. Else
/// the first that is modest with memory and sums in the same order every time; failing that, one
/// that does not. Some are for tensor cores: these come last, as their speed is not that of our
/// arithmetic, and the memory that ours needs is asked for.
template <class Pass>
Choice<Pass> choose(cudnnHandle_t dnn, const Problem& problem,
                    const std::vector<std::string>& wanted) {
  constexpr int kSuggestions = 16;
  std::array<typename Pass::Suggestion, kSuggestions> found{};
  int count = 0;
  const auto operands = Pass::operands(problem);
  const auto suggest = [&](auto... of) {
    return Pass::kSuggest(dnn, of..., kSuggestions, &count, found.data());
  };
  cuda_check(std::apply(suggest, operands), "choosing a convolution algorithm");
  std::optional<Choice<Pass>> best;
  int best_rank = 0;
  for (const auto& suggestion : std::span(found).first(static_cast<size_t>(count))) {
    Choice<Pass> choice{suggestion.algo, 0, suggestion.determinism == CUDNN_DETERMINISTIC};
    if (suggestion.status != CUDNN_STATUS_SUCCESS) continue;
    const auto measure = [&](auto... of) {
      return Pass::kMeasure(dnn, of..., choice.algorithm, &choice.workspace);
    };
    if (std::apply(measure, operands) != CUDNN_STATUS_SUCCESS) continue;
    if (choice.workspace > kWorkspaceLimit) continue;
    if (std::find(wanted.begin(), wanted.end(), choice.str()) != wanted.end()) return choice;
    const int rank = 2 * (choice.same_every_time ? 0 : 1) + uses_tensor_cores(suggestion.mathType);
    if (best && rank >= best_rank) continue;
    best = choice;
    best_rank = rank;
  }
  if (!best.has_value())
    throw Error("cuDNN has no algorithm for the ", Pass::kName, " pass of this convolution");
  return *best;
}

class ConvolutionCudnn : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override {
    if (of(layer).geometry().spatial_axes() > 3) {
      why = concat("it takes at most 3 spatial axes, the bottom is ", bottom[0]->shape().str());
      return {};
    }
    const int64_t most = std::max(bottom[0]->count(), top[0]->count());
    if (most == 0 || most > std::numeric_limits<int>::max()) {
      why = concat("it takes 1 to 2^31 - 1 elements, not ", most);
      return {};
    }
    const cudnnHandle_t dnn = cuda(layer.context()).dnn();
    Option option = uniform_option(bottom, top, layer.dtype());
    try {
      choose_all(of(layer), bottom, dnn, {});
    } catch (const Error& error) {
      why = error.message();
      return {};
    }
    if (forward_) option.choice.push_back(forward_->str());
    if (of_data_) option.choice.push_back(of_data_->str());
    if (of_weights_) option.choice.push_back(of_weights_->str());
    return {option};
  }

  void prepare(Layer& layer, const Option& option, Blobs bottom, Blobs top) override {
    of(layer).prepare_engine(top);
    // Where shapes follow from values, they may have no elements.
    problem_.reset();
    if (top[0]->count() == 0) return;
    choose_all(of(layer), bottom, cuda(layer.context()).dnn(), option.choice);
  }

  void resume(Layer& layer, Blobs /*bottom*/, Blobs top) override { of(layer).prepare_engine(top); }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    if (!problem_) return;
    dispatch_float(layer.dtype(),
                   [&](auto zero) { forward_as<decltype(zero)>(of(layer), bottom, top); });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!problem_) return;
    dispatch_float(layer.dtype(), [&](auto zero) {
      backward_as<decltype(zero)>(of(layer), top, propagate, bottom);
    });
  }

  void plan_scratch(ScratchPlan& plan) const override {
    plan.need(kDeviceScratch,
              std::max({forward_ ? forward_->workspace : 0, of_data_ ? of_data_->workspace : 0,
                        of_weights_ ? of_weights_->workspace : 0}));
  }

  std::string detail() const override {
    std::string text;
    const auto add = [&](const auto& choice) {
      if (choice) text += concat(text.empty() ? "" : ", ", choice->str());
    };
    add(forward_);
    add(of_data_);
    add(of_weights_);
    return text;
  }

 private:
  static ConvolutionLayer& of(Layer& layer) { return static_cast<ConvolutionLayer&>(layer); }

  /// The problem, and an algorithm for each pass that will run: the wanted ones where they are
  /// known.
  void choose_all(ConvolutionLayer& layer, Blobs bottom, cudnnHandle_t dnn,
                  const std::vector<std::string>& wanted) {
    problem_ = std::make_unique<Problem>(layer.geometry(), layer.dtype());
    forward_.reset();
    of_data_.reset();
    of_weights_.reset();
    const bool transposed = layer.geometry().transposed();
    bool any = false;
    for (size_t i = 0; i < bottom.size(); ++i) any |= layer.propagates(static_cast<int>(i));
    if (!transposed || any) forward_ = choose<ForwardPass>(dnn, *problem_, wanted);
    if (transposed || any) of_data_ = choose<DataPass>(dnn, *problem_, wanted);
    if (layer.trains() && layer.weights().needs_gradient) {
      of_weights_ = choose<WeightsPass>(dnn, *problem_, wanted);
    }
  }

  /// y = w x, in the terms of the problem.
  template <class T>
  void multiply(CudaBackend& backend, const Parameter& weights, const Tensor& x, Tensor& y) {
    const Problem& p = *problem_;
    const T one = 1, zero = 0;
    const T *from = x.device<T>(backend), *w = weights.data.device<T>(backend);
    T* to = y.device_overwrite<T>(backend);
    void* workspace = backend.scratch(forward_->workspace);
    cuda_check(cudnnConvolutionForward(backend.dnn(), &one, p.x(), from, p.w(), w, p.convolution(),
                                       forward_->algorithm, workspace, forward_->workspace, &zero,
                                       p.y(), to),
               "cudnnConvolutionForward");
  }

  /// x = the transposed product of w and y.
  template <class T>
  void multiply_transposed(CudaBackend& backend, const Parameter& weights, const Tensor& y,
                           Tensor& x) {
    const Problem& p = *problem_;
    const T one = 1, zero = 0;
    const T *from = y.device<T>(backend), *w = weights.data.device<T>(backend);
    T* to = x.device_overwrite<T>(backend);
    void* workspace = backend.scratch(of_data_->workspace);
    cuda_check(cudnnConvolutionBackwardData(backend.dnn(), &one, p.w(), w, p.y(), from,
                                            p.convolution(), of_data_->algorithm, workspace,
                                            of_data_->workspace, &zero, p.x(), to),
               "cudnnConvolutionBackwardData");
  }

  /// Adds to the gradient of the weights, where dy is that of w x.
  template <class T>
  void add_weights_gradient(CudaBackend& backend, Parameter& weights, const Tensor& x,
                            const Tensor& dy) {
    const Problem& p = *problem_;
    const T one = 1, beta = static_cast<T>(weights.begin_gradient());
    const T *of_x = x.device<T>(backend), *of_y = dy.device<T>(backend);
    T* dw = weights.diff.device_mut<T>(backend);
    void* workspace = backend.scratch(of_weights_->workspace);
    cuda_check(cudnnConvolutionBackwardFilter(backend.dnn(), &one, p.x(), of_x, p.y(), of_y,
                                              p.convolution(), of_weights_->algorithm, workspace,
                                              of_weights_->workspace, &beta, p.w(), dw),
               "cudnnConvolutionBackwardFilter");
  }

  template <class T>
  void forward_as(ConvolutionLayer& layer, Blobs bottom, Blobs top) {
    CudaBackend& backend = cuda(layer.context());
    for (size_t i = 0; i < bottom.size(); ++i) {
      const Tensor& from = bottom[i]->data;
      Tensor& to = top[i]->data;
      layer.geometry().transposed() ? multiply_transposed<T>(backend, layer.weights(), from, to)
                                    : multiply<T>(backend, layer.weights(), from, to);
      layer.finish(Side(backend), to);
    }
  }

  template <class T>
  void backward_as(ConvolutionLayer& layer, Blobs top, const std::vector<bool>& propagate,
                   Blobs bottom) {
    CudaBackend& backend = cuda(layer.context());
    Parameter& weights = layer.weights();
    const bool transposed = layer.geometry().transposed();
    layer.undo_relu(Side(backend), top);
    if (layer.bias() && layer.bias()->needs_gradient) layer.backward_bias(Side(backend), top);
    for (size_t i = 0; i < top.size(); ++i) {
      const Tensor &of_top = layer.sums_diff(top, i), &of_bottom = bottom[i]->data;
      if (weights.needs_gradient) {
        add_weights_gradient<T>(backend, weights, transposed ? of_top : of_bottom,
                                transposed ? of_bottom : of_top);
      }
      if (!propagate[i]) continue;
      Tensor& wanted = bottom[i]->diff;
      transposed ? multiply<T>(backend, weights, of_top, wanted)
                 : multiply_transposed<T>(backend, weights, of_top, wanted);
    }
  }

  std::unique_ptr<Problem> problem_;
  // Empty: the pass is not asked for.
  std::optional<Choice<ForwardPass>> forward_;
  std::optional<Choice<DataPass>> of_data_;
  std::optional<Choice<WeightsPass>> of_weights_;
};

}  // namespace

void register_convolution_cuda(Registry& registry) {
  for (const char* type : kConvolutionTypes) {
    registry.add_engine<ConvolutionCudnn>(type, "cudnn", DeviceType::cuda);
  }
}

}  // namespace crema
