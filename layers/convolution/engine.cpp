#include "layers/convolution/engine.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>

#include "backend/cpu/gathered.hpp"
#include "core/published_engine.hpp"
#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "kit/tuning.hpp"
#include "layers/convolution/convolution.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr const char* kTuned = "tuned";
/// Bottoms with at most this many channels, such as images, have much padding in a blocked format.
/// They stay contiguous or channels-last in front of a blocked top.
constexpr int64_t kFewChannels = 4;
/// A pair of formats that is slower than the best one by this factor is not measured further; the
/// seconds of its other passes are estimated.
constexpr double kHopeless = 2;

std::vector<std::unique_ptr<ConvolutionLibrary>>& library_list() {
  static std::vector<std::unique_ptr<ConvolutionLibrary>> list;
  return list;
}

ConvolutionLayer& convolution(Layer& layer) { return static_cast<ConvolutionLayer&>(layer); }

ConvolutionAlgorithm algorithm_of(const Layer& layer) {
  const ConvolutionParameter& settings = layer.param().convolution_param();
  // The default of the field, "direct", is that of a fork. Here it means no restriction.
  if (!settings.has_conv_algorithm() || settings.conv_algorithm() == "auto") {
    return ConvolutionAlgorithm::any;
  }
  if (settings.conv_algorithm() == "direct") return ConvolutionAlgorithm::direct;
  if (settings.conv_algorithm() != "winograd")
    throw Error("conv_algorithm '", settings.conv_algorithm(),
                "' is unknown; use auto, direct or winograd");
  return ConvolutionAlgorithm::winograd;
}

/// The convolution that the layer computes, or whose transposed one it computes. `from`, `to`: the
/// formats of bottoms and tops.
ConvolutionProblem problem_of(ConvolutionLayer& layer, Blobs bottom, Blobs top, Format from,
                              Format to) {
  const ConvolutionGeometry& g = layer.geometry();
  const bool transposed = g.transposed();
  return {.source = (transposed ? top : bottom)[0]->shape(),
          .target = (transposed ? bottom : top)[0]->shape(),
          .kernel = g.kernel,
          .stride = g.stride,
          .pad = g.pad,
          .dilation = g.dilation,
          .groups = g.groups,
          .bias = layer.bias() != nullptr && !transposed,
          .source_format = transposed ? to : from,
          .target_format = transposed ? from : to,
          .adds = layer.summand(bottom) != nullptr,
          .relu = transposed ? std::nullopt : layer.relu(),
          .training = layer.trains()};
}

/// Of the layer's own bottoms: as many as it has tops.
bool any_propagates(const Layer& layer, Blobs top) {
  for (size_t i = 0; i < top.size(); ++i) {
    if (layer.propagates(static_cast<int>(i))) return true;
  }
  return false;
}

/// The passes of the problem that the net runs, that of the layer's forward first.
std::vector<ConvolutionPass> passes_of(ConvolutionLayer& layer, Blobs top) {
  ConvolutionPass forward = ConvolutionPass::forward, backward = ConvolutionPass::backward_data;
  if (layer.geometry().transposed()) std::swap(forward, backward);
  std::vector<ConvolutionPass> passes = {forward};
  if (any_propagates(layer, top)) passes.push_back(backward);
  if (layer.trains() && layer.weights().needs_gradient) {
    passes.push_back(ConvolutionPass::backward_weights);
  }
  return passes;
}

ConvolutionWeights weights_of(ConvolutionLayer& layer) {
  const Parameter& weights = layer.weights();
  return {weights.data.host<float>(), layer.trains() ? nullptr : &weights.values()};
}

/// Formats of bottoms and tops.
std::vector<std::pair<Format, Format>> format_pairs(const ConvolutionGeometry& geometry) {
  const Format blocked = simd_level() == SimdLevel::avx512 ? Format::blocked16 : Format::blocked8;
  std::vector<std::pair<Format, Format>> pairs;  // of the problem's source and target
  if (geometry.channels <= kFewChannels) {
    for (const Format source : {Format::contiguous, Format::channels_last}) {
      pairs.emplace_back(source, blocked);
      if (source != Format::channels_last) pairs.emplace_back(source, Format::channels_last);
    }
  }
  for (const Format same : {blocked, Format::channels_last, Format::contiguous}) {
    pairs.emplace_back(same, same);
  }
  if (geometry.transposed()) {
    for (auto& [from, to] : pairs) std::swap(from, to);
  }
  return pairs;
}

