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
/// Of deepen_pixels(), finish_rows() and add_deep_gradient(), which are measured with the engines.
constexpr int kOwnPasses = 1;

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
    y = dnn_channels_last(kY, p.dtype, dims_of(p.images, p.outputs, p.output), p.y_row);
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
  int64_t id = kFirstBetween;
  if (pass == DnnPass::data) {
    const DnnTensor product = dnn_between(id, operands.x);
    graph.convolve(pass, operands.window, product, operands.w, operands.y);
    graph.relu_gradient(product, dnn_channels_last(kOther, p.dtype, operands.x.dims), *p.undoes,
                        operands.x);
    return graph;
  }
  // The order that the library's own kernels know: product, sum, bias, ReLU.
  const DnnTensor& result = operands.y;
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
  return notes.keeps_f32() && (notes.same_every_time || !rules.deterministic);
}

/// Our own parts of the scratch memory of a way, in front of the plan's.
struct OwnScratch {
  size_t pixels = 0, gradient = 0;

  OwnScratch(const DnnConvolutionProblem& p, const DnnWay& way, const DepthMap& map) {
    if (way.deep) {
      pixels = round_up(static_cast<size_t>(p.images) * map.deep_pixels() * map.deep_channels *
                        size_of(p.dtype));
    }
    if (way.pass == DnnPass::weights) {
      gradient =
          round_up(static_cast<size_t>(p.outputs) * map.deep_weights() * size_of(way.gradient));
    }
  }
};

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

/// Device memory for measuring, of small ordinary numbers: zeros have other times, and so have
/// values that are not finite.
class Trial {
 public:
  Trial(CudaBackend& backend, size_t bytes, DType dtype = DType::f32)
      : backend_(backend), memory_(backend.allocate(bytes)) {
    // In each byte: 0.01 in f16, 0.0115 in bf16 and f32.
    const int ordinary = dtype == DType::f16 ? 0x21 : 0x3c;
    cuda_check(cudaMemsetAsync(memory_, ordinary, bytes, backend.stream()), "cudaMemset");
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
              transposed ? " transposed " : " ", channels, " to ", outputs, " in ", groups,
              " groups, kernel ", list(kernel), " stride ", list(stride), " pad ", list(pad),
              " dilation ", list(dilation), bias ? ", bias" : "", adds ? ", sum" : "",
              relu ? text(", relu ", *relu) : "", ends_here ? ", first" : "",
              undoes ? text(", behind relu ", *undoes) : "",
              y_row > 0 ? text(", in rows of ", y_row) : "", ", extents ");
}

std::vector<int64_t> DnnConvolutionProblem::extents() const {
  std::vector<int64_t> all = {images};
  all.insert(all.end(), input.begin(), input.end());
  return all;
}

ChannelRows DnnConvolutionProblem::result() const {
  if (transposed) return source();
  int64_t rows = images;
  for (const int64_t extent : output) rows *= extent;
  return {dtype, rows, outputs};
}

ChannelRows DnnConvolutionProblem::source() const {
  int64_t rows = images;
  for (const int64_t extent : input) rows *= extent;
  return {dtype, rows, channels};
}

std::string DnnWay::form() const {
  return text(
      to_string(pass), deep ? " deep" : "", fused ? " fused" : "",
      pass == DnnPass::weights && gradient != DType::f32 ? text(" ", to_string(gradient)) : "",
      " ");
}

std::string DnnWay::str() const {
  const bool has_own_passes = deep || !fused;
  return text(form(), candidate->name(), has_own_passes ? text(" @", kOwnPasses) : "");
}

DepthMap dnn_weights_map(const DnnConvolutionProblem& problem, bool deep) {
  return map_of(problem, deep);
}

namespace {

/// The ways of a pass but for their engines, the likely fastest first. Of weights' gradients, that
/// in 16 bits is behind the same one in f32.
std::vector<DnnWay> forms_of(const DnnConvolutionProblem& problem, DnnPass pass) {
  std::vector<bool> depths;
  const bool strides = std::ranges::any_of(problem.stride, [](int64_t s) { return s > 1; });
  const bool deepens = may_deepen(problem) && pass != DnnPass::data;
  if (deepens && strides) depths.push_back(true);
  if (!problem.contiguous_source) depths.push_back(false);
  if (deepens && !strides) depths.push_back(true);
  std::vector<DnnWay> forms;
  for (const bool deep : depths) {
    // Epilogues of the transposed pass are compiled when they are planned: seconds for each.
    if (problem.has_ends(pass) && !problem.transposed) forms.push_back({pass, deep, true});
    forms.push_back({pass, deep});
    if (pass == DnnPass::weights && problem.dtype != DType::f32)
      forms.push_back({pass, deep, false, problem.dtype});
  }
  return forms;
}

}  // namespace

