// Channels-last convolutions by cuDNN's graph API (backend/cuda/dnn_convolution.hpp): choosing the
// ways of a layer's passes, and the kernel that runs them.
//
// The parameters are f32, (K, C, taps). The library reads them as (K, taps, C) in the type of the
// activations: copies, which the update writes along with the parameters
// (backend/parameter_copies.hpp). Gradients come back in that order, and a pass of ours adds them
// to those of the parameters.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "backend/cuda/micro_batches.hpp"
#include "backend/parameter_copies.hpp"
#include "core/memory_error.hpp"
#include "core/relu_handover.hpp"
#include "core/row_ranges.hpp"
#include "core/tuner.hpp"
#include "layer_support/tuning.hpp"
#include "layers/convolution/cudnn.hpp"
#include "layers/convolution/ends.hpp"

namespace crema {
namespace {

DnnRules rules_of(const Layer& layer) {
  return {layer.arithmetic().deterministic, layer.arithmetic().workspace_limit};
}

/// `contiguous_source`: the bottom is contiguous f32.
DnnConvolutionProblem problem_of(const ConvolutionLayer& layer, Blobs bottom, size_t tops,
                                 bool contiguous_source) {
  const ConvolutionGeometry& g = layer.geometry();
  return {.dtype = layer.activations(),
          .contiguous_source = contiguous_source,
          .images = g.batch,
          .channels = g.channels,
          .outputs = g.outputs,
          .groups = g.groups,
          .input = g.input,
          .output = g.output,
          .kernel = g.kernel,
          .stride = g.stride,
          .pad = g.pad,
          .dilation = g.dilation,
          .transposed = g.transposed(),
          .bias = layer.has_bias(),
          .adds = layer.summand(bottom) != nullptr,
          .relu = layer.relu(),
          .ends_here = !any_propagates(layer, tops)};
}

/// The passes that the net runs, that of the layer's forward first.
std::vector<DnnPass> passes_of(const ConvolutionLayer& layer,
                               const DnnConvolutionProblem& problem) {
  std::vector<DnnPass> passes = {problem.forward()};
  if (!problem.ends_here) passes.push_back(problem.transposed ? DnnPass::forward : DnnPass::data);
  if (layer.trains() && layer.params()[0]->needs_gradient) passes.push_back(DnnPass::weights);
  return passes;
}

TunedProblem tuned(const DnnPlans& plans, const DnnConvolutionProblem& problem, DnnPass pass) {
  return {text("convolution cudnn ", plans.device().name(), " ", to_string(pass), " ",
               problem.family()),
          Shape(problem.extents())};
}

struct Choice {
  MicroWay way;
  double seconds = 0;
};

/// The fastest of `ways`, and of those in pieces of the batch where the limit of scratch memory
/// keeps some of them out; none if none can run.
std::optional<Choice> fastest(const ConvolutionLayer& layer, const DnnConvolutionProblem& problem,
                              const std::vector<DnnWay>& ways, const DnnRules& rules,
                              std::string& why) {
  CudaBackend& backend = cuda(layer.context());
  bool measured = false;
  std::vector<MicroWay> all;
  for (const DnnWay& way : ways) all.push_back({way});
  for (MicroWay& way : micro_ways(backend.dnn_plans(), problem, ways[0].pass, rules, ways))
    all.push_back(std::move(way));
  std::vector<TunedCandidate> candidates;
  for (const MicroWay& way : all) {
    candidates.push_back({way.str(), {}, [&, way] {
                            measured = true;
                            return micro_measure(backend, problem, way, rules);
                          }});
  }
  const auto [best, seconds, by] = choose_candidate(
      layer.context(), tuned(backend.dnn_plans(), problem, ways[0].pass), candidates);
  if (measured) backend.trim();
  for (size_t i = ways.size(); i < all.size(); ++i) {
    if (i != best) all[i].way.candidate->forget();
  }
  if (!micro_can_run(problem, all[best], rules, why)) return std::nullopt;
  return Choice{all[best], std::isfinite(seconds) ? seconds : 0};
}

/// The way of a pass: the fastest one if it `measures`, failing that the first one that can run.
/// None if there is none; `why` then says why.
std::optional<Choice> choose(const ConvolutionLayer& layer, const DnnConvolutionProblem& problem,
                             DnnPass pass, bool measures, std::string& why) {
  DnnPlans& plans = cuda(layer.context()).dnn_plans();
  const DnnRules rules = rules_of(layer);
  std::string first_reason;
  for (const DnnSearch search :
       {DnnSearch::usual, DnnSearch::rounded_gradients, DnnSearch::last_resort}) {
    std::string reason;
    const std::vector<DnnWay> ways = dnn_ways(plans, problem, pass, rules, reason, search);
    std::optional<Choice> choice;
    if (measures && !ways.empty()) choice = fastest(layer, problem, ways, rules, reason);
    for (const DnnWay& way : ways) {
      if (!choice && dnn_can_run(problem, way, rules, reason)) choice = Choice{{way}, 0};
      // The plans of those that were measured and are slower.
      if (!choice || way.candidate != choice->way.way.candidate) way.candidate->forget();
    }
    if (choice) return choice;
    const std::vector<MicroWay> pieces = micro_ways(plans, problem, pass, rules, ways);
    if (!pieces.empty()) return Choice{pieces[0], 0};
    if (first_reason.empty()) first_reason = reason;
  }
  why = first_reason;
  return std::nullopt;
}

/// The way that is named `wanted`. Where shapes follow from values, it is that of the bounds, and
/// its engine computes each of the smaller shapes: nothing is measured in the middle of training,
/// and heuristics are asked only where that engine refuses a shape.
std::optional<Choice> choose_named(const ConvolutionLayer& layer,
                                   const DnnConvolutionProblem& problem, DnnPass pass,
                                   const std::string& wanted, std::string& why) {
  const DnnRules rules = rules_of(layer);
  const auto way = micro_way(cuda(layer.context()).dnn_plans(), problem, pass, rules, wanted, why);
  if (way && micro_can_run(problem, *way, rules, why)) return Choice{*way, 0};
  return choose(layer, problem, pass, false, why);
}

class ChannelsLastConvolution : public Kernel,
                                public EndsWithReLU,
                                public UndoesReLU,
                                public WritesRanges {
 public:
  ChannelsLastConvolution(ConvolutionLayer& layer, const std::vector<std::string>& wanted,
                          Blobs bottom, Blobs top)
      : Kernel(layer),
        layer_(layer),
        backend_(cuda(layer.context())),
        ends_(layer),
        tops_(top.size()) {
    ends_.fit(top);
    // Where shapes follow from values, they may have no elements.
    if (top[0]->count() == 0) return;
    const Layout& source = bottom[0]->data.layout();
    const bool is_contiguous =
        source.dtype != layer.activations() ||
        (source.format != Format::channels_last && bottom[0]->shape().rank() >= 3);
    problem_ = problem_of(layer, bottom, top.size(), is_contiguous);
    const std::vector<DnnPass> passes = passes_of(layer, problem_);
    for (size_t i = 0; i < passes.size(); ++i) {
      std::string why;
      const auto choice =
          choose_named(layer, problem_, passes[i], i < wanted.size() ? wanted[i] : "", why);
      if (!choice) throw Error("cuDNN cannot compute this convolution: ", why);
      note_choice(problem_, choice->way);
      pass(passes[i]).emplace(problem_, choice->way);
    }
    const DnnWay& way = forward_pass().way();
    weight_form_ = {dnn_weights_map(problem_, way.deep).of_weights(), problem_.outputs,
                    problem_.dtype};
    if (!way.fused) return;
    const DepthMap::Extents no_axes{1, 1, 1};
    bias_form_ = {DepthMap::plain(1, no_axes), problem_.result().channels, problem_.dtype};
    if (!layer.has_bias())
      zeros_ = Tensor(Shape{static_cast<int64_t>(bias_form_.bytes())}, DType::u8);
  }

  EndsWithReLU* ends_with_relu() override { return this; }
  UndoesReLU* undoes_relu() override { return this; }
  void forward(Blobs bottom, Blobs top) override {
    if (!pass(problem_.forward())) return;
    ends_.fold(ComputeDevice(backend_));
    prepare();
    const Blob* const other = layer_.summand(bottom);
    for (size_t i = 0; i < top.size(); ++i) {
      multiply(pass(problem_.forward(), top[i]->data), bottom[i]->data,
               other != nullptr ? other->data.read_bytes(&backend_) : nullptr, top[i]->data);
    }
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!pass(problem_.forward())) return;
    if (ready_ == nullptr) prepare();
    Parameter &weights = ends_.weights(), *const bias = ends_.bias();
    for (size_t i = 0; i < top.size(); ++i) {
      const bool wants_bias = bias != nullptr && bias->needs_gradient;
      const std::optional<float> relu = relu_of_backward();
      const void* const diff = top[i]->diff.read_rows(&backend_);
      const void* const made = relu ? top[i]->data.read_rows(&backend_) : nullptr;
      void* const undone = relu ? ends_.sums_diff(top, i).overwrite_rows(&backend_) : nullptr;
      const auto beta = wants_bias ? static_cast<float>(bias->begin_gradient()) : 0.0F;
      const Tensor &of_top = ends_.sums_diff(top, i), &of_bottom = bottom[i]->data;
      undo_and_sum_rows(backend_, problem_.result(), diff, made, relu, undone, beta,
                        wants_bias ? bias->diff.change<float>(&backend_) : nullptr,
                        {row_of(top[i]->diff), row_of(top[i]->data), row_of(of_top)});
      if (auto& gradient = pass(DnnPass::weights, of_top)) {
        const Tensor& x = problem_.transposed ? of_top : of_bottom;
        const Tensor& dy = problem_.transposed ? of_bottom : of_top;
        const auto before = static_cast<float>(weights.begin_gradient());
        gradient->add_weights_gradient(backend_, x.read_rows(&backend_), dy.read_rows(&backend_),
                                       before, weights.diff.change<float>(&backend_),
                                       scratch_of(*gradient));
      }
      if (!propagate[i]) continue;
      const void* const before = undoes_before_ ? of_bottom.read_bytes(&backend_) : nullptr;
      const DnnPass back = problem_.transposed ? DnnPass::forward : DnnPass::data;
      multiply(pass(back, of_top), of_top, before, bottom[i]->diff);
    }
    ends_.pass_to_summand(ComputeDevice(backend_), top, propagate, bottom);
  }

