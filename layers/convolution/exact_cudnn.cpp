// Contiguous convolutions by cuDNN in f32, never TF32, and in f64. A pass for which no algorithm
// keeps within the limit of scratch memory goes over the batch in pieces
// (backend/batch_pieces.hpp).
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

#include "backend/batch_pieces.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "core/dispatch.hpp"
#include "layers/convolution/cudnn.hpp"
#include "layers/convolution/ends.hpp"

namespace crema {
namespace {

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

/// The problem of a batch, and those of its pieces.
class Problems {
 public:
  Problems(const ConvolutionGeometry& g, DType dtype) : geometry_(g), dtype_(dtype) {
    const auto bytes = [dtype](int64_t channels, const std::vector<int64_t>& axes) {
      return std::accumulate(
          axes.begin(), axes.end(), static_cast<size_t>(channels) * size_of(dtype),
          [](size_t all, int64_t axis) { return all * static_cast<size_t>(axis); });
    };
    x_bytes_ = bytes(g.channels, g.input);
    y_bytes_ = bytes(g.outputs, g.output);
  }

  /// The numbers of pieces that the batch can be divided into.
  std::vector<int64_t> counts() const {
    return piece_counts(geometry_.batch, {x_bytes_, y_bytes_});
  }
  /// That of one of so many pieces.
  const Problem& in(int64_t pieces) {
    std::unique_ptr<Problem>& problem = of_pieces_[pieces];
    if (problem == nullptr) {
      ConvolutionGeometry piece = geometry_;
      piece.batch /= pieces;
      problem = std::make_unique<Problem>(piece, dtype_);
    }
    return *problem;
  }
  /// Bytes of the images of a piece.
  size_t x_bytes(int64_t pieces) const { return images(pieces) * x_bytes_; }
  size_t y_bytes(int64_t pieces) const { return images(pieces) * y_bytes_; }

 private:
  size_t images(int64_t pieces) const { return static_cast<size_t>(geometry_.batch / pieces); }

  ConvolutionGeometry geometry_;
  DType dtype_;
  size_t x_bytes_ = 0, y_bytes_ = 0;  // of an image
  std::map<int64_t, std::unique_ptr<Problem>> of_pieces_;
};

// How cuDNN names each pass, suggests algorithms for it, the likely fastest first, measures the
// scratch memory of one and runs it; and the order in which these functions take the operands, with
// the bytes from a piece of the batch to the next: 0 for weights.

struct ForwardPass {
  using Suggestion = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr const char* kName = "forward";
  static constexpr auto kSuggest = cudnnGetConvolutionForwardAlgorithm_v7;
  static constexpr auto kMeasure = cudnnGetConvolutionForwardWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionForward;
  static auto operands(const Problem& p) {
    return std::tuple(p.x(), p.w(), p.convolution(), p.y());
  }
  static constexpr std::array<size_t, 3> steps(size_t x, size_t y) { return {x, 0, y}; }
};

struct DataPass {
  using Suggestion = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr const char* kName = "backward data";
  static constexpr auto kSuggest = cudnnGetConvolutionBackwardDataAlgorithm_v7;
  static constexpr auto kMeasure = cudnnGetConvolutionBackwardDataWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionBackwardData;
  static auto operands(const Problem& p) {
    return std::tuple(p.w(), p.y(), p.convolution(), p.x());
  }
  static constexpr std::array<size_t, 3> steps(size_t x, size_t y) { return {0, y, x}; }
};

struct WeightsPass {
  using Suggestion = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr const char* kName = "backward weights";
  static constexpr auto kSuggest = cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  static constexpr auto kMeasure = cudnnGetConvolutionBackwardFilterWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionBackwardFilter;
  static auto operands(const Problem& p) {
    return std::tuple(p.x(), p.y(), p.convolution(), p.w());
  }
  static constexpr std::array<size_t, 3> steps(size_t x, size_t y) { return {x, y, 0}; }
};

/// What one pass runs, and the scratch memory that it needs.
template <class Pass>
struct Choice {
  decltype(Pass::Suggestion::algo) algorithm{};
  size_t workspace = 0;
  bool same_every_time = true;  // it sums in one order
  int64_t pieces = 1;           // of the batch, one after the other

