#include "layers/convolution/engine.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backend/cpu/gathered.hpp"
#include "core/published_engine.hpp"
#include "core/row_ranges.hpp"
#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "layer_support/tuning.hpp"
#include "layers/convolution/convolution.hpp"
#include "layers/convolution/ends.hpp"
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
ConvolutionProblem problem_of(const ConvolutionLayer& layer, Blobs bottom, Blobs top, Format from,
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
          .bias = layer.has_bias() && !transposed,
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
std::vector<ConvolutionPass> passes_of(const ConvolutionLayer& layer, Blobs top) {
  ConvolutionPass forward = ConvolutionPass::forward, backward = ConvolutionPass::backward_data;
  if (layer.geometry().transposed()) std::swap(forward, backward);
  std::vector<ConvolutionPass> passes = {forward};
  if (any_propagates(layer, top)) passes.push_back(backward);
  if (layer.trains() && layer.params()[0]->needs_gradient) {
    passes.push_back(ConvolutionPass::backward_weights);
  }
  return passes;
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
std::string refusal(const ConvolutionLayer& layer, Blobs bottom) {
  const Shape& shape = bottom[0]->shape();
  if (layer.dtype() != DType::f32) {
    return text("it computes in f32, the net in ", to_string(layer.dtype()));
  }
  if (layer.geometry().axis != 1) {
    return text("it wants the channels at axis 1, they are at ", layer.geometry().axis);
  }
  if (shape.rank() < 3 || shape.rank() > 5) {
    return text("it takes 1 to 3 spatial axes, the bottom is ", shape.str());
  }
  if (shape.count() == 0) return text("the bottom, ", shape.str(), ", is empty");
  return {};
}

/// Tensors for measuring, allocated at the first measurement.
class Trial {
 public:
  explicit Trial(const ConvolutionProblem& problem) : problem_(problem) {}

  void run(ConvolutionPrimitive& primitive, ConvolutionPass pass) {
    need();
    const float* const bias = problem_.bias ? bias_.read<float>() : nullptr;
    switch (pass) {
      case ConvolutionPass::forward:
        return primitive.forward(source_.read<float>(), weights(), bias, target_.change<float>());
      case ConvolutionPass::backward_data:
        return primitive.backward_data(target_.read<float>(), weights(), source_.change<float>());
      case ConvolutionPass::backward_weights:
        return primitive.backward_weights(source_.read<float>(), target_.read<float>(), false,
                                          gradient_.change<float>(), false,
                                          problem_.bias ? bias_.change<float>() : nullptr);
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
    return {storage_->data().read<float>(), problem_.training ? nullptr : storage_.get()};
  }

  ConvolutionProblem problem_;
  Tensor source_{Shape{0}}, target_{Shape{0}}, gradient_{Shape{0}}, bias_{Shape{0}};
  std::unique_ptr<ParameterStorage> storage_;
};

/// A primitive that computes a pass of a problem.
struct Candidate {
  const ConvolutionLibrary* library;
  std::string implementation;
  bool gathered = false;  // for the gathered problem, see gathered.hpp

  std::string str() const {
    return library->name() + (gathered ? " gathered " : " ") + implementation;
  }
  /// Its name in the tuner: str(), and the revisions of the code that computes it.
  std::string key() const {
    return text(str(), " @", library->revision(), gathered ? text("+", kGatheredRevision) : "");
  }
  std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                             ConvolutionPass pass) const {
    if (!gathered) return library->make(problem, pass, implementation);
    return with_gathered_pixels(problem,
                                library->make(*gathered_problem(problem), pass, implementation));
  }
};

struct Choice {
  Candidate candidate;
  double seconds = 0;
};

/// Chooses among the primitives of an engine for one layer.
class Chooser {
 public:
  Chooser(std::string engine, std::vector<const ConvolutionLibrary*> libraries,
          const ConvolutionLayer& layer)
      : engine_(std::move(engine)),
        libraries_(std::move(libraries)),
        layer_(layer),
        algorithm_(algorithm_of(layer)) {}

  std::vector<Candidate> candidates(const ConvolutionProblem& problem, ConvolutionPass pass,
                                    std::string& why) const {
    std::vector<Candidate> found;
    const std::optional<ConvolutionProblem> gathered = gathered_problem(problem);
    for (const ConvolutionLibrary* library : libraries_) {
      for (auto& name : library->implementations(problem, pass, algorithm_, why)) {
        found.push_back({library, std::move(name)});
      }
      if (!gathered) continue;
      for (auto& name : library->implementations(*gathered, pass, algorithm_, why)) {
        found.push_back({library, std::move(name), true});
      }
    }
    return found;
  }

  /// The choice among all candidates (layer_support/tuning.hpp). None if there is no candidate;
  /// `why` is then set to the reason.
  std::optional<Choice> choose(const ConvolutionProblem& problem, ConvolutionPass pass,
                               Trial& trial, double time_limit, std::string& why) const {
    const std::vector<Candidate> found = candidates(problem, pass, why);
    if (found.empty()) return std::nullopt;
    std::unique_ptr<ConvolutionPrimitive> primitive;  // of the candidate that is measured
    const Candidate* made = nullptr;
    std::vector<TunedCandidate> tuned_candidates;
    for (const Candidate& candidate : found) {
      tuned_candidates.push_back({candidate.key(), [&] {
                                    if (made != &candidate)
                                      primitive = candidate.make(problem, pass);
                                    made = &candidate;
                                    trial.run(*primitive, pass);
                                  }});
    }
    const TunedChoice choice =
        choose_candidate(layer_.context(), tuned(problem, pass), tuned_candidates, time_limit);
    return Choice{found[choice.candidate], choice.seconds};
  }

  /// The candidate of a pass to run. `choice`: the key of a candidate in Option::choice, or "" if
  /// the pass was not measured for that option.
  Candidate take(const ConvolutionProblem& problem, ConvolutionPass pass,
                 const std::string& choice) const {
    std::string why;
    std::optional<Candidate> taken;
    for (Candidate& candidate : candidates(problem, pass, why)) {
      if (!choice.empty() && candidate.key() == choice) taken = std::move(candidate);
    }
    if (!taken) {
      Trial trial(problem);
      constexpr double kNoRival = std::numeric_limits<double>::infinity();
      const auto best = choose(problem, pass, trial, kNoRival, why);
      if (!best.has_value())
        throw Error("engine '", engine_, "' cannot compute ", problem.key(), " ", to_string(pass),
                    ": ", why);
      taken = best->candidate;
    }
    layer_.context().tuner().choose(tuned(problem, pass).name(), taken->key());
    return std::move(*taken);
  }

 private:
  /// The problem of a pass, for the tuner.
  TunedProblem tuned(const ConvolutionProblem& problem, ConvolutionPass pass) const {
    constexpr const char* kAlgorithms[] = {"", " direct", " winograd"};  // ConvolutionAlgorithm
    const std::vector<int64_t> dims = problem.source.dims();
    return {text("convolution ", engine_, kAlgorithms[static_cast<size_t>(algorithm_)], " ",
                 to_string(pass), " ", omp_get_max_threads(), "t ", problem.family()),
            Shape(std::vector<int64_t>(dims.begin() + 2, dims.end()))};
  }

  std::string engine_;
  std::vector<const ConvolutionLibrary*> libraries_;
  const ConvolutionLayer& layer_;
  ConvolutionAlgorithm algorithm_;
};

/// Runs the primitives that a Chooser takes.
class ConvolutionKernel : public Kernel, public WritesRanges {
 public:
  ConvolutionKernel(ConvolutionLayer& layer, const Chooser& chooser,
                    const std::vector<std::string>& choice, Blobs bottom, Blobs top)
      : Kernel(layer), layer_(layer), chooser_(chooser), ends_(layer), tops_(top.size()) {
    ends_.fit(top);
    // Where shapes follow from values, they may have no elements.
    if (top[0]->count() == 0) return;
    problem_ = problem_of(layer, bottom, top, bottom[0]->data.format(), top[0]->data.format());
    const std::vector<ConvolutionPass> passes = passes_of(layer, top);
    for (size_t i = 0; i < passes.size(); ++i) {
      const ConvolutionPass pass = passes[i];
      const Candidate taken = chooser.take(problem_, pass, i < choice.size() ? choice[i] : "");
      detail_ += text(detail_.empty() ? "" : ", ", to_string(pass), " ", taken.str());
      taken_.emplace_back(pass, taken.key());
      primitive(pass) = taken.make(problem_, pass);
    }
    if (primitive(ConvolutionPass::backward_weights) && problem_.bias &&
        !ends_.bias()->needs_gradient) {
      unwanted_bias_ = Tensor(ends_.bias()->shape());
    }
  }

  void forward(Blobs bottom, Blobs top) override {
    const bool transposed = layer_.geometry().transposed();
    const ConvolutionPass pass =
        transposed ? ConvolutionPass::backward_data : ConvolutionPass::forward;
    if (!primitive(pass)) return;
    ends_.fold(ComputeDevice());
    ends_.take_summand(ComputeDevice(), bottom, top);
    for (size_t i = 0; i < top.size(); ++i) {
      multiply(pass, bottom[i]->data, top[i]->data);
      if (transposed) ends_.finish(ComputeDevice(), top[i]->data);
    }
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    const bool transposed = layer_.geometry().transposed();
    if (!primitive(transposed ? ConvolutionPass::backward_data : ConvolutionPass::forward)) return;
    ends_.undo_relu(ComputeDevice(), top);
    Parameter &weights = ends_.weights(), *const bias = ends_.bias();
    const bool want_bias = bias != nullptr && bias->needs_gradient;
    if (want_bias && (transposed || !primitive(ConvolutionPass::backward_weights)))
      ends_.backward_bias(ComputeDevice(), top);
    if (primitive(ConvolutionPass::backward_weights)) {
      bool add_weights = weights.begin_gradient() != 0;
      bool add_bias = want_bias && !transposed && bias->begin_gradient() != 0;
      float* const dw = weights.diff.change<float>();
      float* const db = bias != nullptr && !transposed
                            ? (want_bias ? bias->diff : unwanted_bias_).change<float>()
                            : nullptr;
      for (size_t i = 0; i < top.size(); ++i) {
        const Tensor &of_bottom = bottom[i]->data, &of_top = ends_.sums_diff(top, i);
        primitive(ConvolutionPass::backward_weights, of_top)
            ->backward_weights(values_of(transposed ? of_top : of_bottom),
                               values_of(transposed ? of_bottom : of_top), add_weights, dw,
                               add_bias, db);
        add_weights = true;
        add_bias = want_bias;
      }
    }
    for (size_t i = 0; i < top.size(); ++i) {
      if (!propagate[i]) continue;
      multiply(transposed ? ConvolutionPass::forward : ConvolutionPass::backward_data,
               ends_.sums_diff(top, i), bottom[i]->diff);
    }
    ends_.pass_to_summand(ComputeDevice(), top, propagate, bottom);
  }

  size_t bytes() const override {
    size_t bytes = ends_.bytes() + unwanted_bias_.bytes();
    // What is derived from weights is the same for tops that are ranges.
    for (const auto& made : primitives_) {
      if (made) bytes += made->kept_bytes();
    }
    return bytes;
  }
  void plan_scratch(ScratchPlan& plan) const override {
    for (const auto* primitives : {&primitives_, &in_ranges_}) {
      for (const auto& made : *primitives) {
        if (made) made->plan_scratch(plan);
      }
    }
  }
  std::string detail() const override { return detail_; }
  /// By the implementations of the dense passes, where these can. A range is then a batch of whole
  /// images.
  bool take_ranges(size_t, size_t stride) override {
    const bool sums_bias_alone = layer_.trains() && ends_.bias() != nullptr &&
                                 ends_.bias()->needs_gradient &&
                                 !primitive(ConvolutionPass::backward_weights);
    if (tops_ != 1 || taken_.empty() || layer_.geometry().transposed() || problem_.adds ||
        problem_.target_format == Format::channels_last || sums_bias_alone)
      return false;
    ConvolutionProblem problem = problem_;
    problem.target_image = static_cast<int64_t>(stride / sizeof(float));
    Primitives made;
    for (const auto& [pass, key] : taken_) {
      std::string why;
      const std::vector<Candidate> all = chooser_.candidates(problem, pass, why);
      const auto same = std::ranges::find(all, key, &Candidate::key);
      if (same == all.end()) return false;
      made[static_cast<size_t>(pass)] = same->make(problem, pass);
    }
    in_ranges_ = std::move(made);
    return true;
  }

 private:
  using Primitives = std::array<std::unique_ptr<ConvolutionPrimitive>, 3>;
  /// That of a pass of the problem; null if the net does not run it.
  std::unique_ptr<ConvolutionPrimitive>& primitive(ConvolutionPass pass) {
    return primitives_[static_cast<size_t>(pass)];
  }
  /// That for the top, or its diff, as it lies.
  std::unique_ptr<ConvolutionPrimitive>& primitive(ConvolutionPass pass, const Tensor& of_top) {
    return (of_top.row_stride() == 0 ? primitives_ : in_ranges_)[static_cast<size_t>(pass)];
  }
  static const float* values_of(const Tensor& tensor) {
    return static_cast<const float*>(tensor.read_rows());
  }

  /// Runs pass `forward` or `backward_data` of the problem.
  void multiply(ConvolutionPass pass, const Tensor& from, Tensor& to) {
    const auto& made = primitive(pass, pass == ConvolutionPass::forward ? to : from);
    if (made == nullptr) throw Error("has a kernel for a backward pass without bottom diffs");
    Parameter& parameter = ends_.weights();
    const ConvolutionWeights weights{parameter.data.read<float>(),
                                     layer_.trains() ? nullptr : &parameter.values()};
    if (pass == ConvolutionPass::backward_data) {
      return made->backward_data(values_of(from), weights, to.overwrite<float>());
    }
    // The problem has a bias where it is the layer's own: not that of a gradient.
    const Parameter* const bias = layer_.geometry().transposed() ? nullptr : ends_.bias();
    float* const y =
        to.row_stride() == 0 ? to.change<float>() : static_cast<float*>(to.overwrite_rows());
    made->forward(values_of(from), weights, bias != nullptr ? bias->data.read<float>() : nullptr,
                  y);
  }

  ConvolutionLayer& layer_;
  Chooser chooser_;
  ConvolutionEnds ends_;
  size_t tops_;
  ConvolutionProblem problem_;
  std::vector<std::pair<ConvolutionPass, std::string>> taken_;  // keys of candidates
  Primitives primitives_, in_ranges_;                           // see primitive()
  std::string detail_;
  // (O), for primitives that always write dbias, if the bias needs none
  Tensor unwanted_bias_{Shape{0}};
};

class ConvolutionEngine : public Engine {
 public:
  /// `library` null: the engine "tuned".
  explicit ConvolutionEngine(std::shared_ptr<const ConvolutionLibrary> library,
                             bool preferred = false)
      : library_(std::move(library)), preferred_(preferred) {}

  const ConvolutionLibrary* library() const { return library_.get(); }
  bool preferred() const { return preferred_; }

  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& why) const override;
  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs bottom,
                               Blobs top) const override {
    auto& conv = static_cast<ConvolutionLayer&>(layer);
    return std::make_unique<ConvolutionKernel>(conv, chooser(conv), option.choice, bottom, top);
  }

 private:
  std::string name() const { return library_ ? library_->name() : kTuned; }
  Chooser chooser(const ConvolutionLayer& layer) const {
    return {name(), library_ ? std::vector{library()} : convolution_libraries(), layer};
  }

  std::shared_ptr<const ConvolutionLibrary> library_;
  bool preferred_;
};