  /// The library reads the summand while it writes the top.
  InPlace in_place() const override { return InPlace::never; }
  size_t bytes() const override {
    const auto bytes_of = [](const ParameterCopy::Form& form) {
      return form.is_that_of_values() ? 0 : form.bytes();
    };
    return ends_.bytes() + bytes_of(weight_form_) +
           (layer_.has_bias() ? bytes_of(bias_form_) : zeros_.bytes());
  }
  void plan_scratch(ScratchPlan& plan) const override {
    size_t most = 0;
    for (const auto* passes : {&passes_, &in_ranges_}) {
      for (const auto& one : *passes) {
        if (one) most = std::max(most, one->scratch_bytes());
      }
    }
    if (layer_.trains() && ends_.bias() != nullptr)
      most = std::max(most, undo_and_sum_scratch(problem_.result()));
    plan.need(kDeviceScratch, most);
  }
  BackwardReads backward_reads() const override {
    const bool learns = layer_.params()[0]->needs_gradient;
    const bool reads_bottom = learns || undoes_before_.has_value();
    return {.bottom_data =
                reads_bottom && layer_.in_place_bottom() > 0 ? IndexSet{0} : IndexSet(reads_bottom),
            .top_data = relu_of_backward().has_value()};
  }
  std::optional<float> relu_of_top() const override { return layer_.relu(); }
  void leave_relu_to_reader() override { left_to_reader_ = true; }
  /// Where a plan of the library has it behind the gradient of the bottom, and is no slower than
  /// one without and a pass of ours.
  bool undo_relu(size_t bottom, float slope) override {
    if (bottom != 0 || tops_ != 1 || problem_.transposed || problem_.contiguous_source ||
        !pass(DnnPass::data))
      return false;
    DnnConvolutionProblem problem = problem_;
    problem.undoes = slope;
    std::string why;
    const auto choice = choose(layer_, problem, DnnPass::data, true, why);
    if (!choice) return false;
    note_choice(problem, choice->way);
    if (!choice->way.way.fused) return false;
    undoes_before_ = slope;
    pass(DnnPass::data).emplace(problem, choice->way);
    return true;
  }
  /// By the engines of the dense passes, which are as fast with rows that lie apart. Each row is
  /// the channels of a position.
  bool take_ranges(size_t, int64_t rows, size_t stride) override {
    if (tops_ != 1 || problem_.transposed || problem_.adds || !pass(problem_.forward()) ||
        rows != problem_.result().rows)
      return false;
    DnnConvolutionProblem problem = problem_;
    problem.y_row = static_cast<int64_t>(stride / size_of(problem.dtype));
    Passes made;
    for (const DnnPass of : passes_of(layer_, problem)) {
      problem.undoes = of == DnnPass::data ? undoes_before_ : std::nullopt;
      const DnnRules rules = rules_of(layer_);
      std::string why;
      const auto way = micro_way(backend_.dnn_plans(), problem, of, rules, pass(of)->str(), why);
      if (!way || !micro_can_run(problem, *way, rules, why)) return false;
      made[static_cast<size_t>(of)].emplace(problem, *way);
    }
    in_ranges_ = std::move(made);
    return true;
  }
  std::string detail() const override {
    std::vector<std::string> ways;
    for (const auto& one : passes_) {
      if (!one) continue;
      const bool in_order = one->way().candidate->notes().same_every_time;
      ways.push_back(text(one->str(), in_order ? "" : " (sums in any order)"));
    }
    return joined(ways, ", ");
  }
  /// A record would keep the folded weights that it began with.
  bool capturable() const override { return !ends_.folds(); }