  std::string str() const {
    return name_in_pieces(pieces, text("exact ", Pass::kName, " ", static_cast<int>(algorithm),
                                       same_every_time ? "" : " (sums in any order)"));
  }
};

bool uses_tensor_cores(cudnnMathType_t type) {
  return type == CUDNN_TENSOR_OP_MATH || type == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

/// Why the suggestions that were passed over cannot be taken.
struct Refusals {
  bool too_large = false, too_free = false;
};

/// Of cuDNN's suggestions that keep within the limit of scratch memory, and in a deterministic net
/// sum in the same order every time: the one that `wanted` holds by its str(), where it is among
/// them, else the first. Some are for tensor cores: these come last, as their speed is not that of
/// our arithmetic, and the memory that ours needs is asked for.
template <class Pass>
std::optional<Choice<Pass>> choose_in(int64_t pieces, cudnnHandle_t dnn, Problems& problems,
                                      const Arithmetic& arithmetic,
                                      const std::vector<std::string>& wanted, Refusals& refusals) {
  constexpr int kSuggestions = 16;
  std::array<typename Pass::Suggestion, kSuggestions> found{};
  int count = 0;
  const auto operands = Pass::operands(problems.in(pieces));
  const auto suggest = [&](auto... of) {
    return Pass::kSuggest(dnn, of..., kSuggestions, &count, found.data());
  };
  cuda_check(std::apply(suggest, operands), "choosing a convolution algorithm");
  std::optional<Choice<Pass>> best;
  bool best_is_for_tensor_cores = false;
  for (const auto& suggestion : std::span(found).first(static_cast<size_t>(count))) {
    Choice<Pass> choice{suggestion.algo, 0, suggestion.determinism == CUDNN_DETERMINISTIC, pieces};
    if (suggestion.status != CUDNN_STATUS_SUCCESS) continue;
    const auto measure = [&](auto... of) {
      return Pass::kMeasure(dnn, of..., choice.algorithm, &choice.workspace);
    };
    if (std::apply(measure, operands) != CUDNN_STATUS_SUCCESS) continue;
    if (arithmetic.deterministic && !choice.same_every_time) {
      refusals.too_free = true;
      continue;
    }
    if (choice.workspace > arithmetic.workspace_limit) {
      refusals.too_large = true;
      continue;
    }
    if (std::find(wanted.begin(), wanted.end(), choice.str()) != wanted.end()) return choice;
    const bool for_tensor_cores = uses_tensor_cores(suggestion.mathType);
    if (best && (for_tensor_cores || !best_is_for_tensor_cores)) continue;
    best = choice;
    best_is_for_tensor_cores = for_tensor_cores;
  }
  return best;
}

/// For the whole batch, or where none can be taken, for the fewest pieces of it.
template <class Pass>
Choice<Pass> choose(cudnnHandle_t dnn, Problems& problems, const Arithmetic& arithmetic,
                    const std::vector<std::string>& wanted) {
  Refusals refusals;
  if (const auto choice = choose_in<Pass>(1, dnn, problems, arithmetic, wanted, refusals))
    return *choice;
  if (refusals.too_large) {
    for (const int64_t pieces : problems.counts()) {
      Refusals of_pieces;
      if (const auto choice = choose_in<Pass>(pieces, dnn, problems, arithmetic, wanted, of_pieces))
        return *choice;
    }
  }
  const std::string of_limit = text(" that takes at most ", arithmetic.workspace_limit,
                                    " bytes of scratch memory, for the batch or for a part of it; "
                                    "raise workspace_limit of the net");
  throw Error("cuDNN has no algorithm for the ", Pass::kName, " pass of this convolution",
              refusals.too_large ? of_limit
              : refusals.too_free
                  ? " whose sums have one order; set deterministic: false in the net"
                  : "");
}

/// The problem of a layer, and an algorithm for each pass that will run.
struct Choices {
  std::unique_ptr<Problems> problems;
  // Empty: the pass is not asked for.
  std::optional<Choice<ForwardPass>> forward;
  std::optional<Choice<DataPass>> of_data;
  std::optional<Choice<WeightsPass>> of_weights;

  /// The wanted algorithms where they are known.
  static Choices of(const ConvolutionLayer& layer, size_t bottoms,
                    const std::vector<std::string>& wanted) {
    const cudnnHandle_t dnn = cuda(layer.context()).dnn();
    Choices all{.problems = std::make_unique<Problems>(layer.geometry(), layer.dtype())};
    const bool transposed = layer.geometry().transposed(), any = any_propagates(layer, bottoms);
    const auto choose_pass = [&](auto& choice, auto pass) {
      choice = choose<decltype(pass)>(dnn, *all.problems, layer.arithmetic(), wanted);
    };
    if (!transposed || any) choose_pass(all.forward, ForwardPass());
    if (transposed || any) choose_pass(all.of_data, DataPass());
    if (layer.trains() && layer.params()[0]->needs_gradient)
      choose_pass(all.of_weights, WeightsPass());
    return all;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    if (forward) names.push_back(forward->str());
    if (of_data) names.push_back(of_data->str());
    if (of_weights) names.push_back(of_weights->str());
    return names;
  }
};

class ExactConvolution : public Kernel {
 public:
  ExactConvolution(ConvolutionLayer& layer, const std::vector<std::string>& wanted, Blobs top)
      : Kernel(layer), layer_(layer), backend_(cuda(layer.context())), ends_(layer) {
    ends_.fit(top);
    // Where shapes follow from values, they may have no elements.
    if (top[0]->count() > 0) choices_ = Choices::of(layer, top.size(), wanted);
  }

  void forward(Blobs bottom, Blobs top) override {
    if (!choices_.problems) return;
    dispatch_float(layer_.dtype(), [&](auto zero) { forward_as<decltype(zero)>(bottom, top); });
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!choices_.problems) return;
    dispatch_float(layer_.dtype(),
                   [&](auto zero) { backward_as<decltype(zero)>(top, propagate, bottom); });
  }

  size_t bytes() const override { return ends_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    const auto workspace = [](const auto& choice) { return choice ? choice->workspace : 0; };
    plan.need(kDeviceScratch, std::max({workspace(choices_.forward), workspace(choices_.of_data),
                                        workspace(choices_.of_weights), ends_.scratch_bytes()}));
  }
  std::string detail() const override { return joined(choices_.names(), ", "); }
  /// A record would keep the folded weights that it began with.
  bool capturable() const override { return !ends_.folds(); }

 private:
  /// to = the product of the operands + beta to, in the order in which cuDNN takes them.
  template <class Pass, class T>
  void run(const std::optional<Choice<Pass>>& choice, const T* first, const T* second, T beta,
           T* to) {
    Problems& problems = *choices_.problems;
    const int64_t pieces = choice->pieces;
    const auto [of_first, of_second, convolution, of_to] = Pass::operands(problems.in(pieces));
    const auto [first_step, second_step, to_step] =
        Pass::steps(problems.x_bytes(pieces), problems.y_bytes(pieces));
    const T one = 1;
    for (int64_t i = 0; i < pieces; ++i) {
      // What is the same for all pieces is a sum over them.
      const T before = i > 0 && to_step == 0 ? one : beta;
      const cudnnStatus_t status =
          Pass::kRun(backend_.dnn(), &one, of_first, piece_at<const void>(first, i, first_step),
                     of_second, piece_at<const void>(second, i, second_step), convolution,
                     choice->algorithm, backend_.scratch(choice->workspace), choice->workspace,
                     &before, of_to, piece_at<void>(to, i, to_step));
      if (status != CUDNN_STATUS_SUCCESS)
        cuda_check(status, text("the ", Pass::kName, " pass of a convolution").c_str());
    }
  }

  /// y = w x + beta y, in the terms of the problem.
  template <class T>
  void multiply(const Parameter& weights, const Tensor& x, T beta, Tensor& y) {
    const T *from = x.read<T>(&backend_), *w = weights.data.read<T>(&backend_);
    T* to = beta == T{0} ? y.overwrite<T>(&backend_) : y.change<T>(&backend_);
    run(choices_.forward, from, w, beta, to);
  }

  /// x = the transposed product of w and y.
  template <class T>
  void multiply_transposed(const Parameter& weights, const Tensor& y, Tensor& x) {
    const T *from = y.read<T>(&backend_), *w = weights.data.read<T>(&backend_);
    run(choices_.of_data, w, from, T{0}, x.overwrite<T>(&backend_));
  }

  /// Adds to the gradient of the weights, where dy is that of w x.
  template <class T>
  void add_weights_gradient(Parameter& weights, const Tensor& x, const Tensor& dy) {
    const T beta = static_cast<T>(weights.begin_gradient());
    const T *of_x = x.read<T>(&backend_), *of_y = dy.read<T>(&backend_);
    run(choices_.of_weights, of_x, of_y, beta, weights.diff.change<T>(&backend_));
  }

  template <class T>
  void forward_as(Blobs bottom, Blobs top) {
    ends_.fold(ComputeDevice(backend_));
    ends_.take_summand(ComputeDevice(backend_), bottom, top);
    const T beta{layer_.summand(bottom) != nullptr ? T{1} : T{0}};
    for (size_t i = 0; i < top.size(); ++i) {
      const Tensor& from = bottom[i]->data;
      Tensor& to = top[i]->data;
      layer_.geometry().transposed() ? multiply_transposed<T>(ends_.weights(), from, to)
                                     : multiply<T>(ends_.weights(), from, beta, to);
      ends_.finish(ComputeDevice(backend_), to);
    }
  }

  template <class T>
  void backward_as(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
    Parameter& weights = ends_.weights();
    const bool transposed = layer_.geometry().transposed();
    ends_.undo_relu(ComputeDevice(backend_), top);
    if (ends_.bias() && ends_.bias()->needs_gradient)
      ends_.backward_bias(ComputeDevice(backend_), top);
    for (size_t i = 0; i < top.size(); ++i) {
      const Tensor &of_top = ends_.sums_diff(top, i), &of_bottom = bottom[i]->data;
      if (weights.needs_gradient) {
        add_weights_gradient<T>(weights, transposed ? of_top : of_bottom,
                                transposed ? of_bottom : of_top);
      }
      if (!propagate[i]) continue;
      Tensor& wanted = bottom[i]->diff;
      transposed ? multiply<T>(weights, of_top, T{0}, wanted)
                 : multiply_transposed<T>(weights, of_top, wanted);
    }
    ends_.pass_to_summand(ComputeDevice(backend_), top, propagate, bottom);
  }

  ConvolutionLayer& layer_;
  CudaBackend& backend_;
  ConvolutionEnds ends_;
  Choices choices_;
};

}  // namespace

std::vector<std::string> exact_choices(const ConvolutionLayer& layer, size_t bottoms) {
  return Choices::of(layer, bottoms, {}).names();
}

std::unique_ptr<Kernel> make_exact(ConvolutionLayer& layer, const std::vector<std::string>& choice,
                                   Blobs top) {
  return std::make_unique<ExactConvolution>(layer, choice, top);
}

}  // namespace crema