/// The reason why no library can compute this problem; "" if there is none.
std::string refusal(ConvolutionLayer& layer, Blobs bottom) {
  const Shape& shape = bottom[0]->shape();
  if (layer.dtype() != DType::f32) {
    return concat("it computes in f32, the net in ", to_string(layer.dtype()));
  }
  if (layer.geometry().axis != 1) {
    return concat("it wants the channels at axis 1, they are at ", layer.geometry().axis);
  }
  if (shape.rank() < 3 || shape.rank() > 5) {
    return concat("it takes 1 to 3 spatial axes, the bottom is ", shape.str());
  }
  if (shape.count() == 0) return concat("the bottom, ", shape.str(), ", is empty");
  return {};
}

}  // namespace

void add_convolution_library(Registry& registry, std::unique_ptr<ConvolutionLibrary> library,
                             bool preferred) {
  const ConvolutionLibrary* const added = library.get();
  auto& list = library_list();
  list.insert(preferred ? list.begin() : list.end(), std::move(library));
  for (const char* type : kConvolutionTypes) {
    registry.add_engine(type, {added->name(), DeviceType::cpu,
                               [added] { return std::make_unique<ConvolutionEngine>(added); }});
  }
}

const std::vector<std::unique_ptr<ConvolutionLibrary>>& convolution_libraries() {
  return library_list();
}

void register_convolution_engines(Registry& registry) {
  for (const char* type : kConvolutionTypes) {
    registry.add_engine(type, {kTuned, DeviceType::cpu,
                               [] { return std::make_unique<ConvolutionEngine>(nullptr); }});
  }
}

/// Tensors for measuring, allocated at the first measurement.
class ConvolutionEngine::Trial {
 public:
  explicit Trial(const ConvolutionProblem& problem) : problem_(problem) {}

  void run(ConvolutionPrimitive& primitive, ConvolutionPass pass) {
    need();
    const float* const bias = problem_.bias ? bias_.host<float>() : nullptr;
    switch (pass) {
      case ConvolutionPass::forward:
        return primitive.forward(source_.host<float>(), weights(), bias, target_.host_mut<float>());
      case ConvolutionPass::backward_data:
        return primitive.backward_data(target_.host<float>(), weights(), source_.host_mut<float>());
      case ConvolutionPass::backward_weights:
        return primitive.backward_weights(source_.host<float>(), target_.host<float>(), false,
                                          gradient_.host_mut<float>(), false,
                                          problem_.bias ? bias_.host_mut<float>() : nullptr);
    }
  }

 private:
  void need() {
    if (source_.has_memory()) return;
    constexpr double kOrdinary = 0.01;  // zeros and denormals may have other times
    const auto fill = [](Tensor& tensor, int64_t count) {
      tensor = Tensor(Shape{count});
      tensor.fill(kOrdinary);
    };
    // Large enough for every format.
    fill(source_, storage_count(problem_.source, Format::blocked16));
    fill(target_, storage_count(problem_.target, Format::blocked16));
    fill(gradient_, problem_.weights().count());
    fill(bias_, problem_.target[1]);
    Tensor values;
    fill(values, problem_.weights().count());
    storage_ = std::make_unique<ParameterStorage>(values, Tensor());
  }

  ConvolutionWeights weights() const {
    return {storage_->data().host<float>(), problem_.training ? nullptr : storage_.get()};
  }

  ConvolutionProblem problem_;
  Tensor source_{Shape{0}}, target_{Shape{0}}, gradient_{Shape{0}}, bias_{Shape{0}};
  std::unique_ptr<ParameterStorage> storage_;
};

std::string ConvolutionEngine::name() const { return library_ ? library_->name() : kTuned; }

std::vector<ConvolutionEngine::Candidate> ConvolutionEngine::candidates(
    const ConvolutionProblem& problem, ConvolutionPass pass, std::string& why) const {
  std::vector<Candidate> found;
  const std::optional<ConvolutionProblem> gathered = gathered_problem(problem);
  for (const auto& library : convolution_libraries()) {
    if (library_ != nullptr && library.get() != library_) continue;
    for (auto& name : library->implementations(problem, pass, algorithm_, why)) {
      found.push_back({library.get(), std::move(name)});
    }
    if (!gathered) continue;
    for (auto& name : library->implementations(*gathered, pass, algorithm_, why)) {
      found.push_back({library.get(), std::move(name), true});
    }
  }
  return found;
}

std::string ConvolutionEngine::Candidate::key() const {
  return concat(str(), " @", library->revision(), gathered ? concat("+", kGatheredRevision) : "");
}

std::unique_ptr<ConvolutionPrimitive> ConvolutionEngine::Candidate::make(
    const ConvolutionProblem& problem, ConvolutionPass pass) const {
  if (!gathered) return library->make(problem, pass, implementation);
  return with_gathered_pixels(problem,
                              library->make(*gathered_problem(problem), pass, implementation));
}