 private:
  /// For those who go on from a snapshot.
  void note_choice(const DnnConvolutionProblem& problem, const MicroWay& way) const {
    layer_.context().tuner().choose(tuned(backend_.dnn_plans(), problem, way.way.pass).name(),
                                    way.str());
  }
  /// The ReLU whose gradient is part of backward.
  std::optional<float> relu_of_backward() const {
    return left_to_reader_ ? std::nullopt : layer_.relu();
  }
  std::optional<MicroBatches>& pass(DnnPass of) { return passes_[static_cast<size_t>(of)]; }
  /// That for the top, or its diff, as it lies.
  std::optional<MicroBatches>& pass(DnnPass of, const Tensor& of_top) {
    return (of_top.row_stride() == 0 ? passes_ : in_ranges_)[static_cast<size_t>(of)];
  }
  /// Channels from a row to the next; 0: the tensor is dense.
  static int64_t row_of(const Tensor& tensor) {
    return static_cast<int64_t>(tensor.row_stride() / size_of(tensor.dtype()));
  }
  MicroBatches& forward_pass() { return *pass(problem_.forward()); }

  /// Weights and bias as the library reads them.
  void prepare() {
    ready_ = read(ends_.weights(), weight_form_, weights_);
    if (!forward_pass().way().fused) return;
    // Zeros from the beginning.
    fused_bias_ = ends_.bias() != nullptr ? read(*ends_.bias(), bias_form_, bias_)
                                          : zeros_.read<uint8_t>(&backend_);
  }

