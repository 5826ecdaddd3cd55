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
#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "layer_support/tuning.hpp"
#include "layers/convolution/convolution.hpp"
#include "layers/convolution/ends.hpp"
#include "layers/convolution/usual_speeds.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr const char* kTuned = "tuned";
/// Bottoms with at most this many channels, such as images, have much padding in a blocked format.
/// They stay contiguous or channels-last in front of a blocked top.
constexpr int64_t kFewChannels = 4;
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

/// Tensors for measuring, large enough for every format and allocated at the first measurement.
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

  /// The task of the tuner to choose a candidate for a problem, in the order of candidates().
  /// `problem` and `trial` must outlive it.
  TunedTask task(const ConvolutionProblem& problem, ConvolutionPass pass, Trial& trial,
                 const std::vector<Candidate>& of) const {
    TunedTask task{tuned(problem, pass), {}};
    for (const Candidate& candidate : of) {
      task.candidates.push_back(
          {.key = candidate.key(),
           .prepare =
               [&problem, &trial, pass, candidate] {
                 const std::shared_ptr<ConvolutionPrimitive> made = candidate.make(problem, pass);
                 return [&trial, pass, made] { trial.run(*made, pass); };
               },
           .usual = usual_share(candidate.library->name(), candidate.implementation, problem)});
    }
    return task;
  }

  /// The candidate of a pass to run. `choice`: the entry of Option::choice, or "" if the pass was
  /// not measured for that option.
  Candidate take(const ConvolutionProblem& problem, ConvolutionPass pass,
                 const std::string& choice) const {
    std::string why;
    std::optional<Candidate> taken;
    for (Candidate& candidate : candidates(problem, pass, why)) {
      if (candidate.key() == without_mark(choice)) taken = std::move(candidate);
    }
    if (!taken) {
      const std::vector<Candidate> found = candidates(problem, pass, why);
      if (found.empty())
        throw Error("engine '", engine_, "' cannot compute ", problem.key(), " ", to_string(pass),
                    ": ", why);
      Trial trial(problem);
      const TunedTask task = this->task(problem, pass, trial, found);
      taken = found[choose_candidates(layer_.context(), {&task, 1})[0].candidate];
    }
    layer_.context().tuner().choose(tuned(problem, pass).name(), taken->key());
    return std::move(*taken);
  }

  /// The problem of a pass, for the tuner.
  TunedProblem tuned(const ConvolutionProblem& problem, ConvolutionPass pass) const {
    constexpr const char* kAlgorithms[] = {"", " direct", " winograd"};  // ConvolutionAlgorithm
    const std::vector<int64_t> dims = problem.source.dims();
    return {text("convolution ", engine_, kAlgorithms[static_cast<size_t>(algorithm_)], " ",
                 to_string(pass), " ", omp_get_max_threads(), "t ", problem.family()),
            Shape(std::vector<int64_t>(dims.begin() + 2, dims.end())),
            workload_of(engine_ + kAlgorithms[static_cast<size_t>(algorithm_)], problem, pass,
                        omp_get_max_threads())};
  }

 private:
  std::string engine_;
  std::vector<const ConvolutionLibrary*> libraries_;
  const ConvolutionLayer& layer_;
  ConvolutionAlgorithm algorithm_;
};