std::vector<DnnWay> dnn_ways(DnnPlans& plans, const DnnConvolutionProblem& problem, DnnPass pass,
                             const DnnRules& rules, std::string& why, DnnSearch search) {
  using Heuristics = DnnPlans::Heuristics;
  std::vector<DnnWay> ways;
  // Returns whether there was one.
  const auto add = [&](DnnWay way, Heuristics heuristics, std::string& reason) {
    const size_t before = ways.size();
    const DnnGraph graph = graph_of(problem, pass, way.deep, way.fused, way.gradient);
    for (auto& candidate : plans.of(graph, heuristics, reason)) {
      if (!allowed(candidate->notes(), rules)) continue;
      way.candidate = std::move(candidate);
      ways.push_back(way);
    }
    if (reason.empty() && ways.size() == before)
      reason = "cuDNN has no engine whose sums have one order";
    return ways.size() > before;
  };
  bool in_f32 = false;  // the form before had a way
  for (const DnnWay& form : forms_of(problem, pass)) {
    const bool rounds = form.gradient != DType::f32;
    if (search == DnnSearch::usual && rounds && in_f32) continue;
    if (search == DnnSearch::rounded_gradients && !rounds) continue;
    std::string reason;
    const bool usual = search != DnnSearch::last_resort && add(form, Heuristics::usual, reason);
    in_f32 = usual || add(form, Heuristics::last_resort, reason);
    if (!in_f32 && why.empty()) why = text(to_string(pass), ": ", reason);
  }
  if (!ways.empty()) why.clear();
  return ways;
}

std::optional<DnnWay> dnn_way(DnnPlans& plans, const DnnConvolutionProblem& problem, DnnPass pass,
                              const DnnRules& rules, const std::string& name, std::string& why) {
  for (DnnWay& way : forms_of(problem, pass)) {
    const std::string form = way.form();
    if (!name.starts_with(form + "engine ")) continue;
    const std::string engine = name.substr(form.size(), name.find(" @") - form.size());
    const DnnGraph graph = graph_of(problem, pass, way.deep, way.fused, way.gradient);
    way.candidate = plans.named(graph, engine, why);
    if (way.candidate != nullptr && allowed(way.candidate->notes(), rules)) return way;
  }
  return std::nullopt;
}

bool dnn_can_run(const DnnConvolutionProblem& problem, const DnnWay& way, const DnnRules& rules,
                 std::string& why) {
  const std::optional<size_t> workspace = way.candidate->workspace(why);
  if (!workspace) return false;
  const OwnScratch own(problem, way, map_of(problem, way.deep));
  const size_t bytes = own.pixels + own.gradient + *workspace;
  if (bytes <= rules.workspace_limit) return true;
  constexpr int kBitsOfMiB = 20;
  why = text(to_string(way.pass), ": it takes ", (bytes >> kBitsOfMiB) + 1,
             " MiB of scratch memory, and workspace_limit of the net is ",
             rules.workspace_limit >> kBitsOfMiB, " MiB");
  return false;
}

DnnConvolution::DnnConvolution(const DnnConvolutionProblem& problem, const DnnWay& way)
    : problem_(problem), way_(way), map_(map_of(problem, way.deep)) {
  std::string why;
  plan_ = way.candidate->plan(why);
  if (plan_ == nullptr) throw Error(why);
  const OwnScratch own(problem, way, map_);
  pixel_bytes_ = own.pixels;
  gradient_bytes_ = own.gradient;
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
  const bool undoes = problem_.undoes && !is_forward();
  if (way_.fused && !undoes) pointers.emplace_back(kBias, const_cast<void*>(bias.fused));
  if (way_.fused && (undoes || problem_.adds))
    pointers.emplace_back(kOther, const_cast<void*>(other));
  run_(backend.dnn(), *plan_, pointers, static_cast<std::byte*>(scratch) + pixel_bytes_);
  if (way_.fused) return;
  if (undoes) {
    undo_and_sum_rows(backend, problem_.source(), to, other, problem_.undoes, to, 0, nullptr);
  } else if (is_forward() && problem_.has_ends()) {
    finish_rows(backend, problem_.result(), bias.values, problem_.adds ? other : nullptr,
                problem_.relu, to, problem_.y_row);
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
  if (!dnn_can_run(problem, way, rules, why)) return kNever;
  const auto count = [](const DnnTensor& tensor) {
    return static_cast<size_t>(tensor.dims[0] * tensor.strides[0]);
  };
  const Operands plain(problem, false, problem.dtype), read(problem, way.deep, problem.dtype);
  const DType of_x = problem.contiguous_source ? DType::f32 : problem.dtype;
  const size_t size = size_of(problem.dtype);
  const bool data = way.pass == DnnPass::data, weights = way.pass == DnnPass::weights;
  try {
    DnnConvolution convolution(problem, way);
    const Trial x(backend, count(plain.x) * size_of(of_x), of_x);
    const Trial y(backend, count(plain.y) * size, problem.dtype);
    const bool undoes = problem.undoes && way.pass != problem.forward();
    const Trial other(backend,
                      undoes         ? problem.source().count() * size
                      : problem.adds ? problem.result().count() * size
                                     : 0,
                      problem.dtype);
    // The weights that the library reads, or the gradient of the parameter.
    const Trial w(backend, weights ? count(plain.w) * sizeof(float) : count(read.w) * size,
                  weights ? DType::f32 : problem.dtype);
    const Trial bias(backend, static_cast<size_t>(problem.result().channels) * sizeof(float),
                     problem.dtype);
    const Trial scratch(backend, convolution.scratch_bytes(), problem.dtype);
    return seconds_of(backend, [&] {
      if (weights) {
        convolution.add_weights_gradient(backend, x.get(), y.get(), 1, w.get<float>(),
                                         scratch.get());
      } else {
        convolution.multiply(backend, (data ? y : x).get(), w.get(),
                             {bias.get<float>(), bias.get()}, other.get(), (data ? x : y).get(),
                             scratch.get());
      }
    });
  } catch (const Error&) {
    // Such as memory that is not there. A device that is out of order says so.
    backend.synchronize();
    return kNever;
  }
}

}  // namespace crema