  const void* read(Parameter& parameter, const ParameterCopy::Form& form,
                   std::shared_ptr<ParameterCopy>& copy) {
    return ParameterCopies::of(layer_.context().device_run()).read(backend_, parameter, form, copy);
  }

  void multiply(std::optional<MicroBatches>& convolution, const Tensor& from, const void* other,
                Tensor& to) {
    if (!convolution) throw Error("has a kernel for a backward pass without bottom diffs");
    const Parameter* const bias = ends_.bias();
    const DnnBias shift{bias != nullptr ? bias->data.read<float>(&backend_) : nullptr, fused_bias_};
    convolution->multiply(backend_, from.read_rows(&backend_), ready_, shift, other,
                          to.overwrite_rows(&backend_), scratch_of(*convolution));
  }

  void* scratch_of(const MicroBatches& convolution) {
    try {
      return backend_.scratch(convolution.scratch_bytes());
    } catch (const MemoryError& error) {
      constexpr int kBitsOfMiB = 20;
      throw MemoryError("has no scratch memory for ", convolution.way().str(), ", which takes ",
                        (convolution.scratch_bytes() >> kBitsOfMiB) + 1, " MiB: ", error.message());
    }
  }

  ConvolutionLayer& layer_;
  CudaBackend& backend_;
  ConvolutionEnds ends_;
  size_t tops_;
  DnnConvolutionProblem problem_;
  using Passes = std::array<std::optional<MicroBatches>, 3>;
  Passes passes_, in_ranges_;  // see pass()
  // Of ReLUs (core/relu_handover.hpp): that of this layer, and the slope of the one in front of it.
  bool left_to_reader_ = false;
  std::optional<float> undoes_before_;
  ParameterCopy::Form weight_form_, bias_form_;
  std::shared_ptr<ParameterCopy> weights_, bias_;
  Tensor zeros_{Shape{0}, DType::u8};  // in place of a bias, for a plan that adds one
  const void* ready_ = nullptr;        // the weights as the library reads them
  const void* fused_bias_ = nullptr;   // likewise the bias; null: no plan reads it
};

}  // namespace