TunedProblem ConvolutionEngine::tuned(const ConvolutionProblem& problem,
                                      ConvolutionPass pass) const {
  constexpr const char* kAlgorithms[] = {"", " direct", " winograd"};  // ConvolutionAlgorithm
  const std::vector<int64_t> dims = problem.source.dims();
  return {concat("convolution ", name(), kAlgorithms[static_cast<size_t>(algorithm_)], " ",
                 to_string(pass), " ", omp_get_max_threads(), "t ", problem.family()),
          Shape(std::vector<int64_t>(dims.begin() + 2, dims.end()))};
}

std::optional<ConvolutionEngine::Choice> ConvolutionEngine::choose(
    ConvolutionLayer& layer, const ConvolutionProblem& problem, ConvolutionPass pass, Trial& trial,
    double time_limit, std::string& why) const {
  const std::vector<Candidate> found = candidates(problem, pass, why);
  if (found.empty()) return std::nullopt;
  std::unique_ptr<ConvolutionPrimitive> primitive;  // of the candidate that is measured
  const Candidate* made = nullptr;
  std::vector<TunedCandidate> tuned_candidates;
  for (const Candidate& candidate : found) {
    tuned_candidates.push_back({candidate.key(), [&] {
                                  if (made != &candidate) primitive = candidate.make(problem, pass);
                                  made = &candidate;
                                  trial.run(*primitive, pass);
                                }});
  }
  const TunedChoice choice =
      choose_candidate(layer.context(), tuned(problem, pass), tuned_candidates, time_limit);
  return Choice{found[choice.candidate], choice.seconds};
}

std::vector<Option> ConvolutionEngine::options(Layer& layer, Blobs bottom, Blobs top,
                                               std::string& why) {
  ConvolutionLayer& conv = convolution(layer);
  const std::string own = own_engine(layer.param());
  const std::string& forced = own.empty() ? layer.context().engine() : own;
  if (library_ != nullptr && forced != name()) {
    why = concat("it serves only where engine '", name(), "' is asked for");
    return {};
  }
  why = refusal(conv, bottom);
  if (!why.empty()) return {};
  algorithm_ = algorithm_of(layer);

  std::vector<Option> found;
  const std::vector<ConvolutionPass> passes = passes_of(conv, top);
  double best = 0;
  std::array<double, 3> fastest;  // of each pass, in any formats
  fastest.fill(std::numeric_limits<double>::infinity());
  for (const auto& [from, to] : format_pairs(conv.geometry())) {
    const ConvolutionProblem problem = problem_of(conv, bottom, top, from, to);
    Trial trial(problem);
    Option option = uniform_option(bottom, top, DType::f32, from, to);
    // A summand lies as the top does.
    for (size_t i = top.size(); i < bottom.size(); ++i) option.bottoms[i] = option.tops[0];
    bool possible = true, hopeless = false;
    double measured = 0;
    for (const ConvolutionPass pass : passes) {
      std::string reason;
      if (hopeless) {
        possible = possible && !candidates(problem, pass, reason).empty();
        option.choice.emplace_back();
      } else if (const auto choice = choose(conv, problem, pass, trial,
                                            fastest[static_cast<size_t>(pass)], reason)) {
        double& known = fastest[static_cast<size_t>(pass)];
        known = std::min(known, choice->seconds);
        option.seconds += choice->seconds * static_cast<double>(top.size());
        option.choice.push_back(choice->candidate.key());
        measured += 1;
        hopeless = best > 0 && option.seconds > kHopeless * best;
      } else {
        possible = false;
      }
      if (!possible && why.empty()) why = concat(to_string(pass), ": ", reason);
      if (!possible) break;
    }
    if (!possible) continue;
    // Passes that were not measured count with the mean of the measured ones.
    option.seconds *= static_cast<double>(passes.size()) / measured;
    if (best == 0 || option.seconds < best) best = option.seconds;
    found.push_back(option);
  }
  return found;
}

std::unique_ptr<ConvolutionPrimitive> ConvolutionEngine::take(ConvolutionLayer& layer,
                                                              const ConvolutionProblem& problem,
                                                              ConvolutionPass pass,
                                                              const std::string& choice) {
  std::string why;
  std::optional<Candidate> taken;
  for (Candidate& candidate : candidates(problem, pass, why)) {
    if (!choice.empty() && candidate.key() == choice) taken = std::move(candidate);
  }
  if (!taken) {
    Trial trial(problem);
    constexpr double kNoRival = std::numeric_limits<double>::infinity();
    const auto best = choose(layer, problem, pass, trial, kNoRival, why);
    if (!best.has_value())
      throw Error("engine '", name(), "' cannot compute ", problem.key(), " ", to_string(pass),
                  ": ", why);
    taken = best->candidate;
  }
  layer.context().tuner().choose(tuned(problem, pass).name(), taken->key());
  detail_ += concat(detail_.empty() ? "" : ", ", to_string(pass), " ", taken->str());
  return taken->make(problem, pass);
}