std::vector<Option> ConvolutionEngine::options(const Layer& layer, Blobs bottom, Blobs top,
                                               std::string& why) const {
  const auto& conv = static_cast<const ConvolutionLayer&>(layer);
  if (library_ != nullptr && forced_engine(layer) != name()) {
    why = text("it serves only where engine '", name(), "' is asked for");
    return {};
  }
  why = refusal(conv, bottom);
  if (!why.empty()) return {};
  const Chooser chooser = this->chooser(conv);

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
        possible = possible && !chooser.candidates(problem, pass, reason).empty();
        option.choice.emplace_back();
      } else if (const auto choice = chooser.choose(problem, pass, trial,
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
      if (!possible && why.empty()) why = text(to_string(pass), ": ", reason);
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

/// Adds an engine to all types.
void add_engine(Registry& registry, const std::string& name,
                const std::shared_ptr<const ConvolutionLibrary>& library, bool preferred) {
  for (const char* type : kConvolutionTypes)
    registry.add_engine<ConvolutionEngine>(type, name, DeviceType::cpu, library, preferred);
}

}  // namespace

void add_tuned_convolution(Registry& registry) { add_engine(registry, kTuned, nullptr, false); }

void add_convolution_library(Registry& registry, std::unique_ptr<ConvolutionLibrary> library,
                             bool preferred) {
  const std::string name = library->name();
  add_engine(registry, name, std::move(library), preferred);
}

std::vector<const ConvolutionLibrary*> convolution_libraries() {
  std::vector<const ConvolutionLibrary*> first, others;
  for (const EngineEntry* entry :
       Registry::instance().engines(kConvolutionTypes[0], DeviceType::cpu)) {
    // A plug-in may have an engine of another kind.
    const auto* engine = dynamic_cast<const ConvolutionEngine*>(entry->engine.get());
    if (engine == nullptr || engine->library() == nullptr) continue;
    (engine->preferred() ? first : others).push_back(engine->library());
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

}  // namespace crema