std::vector<Option> channels_last_options(const ConvolutionLayer& layer, Blobs bottom, Blobs top,
                                          std::string& why) {
  const DType type = layer.activations();
  if (layer.dtype() != DType::f32) return {};
  if (type == DType::f32 && layer.arithmetic().math == Math::strict) return {};
  if (layer.geometry().axis != 1) {
    why = text("it wants the channels at axis 1, they are at ", layer.geometry().axis);
    return {};
  }
  std::vector<Option> options;
  const bool has_axes = bottom[0]->shape().rank() >= 3;
  for (const bool contiguous : {false, true}) {
    if (contiguous && !has_axes) break;
    Option option = uniform_option(bottom, top, type, Format::channels_last, Format::channels_last);
    const DnnConvolutionProblem problem = problem_of(layer, bottom, top.size(), contiguous);
    if (contiguous) {
      for (size_t i = 0; i < top.size(); ++i) option.bottoms[i] = {DType::f32, Format::contiguous};
    }
    bool possible = true, measured = true;
    for (const DnnPass pass : passes_of(layer, problem)) {
      const auto choice = choose(layer, problem, pass, true, why);
      possible = possible && choice.has_value();
      if (!possible) break;
      option.choice.push_back(choice->way.str());
      option.seconds += choice->seconds * static_cast<double>(top.size());
      measured = measured && choice->seconds > 0;
    }
    if (!possible) continue;
    if (!measured) option.seconds = 0;
    options.push_back(option);
  }
  return options;
}

std::unique_ptr<Kernel> make_channels_last(ConvolutionLayer& layer,
                                           const std::vector<std::string>& choice, Blobs bottom,
                                           Blobs top) {
  return std::make_unique<ChannelsLastConvolution>(layer, choice, bottom, top);
}

}  // namespace crema