void ConvolutionEngine::prepare(Layer& layer, const Option& option, Blobs bottom, Blobs top) {
  ConvolutionLayer& conv = convolution(layer);
  algorithm_ = algorithm_of(layer);
  detail_.clear();
  conv.prepare_engine(top);
  primitives_ = {};
  // Where shapes follow from values, they may have no elements.
  if (top[0]->count() == 0) return;
  const ConvolutionProblem problem =
      problem_of(conv, bottom, top, bottom[0]->data.format(), top[0]->data.format());
  const std::vector<ConvolutionPass> passes = passes_of(conv, top);
  for (size_t i = 0; i < passes.size(); ++i) {
    const ConvolutionPass pass = passes[i];
    primitive(pass) = take(conv, problem, pass, i < option.choice.size() ? option.choice[i] : "");
  }
  if (primitive(ConvolutionPass::backward_weights) && problem.bias &&
      !conv.bias()->needs_gradient) {
    unwanted_bias_ = Tensor(conv.bias()->shape());
  }
}

void ConvolutionEngine::resume(Layer& layer, Blobs, Blobs top) {
  convolution(layer).prepare_engine(top);
}

void ConvolutionEngine::multiply(ConvolutionPass pass, ConvolutionLayer& layer, const Tensor& from,
                                 Tensor& to) {
  const auto& made = primitive(pass);
  if (made == nullptr) throw Error("was prepared for a backward pass without bottom diffs");
  const ConvolutionWeights weights = weights_of(layer);
  if (pass == ConvolutionPass::backward_data) {
    return made->backward_data(from.host<float>(), weights, to.host_overwrite<float>());
  }
  // The problem has a bias where it is the layer's own: not that of a gradient.
  const bool transposed = layer.geometry().transposed();
  const float* const bias =
      layer.bias() && !transposed ? layer.bias()->data.host<float>() : nullptr;
  made->forward(from.host<float>(), weights, bias, to.host_mut<float>());
}

void ConvolutionEngine::forward(Layer& layer, Blobs bottom, Blobs top) {
  ConvolutionLayer& conv = convolution(layer);
  const bool transposed = conv.geometry().transposed();
  const ConvolutionPass pass =
      transposed ? ConvolutionPass::backward_data : ConvolutionPass::forward;
  if (!primitive(pass)) return;
  conv.begin_forward(bottom, top);
  for (size_t i = 0; i < top.size(); ++i) {
    multiply(pass, conv, bottom[i]->data, top[i]->data);
    if (transposed) conv.finish(Side(), top[i]->data);
  }
}

void ConvolutionEngine::backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                                 Blobs bottom) {
  ConvolutionLayer& conv = convolution(layer);
  const bool transposed = conv.geometry().transposed();
  if (!primitive(transposed ? ConvolutionPass::backward_data : ConvolutionPass::forward)) return;
  conv.undo_relu(Side(), top);
  const bool want_bias = conv.bias() && conv.bias()->needs_gradient;
  const auto& gradient = primitive(ConvolutionPass::backward_weights);
  if (want_bias && (transposed || !gradient)) conv.backward_bias(Side(), top);
  if (gradient) {
    bool add_weights = conv.weights().begin_gradient() != 0;
    bool add_bias = want_bias && !transposed && conv.bias()->begin_gradient() != 0;
    float* const dw = conv.weights().diff.host_mut<float>();
    float* const db = conv.bias() && !transposed
                          ? (want_bias ? conv.bias()->diff : unwanted_bias_).host_mut<float>()
                          : nullptr;
    for (size_t i = 0; i < top.size(); ++i) {
      const Tensor &of_bottom = bottom[i]->data, &of_top = conv.sums_diff(top, i);
      gradient->backward_weights((transposed ? of_top : of_bottom).host<float>(),
                                 (transposed ? of_bottom : of_top).host<float>(), add_weights, dw,
                                 add_bias, db);
      add_weights = true;
      add_bias = want_bias;
    }
  }
  for (size_t i = 0; i < top.size(); ++i) {
    if (!propagate[i]) continue;
    multiply(transposed ? ConvolutionPass::forward : ConvolutionPass::backward_data, conv,
             conv.sums_diff(top, i), bottom[i]->diff);
  }
  conv.pass_to_summand(top, propagate, bottom);
}

size_t ConvolutionEngine::extra_bytes() const {
  size_t bytes = 0;
  for (const auto& made : primitives_) {
    if (made) bytes += made->kept_bytes();
  }
  return bytes;
}

void ConvolutionEngine::plan_scratch(ScratchPlan& plan) const {
  for (const auto& made : primitives_) {
    if (made) made->plan_scratch(plan);
  }
}

std::string ConvolutionEngine::detail() const { return detail_; }

}  // namespace crema
