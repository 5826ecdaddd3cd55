#include "backend/cuda/dnn_convolution.hpp"

#include <algorithm>
#include <limits>

#include "crema/error.hpp"

namespace crema {
namespace {

// The pointers of a run.
enum Id : int64_t { kX = 1, kW, kY, kBias, kOther, kFirstBetween };

/// The library computes images at least.
constexpr size_t kLeastAxes = 2;
/// Images with at most so many channels are rearranged.
constexpr int64_t kFewChannels = 4;
/// Of parts of scratch memory.
constexpr size_t kBoundary = 256;

size_t round_up(size_t bytes) { return (bytes + kBoundary - 1) / kBoundary * kBoundary; }

/// `values` behind as many `fill` as the axes that an image of `axes` axes lacks.
std::vector<int64_t> spatial(const std::vector<int64_t>& values, int64_t fill,
                             size_t axes = kLeastAxes) {
  std::vector<int64_t> result(std::max(values.size(), axes) - values.size(), fill);
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

std::vector<int64_t> dims_of(int64_t outer, int64_t channels, const std::vector<int64_t>& axes) {
  std::vector<int64_t> dims = spatial(axes, 1);
  dims.insert(dims.begin(), {outer, channels});
  return dims;
}

DepthMap::Extents extents(const std::vector<int64_t>& values, int64_t fill) {
  const std::vector<int64_t> all = spatial(values, fill, DepthMap::kAxes);
  DepthMap::Extents result{};
  std::ranges::transform(all, result.begin(),
                         [](int64_t value) { return static_cast<uint32_t>(value); });
  return result;
}

/// The axes of a map that cuDNN sees.
std::vector<int64_t> axes_of(const DepthMap::Extents& extents, size_t axes) {
  return {extents.end() - static_cast<std::ptrdiff_t>(std::max(axes, kLeastAxes)), extents.end()};
}

DepthMap map_of(const DnnConvolutionProblem& p, bool deep) {
  const auto channels = static_cast<uint32_t>(p.channels / p.groups);
  if (!deep) return DepthMap::plain(channels, extents(p.kernel, 1));
  const uint32_t multiple = p.dtype == DType::f32 ? 4 : 8;
  return DepthMap::deep(channels, extents(p.kernel, 1), extents(p.stride, 1), extents(p.pad, 0),
                        extents(p.input, 1), extents(p.output, 1), multiple);
}

/// The operands of a problem, as the library sees them.
struct Operands {
  DnnTensor x, w, y;
  DnnWindow window;

  Operands(const DnnConvolutionProblem& p, bool deep, DType weights) {
    y = dnn_channels_last(kY, p.dtype, dims_of(p.images, p.outputs, p.output));
    if (!deep) {
      x = dnn_channels_last(kX, p.dtype, dims_of(p.images, p.channels, p.input));
      w = dnn_channels_last(kW, weights, dims_of(p.outputs, p.channels / p.groups, p.kernel));
      window = {spatial(p.stride, 1), spatial(p.pad, 0), spatial(p.dilation, 1)};
      return;
    }
    const DepthMap map = map_of(p, true);
    const size_t axes = p.kernel.size();
    x = dnn_channels_last(kX, p.dtype,
                          dims_of(p.images, map.deep_channels, axes_of(map.deep_extent, axes)));
    w = dnn_channels_last(kW, weights,
                          dims_of(p.outputs, map.deep_channels, axes_of(map.deep_taps, axes)));
    window = {spatial({}, 1, w.dims.size() - 2), spatial({}, 0, w.dims.size() - 2),
              spatial({}, 1, w.dims.size() - 2)};
  }
};

DnnGraph graph_of(const DnnConvolutionProblem& p, DnnPass pass, bool deep, bool fused,
                  DType gradient) {
  const Operands operands(p, deep, pass == DnnPass::weights ? gradient : p.dtype);
  DnnGraph graph;
  if (!fused) {
    graph.convolve(pass, operands.window, operands.x, operands.w, operands.y);
    return graph;
  }
  // The order that the library's own kernels know: product, sum, bias, ReLU.
  const DnnTensor& result = operands.y;
  int64_t id = kFirstBetween;
  DnnTensor last = dnn_between(id++, result);
  graph.convolve(pass, operands.window, operands.x, operands.w, last);
  const auto next = [&](bool is_last) { return is_last ? result : dnn_between(id++, result); };
  if (p.adds) {
    const DnnTensor sum = next(false);
    graph.add(last, dnn_channels_last(kOther, p.dtype, result.dims), sum);
    last = sum;
  }
  std::vector<int64_t> dims(result.dims.size(), 1);
  dims[1] = result.dims[1];
  const DnnTensor sum = next(!p.relu);
  graph.add(last, dnn_channels_last(kBias, p.dtype, dims), sum);
  if (p.relu) graph.relu(sum, *p.relu, result);
  return graph;
}

bool allowed(const DnnNotes& notes, const DnnRules& rules) {
  return !notes.rounds_inputs && !notes.rounds_sums && !notes.transforms &&
         (notes.same_every_time || !rules.deterministic);
}

/// A convolution whose x has few channels, and whose gradient nobody wants.
bool may_deepen(const DnnConvolutionProblem& p) {
  const bool dilates = std::ranges::any_of(p.dilation, [](int64_t d) { return d > 1; });
  if (!p.ends_here || p.transposed || p.groups != 1 || p.channels > kFewChannels || dilates)
    return false;
  // DeepenPixels counts in 32 bits.
  const DepthMap map = map_of(p, true);
  const double values = static_cast<double>(p.images) * map.deep_pixels() * map.deep_channels;
  return values < std::numeric_limits<uint32_t>::max();
}

std::string list(const std::vector<int64_t>& values) {
  std::vector<std::string> texts;
  for (const int64_t value : values) texts.push_back(std::to_string(value));
  return joined(texts, "x");
}

/// Device memory for measuring. Its bytes are those of small ordinary numbers, 0.0115, of each
/// type: zeros have other times.
class Trial {
 public:
  Trial(CudaBackend& backend, size_t bytes) : backend_(backend), memory_(backend.allocate(bytes)) {
    constexpr int kOrdinary = 0x3c;
    cuda_check(cudaMemsetAsync(memory_, kOrdinary, bytes, backend.stream()), "cudaMemset");
  }
  ~Trial() { backend_.release(memory_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  template <class T = void>
  T* get() const {
    return static_cast<T*>(memory_);
  }

 private:
  CudaBackend& backend_;
  void* memory_;
};

class Event {
 public:
  Event() { cuda_check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Seconds of one run: the least of a few rounds of several.
template <class Run>
double seconds_of(CudaBackend& backend, const Run& run) {
  constexpr int kRounds = 3, kRuns = 3;
  run();  // may load and compile
  const Event begin, end;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    cuda_check(cudaEventRecord(begin.get(), backend.stream()), "cudaEventRecord");
    for (int i = 0; i < kRuns; ++i) run();
    cuda_check(cudaEventRecord(end.get(), backend.stream()), "cudaEventRecord");
    cuda_check(cudaEventSynchronize(end.get()), "a convolution");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    least = std::min(least, static_cast<double>(milliseconds) * 1e-3 / kRuns);
  }
  return least;
}

}  // namespace

std::string DnnConvolutionProblem::family() const {
  return text(to_string(dtype), contiguous_source ? " of contiguous f32" : "",
              transposed ? " transposed " : " ", images, " images ", channels, " to ", outputs,
              " in ", groups, " groups, kernel ", list(kernel), " stride ", list(stride), " pad ",
              list(pad), " dilation ", list(dilation), bias ? ", bias" : "", adds ? ", sum" : "",
              relu ? text(", relu ", *relu) : "", ends_here ? ", first" : "", ", extents ");
}

ChannelRows DnnConvolutionProblem::result() const {
  int64_t rows = images;
  for (const int64_t extent : transposed ? input : output) rows *= extent;
  return {dtype, rows, transposed ? channels : outputs};
}

std::string DnnWay::str() const {
  return text(
      to_string(pass), deep ? " deep" : "", fused ? " fused" : "",
      pass == DnnPass::weights && gradient != DType::f32 ? text(" ", to_string(gradient)) : "", " ",
      candidate->name());
}

DepthMap dnn_weights_map(const DnnConvolutionProblem& problem, bool deep) {
  return map_of(problem, deep);
}

std::vector<DnnWay> dnn_ways(DnnPlans& plans, const DnnConvolutionProblem& problem, DnnPass pass,
                             const DnnRules& rules, std::string& why) {
  std::vector<DnnWay> ways;
  const auto add = [&](bool deep, bool fused, DType gradient) {
    std::string reason;
    const size_t before = ways.size();
    for (const auto& candidate : plans.of(graph_of(problem, pass, deep, fused, gradient), reason)) {
      if (allowed(candidate->notes(), rules))
        ways.push_back({pass, deep, fused, gradient, candidate.get()});
    }
    if (reason.empty() && ways.size() == before)
      reason = "cuDNN has no engine that computes it in f32 sums of one order";
    if (why.empty() && ways.size() == before) why = text(to_string(pass), ": ", reason);
    return ways.size() > before;
  };
  std::vector<bool> forms;  // deep or not
  const bool strides = std::ranges::any_of(problem.stride, [](int64_t s) { return s > 1; });
  const bool deepens = may_deepen(problem) && pass != DnnPass::data;
  if (deepens && strides) forms.push_back(true);
  if (!problem.contiguous_source) forms.push_back(false);
  if (deepens && !strides) forms.push_back(true);
  for (const bool deep : forms) {
    if (pass == DnnPass::weights) {
      if (!add(deep, false, DType::f32) && problem.dtype != DType::f32)
        add(deep, false, problem.dtype);
      continue;
    }
    // Epilogues of the transposed pass are compiled when they are planned: seconds for each.
    if (pass == problem.forward() && problem.has_ends() && !problem.transposed)
      add(deep, true, DType::f32);
    add(deep, false, DType::f32);
  }
  if (!ways.empty()) why.clear();
  return ways;
}

DnnConvolution::DnnConvolution(const DnnConvolutionProblem& problem, const DnnWay& way)
    : problem_(problem), way_(way), map_(map_of(problem, way.deep)) {
  std::string why;
  plan_ = way.candidate->plan(why);
  if (plan_ == nullptr) throw Error(why);
  if (way.deep) {
    pixel_bytes_ = round_up(static_cast<size_t>(problem.images) * map_.deep_pixels() *
                            map_.deep_channels * size_of(problem.dtype));
  }
  if (way.pass == DnnPass::weights) {
    gradient_bytes_ = round_up(static_cast<size_t>(problem.outputs) * map_.deep_weights() *
                               size_of(way.gradient));
  }
}

size_t DnnConvolution::scratch_bytes() const {
  return pixel_bytes_ + gradient_bytes_ + plan_->workspace();
}

const void* DnnConvolution::deepened(CudaBackend& backend, const void* x, void* scratch) const {
  if (!way_.deep) return x;
  const std::vector<int64_t> dims =
      dims_of(problem_.images, problem_.channels, spatial(problem_.input, 1, DepthMap::kAxes));
  const bool contiguous = problem_.contiguous_source;
  PixelStrides strides;
  strides.channel = contiguous ? dims[2] * dims[3] * dims[4] : 1;
  strides.image = problem_.channels * dims[2] * dims[3] * dims[4];
  int64_t stride = contiguous ? 1 : problem_.channels;
  for (size_t a = DepthMap::kAxes; a-- > 0;) {
    strides.axis[a] = stride;
    stride *= dims[a + 2];
  }
  deepen_pixels(backend, map_, problem_.images, strides, contiguous ? DType::f32 : problem_.dtype,
                x, problem_.dtype, scratch);
  return scratch;
}

void DnnConvolution::multiply(CudaBackend& backend, const void* from, const void* weights,
                              const DnnBias& bias, const void* other, void* to, void* scratch) {
  from = deepened(backend, from, scratch);
  const bool data = way_.pass == DnnPass::data;
  DnnPointers pointers = {{data ? kY : kX, const_cast<void*>(from)},
                          {kW, const_cast<void*>(weights)},
                          {data ? kX : kY, to}};
  if (way_.fused) {
    pointers.emplace_back(kBias, const_cast<void*>(bias.fused));
    if (problem_.adds) pointers.emplace_back(kOther, const_cast<void*>(other));
  }
  run_(backend.dnn(), *plan_, pointers, static_cast<std::byte*>(scratch) + pixel_bytes_);
  if (!way_.fused && is_forward() && problem_.has_ends()) {
    finish_rows(backend, problem_.result(), bias.values, problem_.adds ? other : nullptr,
                problem_.relu, to);
  }
}

void DnnConvolution::add_weights_gradient(CudaBackend& backend, const void* x, const void* dy,
                                          float beta, float* dw, void* scratch) {
  x = deepened(backend, x, scratch);
  std::byte* const gradient = static_cast<std::byte*>(scratch) + pixel_bytes_;
  run_(backend.dnn(), *plan_,
       {{kX, const_cast<void*>(x)}, {kY, const_cast<void*>(dy)}, {kW, gradient}},
       gradient + gradient_bytes_);
  add_deep_gradient(backend, map_, problem_.outputs, way_.gradient, gradient, beta, dw);
}

double dnn_measure(CudaBackend& backend, const DnnConvolutionProblem& problem, const DnnWay& way,
                   const DnnRules& rules) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::string why;
  const DnnPlan* const plan = way.candidate->plan(why);
  if (plan == nullptr || plan->workspace() > rules.workspace_limit) return kNever;
  DnnConvolution convolution(problem, way);
  const auto bytes = [](const DnnTensor& tensor) {
    int64_t count = 1;
    for (const int64_t dim : tensor.dims) count *= dim;
    return static_cast<size_t>(count) * sizeof(float);
  };
  const Operands plain(problem, false, problem.dtype), read(problem, way.deep, problem.dtype);
  try {
    const Trial x(backend, bytes(plain.x)), y(backend, bytes(plain.y));
    const Trial other(backend, problem.adds ? bytes(plain.y) : 0);
    const Trial w(backend, bytes(read.w));
    const Trial bias(backend, static_cast<size_t>(problem.result().channels) * sizeof(float));
    const Trial scratch(backend, convolution.scratch_bytes());
    const bool data = way.pass == DnnPass::data;
    return seconds_of(backend, [&] {
      if (way.pass == DnnPass::weights) {
        convolution.add_weights_gradient(backend, x.get(), y.get(), 1, w.get<float>(),
                                         scratch.get());
      } else {
        convolution.multiply(backend, (data ? y : x).get(), w.get(),
                             {bias.get<float>(), bias.get()}, other.get(), (data ? x : y).get(),
                             scratch.get());
      }
    });
  } catch (const Error&) {
    return kNever;  // such as memory that is not there
  }
}

}  // namespace crema