/// Runs the primitives that a Chooser takes.
class ConvolutionKernel : public Kernel {
 public:
  ConvolutionKernel(ConvolutionLayer& layer, const Chooser& chooser,
                    const std::vector<std::string>& choice, Blobs bottom, Blobs top)
      : Kernel(layer), layer_(layer), ends_(layer) {
    ends_.fit(top);
    // Where shapes follow from values, they may have no elements.
    if (top[0]->count() == 0) return;
    const ConvolutionProblem problem =
        problem_of(layer, bottom, top, bottom[0]->data.format(), top[0]->data.format());
    const std::vector<ConvolutionPass> passes = passes_of(layer, top);
    for (size_t i = 0; i < passes.size(); ++i) {
      const ConvolutionPass pass = passes[i];
      const Candidate taken = chooser.take(problem, pass, i < choice.size() ? choice[i] : "");
      detail_ += text(detail_.empty() ? "" : ", ", to_string(pass), " ", taken.str());
      primitive(pass) = taken.make(problem, pass);
      watches_[static_cast<size_t>(pass)] =
          TunedWatch(layer.context(), chooser.tuned(problem, pass).name(), taken.key());
    }
    if (primitive(ConvolutionPass::backward_weights) && problem.bias &&
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
    const auto& gradient = primitive(ConvolutionPass::backward_weights);
    if (want_bias && (transposed || !gradient)) ends_.backward_bias(ComputeDevice(), top);
    if (gradient) {
      bool add_weights = weights.begin_gradient() != 0;
      bool add_bias = want_bias && !transposed && bias->begin_gradient() != 0;
      float* const dw = weights.diff.change<float>();
      float* const db = bias != nullptr && !transposed
                            ? (want_bias ? bias->diff : unwanted_bias_).change<float>()
                            : nullptr;
      for (size_t i = 0; i < top.size(); ++i) {
        const Tensor &of_bottom = bottom[i]->data, &of_top = ends_.sums_diff(top, i);
        watch(ConvolutionPass::backward_weights)([&] {
          gradient->backward_weights((transposed ? of_top : of_bottom).read<float>(),
                                     (transposed ? of_bottom : of_top).read<float>(), add_weights,
                                     dw, add_bias, db);
        });
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
    for (const auto& made : primitives_) {
      if (made) bytes += made->kept_bytes();
    }
    return bytes;
  }
  void plan_scratch(ScratchPlan& plan) const override {
    for (const auto& made : primitives_) {
      if (made) made->plan_scratch(plan);
    }
  }
  std::string detail() const override { return detail_; }

 private:
  /// That of a pass of the problem; null if the net does not run it.
  std::unique_ptr<ConvolutionPrimitive>& primitive(ConvolutionPass pass) {
    return primitives_[static_cast<size_t>(pass)];
  }
  TunedWatch& watch(ConvolutionPass pass) { return watches_[static_cast<size_t>(pass)]; }

  /// Runs pass `forward` or `backward_data` of the problem.
  void multiply(ConvolutionPass pass, const Tensor& from, Tensor& to) {
    const auto& made = primitive(pass);
    if (made == nullptr) throw Error("has a kernel for a backward pass without bottom diffs");
    Parameter& parameter = ends_.weights();
    const ConvolutionWeights weights{parameter.data.read<float>(),
                                     layer_.trains() ? nullptr : &parameter.values()};
    if (pass == ConvolutionPass::backward_data) {
      return watch(pass)(
          [&] { made->backward_data(from.read<float>(), weights, to.overwrite<float>()); });
    }
    // The problem has a bias where it is the layer's own: not that of a gradient.
    const Parameter* const bias = layer_.geometry().transposed() ? nullptr : ends_.bias();
    watch(pass)([&] {
      made->forward(from.read<float>(), weights,
                    bias != nullptr ? bias->data.read<float>() : nullptr, to.change<float>());
    });
  }

  ConvolutionLayer& layer_;
  ConvolutionEnds ends_;
  std::array<std::unique_ptr<ConvolutionPrimitive>, 3> primitives_;  // see primitive()
  std::array<TunedWatch, 3> watches_;                                // see watch()
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

  // A way to lay out source and target. Its passes are measured as long as it may be the fastest.
  struct Way {
    ConvolutionProblem problem;
    Option option;
    std::vector<std::vector<Candidate>> candidates;  // of each pass
  };
  std::vector<Way> ways;
  const std::vector<ConvolutionPass> passes = passes_of(conv, top);
  for (const auto& [from, to] : format_pairs(conv.geometry())) {
    Way way{.problem = problem_of(conv, bottom, top, from, to),
            .option = uniform_option(bottom, top, DType::f32, from, to)};
    // A summand lies as the top does.
    for (size_t i = top.size(); i < bottom.size(); ++i) way.option.bottoms[i] = way.option.tops[0];
    for (const ConvolutionPass pass : passes) {
      std::string reason;
      way.candidates.push_back(chooser.candidates(way.problem, pass, reason));
      if (!way.candidates.back().empty()) continue;
      if (why.empty()) why = text(to_string(pass), ": ", reason);
      break;
    }
    if (way.candidates.back().empty()) continue;
    ways.push_back(std::move(way));
  }
  if (ways.empty()) return {};

  Trial trial(ways[0].problem);
  for (size_t p = 0; p < passes.size(); ++p) {
    double best = std::numeric_limits<double>::infinity();
    const auto goes_on = [&](const Way& way) { return way.option.choice.size() == p; };
    for (const Way& way : ways) {
      if (goes_on(way)) best = std::min(best, way.option.seconds);
    }
    std::vector<Way*> measured;
    std::vector<TunedTask> tasks;
    for (Way& way : ways) {
      // Passes behind one that was not measured are not either.
      if (!goes_on(way) || way.option.seconds > kHopeless * best) continue;
      measured.push_back(&way);
      tasks.push_back(chooser.task(way.problem, passes[p], trial, way.candidates[p]));
    }
    const std::vector<TunedChoice> choices = choose_candidates(conv.context(), tasks);
    for (size_t i = 0; i < measured.size(); ++i) {
      Way& way = *measured[i];
      way.option.seconds += choices[i].seconds * static_cast<double>(top.size());
      const std::string key = way.candidates[p][choices[i].candidate].key();
      way.option.choice.push_back(library_ ? key : marked_choice(choices[i], key));
    }
  }
  std::vector<Option> found;
  for (Way& way : ways) {
    // Passes that were not measured count with the mean of the measured ones.
    way.option.seconds *=
        static_cast<double>(passes.size()) / static_cast<double>(way.option.choice.size());
    way.option.choice.resize(passes.size());
    found.push_back(std::move(way.option));
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
