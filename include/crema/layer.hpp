// Layer: one computation of a net, and Engine: one way of doing it.
//
// The life of a layer, as the net leads it:
//
//   constructor   reads its message; Errors about settings alone are thrown here
//   setup         once, when the bottoms' shapes are known: checks them, declares parameters
//   reshape       at the start and whenever bottoms change shape: gives the tops their shapes
//   options       in which layouts the layer could run, by which engine, at what cost
//   prepare       takes an option: makes what its engine needs for this problem
//   forward, backward
//
// A layer implements forward_cpu and backward_cpu plainly, for f32 and f64 and contiguous memory:
// the reference. Engines (oneDNN, cuDNN, CUDA kernels) stand in front of it, in the order of their
// registration. A layer runs on one thread at a time.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/error.hpp"
#include "crema/filler.hpp"
#include "crema/layout.hpp"
#include "crema/run_state.hpp"
#include "crema/scratch_plan.hpp"

namespace crema {

class Layer;
class LayerParameter;  // proto/layer.proto
struct EngineEntry;    // crema/registry.hpp

enum class Phase : uint8_t { train, test };

/// Values and gradient of a parameter, which several layers may share, in one net or in several.
/// Every user holds it: it ends with the last of them.
class ParameterStorage {
 public:
  /// Flat, f32 or f64. `diff` may be empty, where nothing trains.
  ParameterStorage(Tensor data, Tensor diff) : data_(std::move(data)), diff_(std::move(diff)) {}

  const Tensor& data() const { return data_; }
  const Tensor& diff() const { return diff_; }
  /// Something made from the values (another element type, a library's layout, a transform), made
  /// once for each version of them and each name, and shared by all who ask for it. Whoever runs
  /// nets that share parameters in several threads may call this in each.
  std::shared_ptr<const Tensor> derived(const std::string& form,
                                        const std::function<Tensor(const Tensor&)>& make);

 private:
  friend class Parameter;
  struct Derived {
    uint64_t version = 0;
    std::shared_ptr<const Tensor> tensor;
  };
  Tensor data_, diff_;
  bool cleared_ = true;
  std::mutex mutex_;
  std::map<std::string, Derived> derived_;
};

/// A learnable (or, like BatchNorm's statistics, only saved) parameter of a layer.
///
/// Gradients accumulate over backward passes until the solver clears them. Clearing is lazy: the
/// gradient is then logically zero while its memory holds old values, and the first writer
/// overwrites. A layer adds its gradient in one of two ways: with `beta = begin_gradient()` in the
/// sense of GEMM (0: overwrite all of it, 1: add), or through `gradient()`, which is memory that it
/// may add to.
class Parameter {
 public:
  Parameter(Shape shape, Filler filler) : shape_(std::move(shape)), filler_(std::move(filler)) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const Shape& shape() const { return shape_; }
  const Filler& filler() const { return filler_; }

  Tensor data;  // (shape), f32 or f64, contiguous: a view of the storage
  Tensor diff;  // (shape); see above. Read it through gradient()

  /// Factors on the solver's rates, which may change between updates; of a shared parameter those
  /// of its first user count. Where lr_mult is 0 when the net is built there is no gradient later
  /// either.
  float lr_mult = 1;
  float decay_mult = 1;
  /// Set by layers for what is saved but never learned (BatchNorm's statistics): no gradient, no
  /// decay, whatever the prototxt's lr_mult says.
  bool learnable = true;
  /// Learnable, and some lr_mult or the user asks for its gradient.
  bool needs_gradient = true;

  /// 0 the first time after clear_gradient(), 1 from then on.
  double begin_gradient();
  /// The gradient with lazy clearing carried out.
  Tensor& gradient();
  void clear_gradient() { storage_->cleared_ = true; }

  /// Error unless the number of values is the parameter's.
  void attach(std::shared_ptr<ParameterStorage> storage);
  const std::shared_ptr<ParameterStorage>& storage() const { return storage_; }

 private:
  Shape shape_;
  Filler filler_;
  std::shared_ptr<ParameterStorage> storage_;
};

/// How many bottoms and tops a layer takes. max -1: no limit.
struct Arity {
  int min_bottoms = 1, max_bottoms = 1;
  int min_tops = 1, max_tops = 1;
};

/// Some of a layer's bottoms or tops.
class Which {
 public:
  /// All of them, or none.
  constexpr Which(bool all) : first_(all ? ~uint64_t{0} : 0), others_(all) {}  // NOLINT: implicit
  /// Those of the list, each below 64.
  constexpr Which(std::initializer_list<int> list) {
    for (const int index : list) first_ |= uint64_t{1} << index;
  }
  constexpr bool operator[](size_t index) const {
    return index < 64 ? (first_ >> index & 1U) != 0 : others_;
  }
  /// Whether there is any.
  constexpr explicit operator bool() const { return first_ != 0; }

 private:
  uint64_t first_ = 0;   // a bit each
  bool others_ = false;  // those from 64 on
};

/// What backward reads of the values of the forward pass; the net keeps only these.
struct BackwardReads {
  Which bottom_data = true;
  Which top_data = true;
};

/// Whether top 0 may lie in the memory of one of the bottoms, mostly bottom 0 (and, in backward,
/// that bottom's diff in the memory of the top's).
enum class InPlace : uint8_t {
  never,
  overwrite,  // the top's values replace the bottom's
  alias,      // the values are the same, only the shape differs: nothing need be computed
};

/// How the shapes of a layer's tops come about.
enum class TopShapes : uint8_t {
  fixed,        // the bottoms' shapes and the settings decide
  per_batch,    // a source: fetch() gives them, before the pass
  from_values,  // reshape() gives bounds, forward() the shapes; none exceeds its bound
};

/// A pointwise function that an engine may apply to what it computes.
struct Activation {
  enum class Kind : uint8_t { relu, sigmoid, tanh } kind = Kind::relu;
  float alpha = 0;  // relu: slope for negative values

  bool operator==(const Activation&) const = default;
};

/// One operation on the top of a layer, which its engine applies in the pass that makes the top.
struct TailStep {
  enum class Kind : uint8_t {
    activation,  // y = activation(x)
    affine,      // y = scale * x + bias, one number a channel (axis 1) each
    add,         // y = x + another bottom of the same shape
  };
  Kind kind = Kind::activation;
  Activation activation = {};
  Parameter* scale = nullptr;  // affine: null is 1
  Parameter* bias = nullptr;   // affine: null is 0
  int bottom = -1;             // add: of the layer that applies it, behind its own bottoms
};
/// In the order in which they are applied.
using Tail = std::vector<TailStep>;

/// What a net wants of a layer beside its forward pass. Known before options are asked for.
struct Wanted {
  /// Whether backward will be asked for the diff of each bottom; empty: for all of them.
  std::vector<bool> bottom_diffs = {};
  /// Somebody reads the tops' diffs after backward, as the caller may those of outputs. Otherwise
  /// backward may use their memory.
  bool top_diffs_stay = true;
  /// Operations on the top, which Layer::accepts agreed to. Bottoms that they add stand behind the
  /// layer's own.
  Tail tail = {};
};

/// One way in which a layer could run its present shapes.
struct Option {
  std::vector<Layout> bottoms, tops;    // one each
  const EngineEntry* engine = nullptr;  // null: the reference
  /// What the engine chose inside itself, in words that prepare() understands: what was measured is
  /// what runs.
  std::vector<std::string> choice = {};
  double seconds = 0;  // forward, plus backward where the layer trains; 0: not measured
};

/// All bottoms of one type in `from`, all tops in `to`; contiguous where a rank is below 3.
Option uniform_option(Blobs bottom, Blobs top, DType dtype, Format from = Format::contiguous,
                      Format to = Format::contiguous);
/// For layers whose tops have the format of their bottoms: one option for each format. Blocked ones
/// only when `padding_ok`, or when the channels of all fill the last block.
std::vector<Option> same_format_options(Blobs bottom, Blobs top, DType dtype, bool padding_ok);

/// Gives a contiguous tensor the shape `to` where the two differ in axes of extent 1 alone. False:
/// they differ otherwise.
bool squeeze(Tensor& tensor, const Shape& to);

/// The slope of the ReLU that a tail consists of, where it is nothing else and the slope is not
/// negative: the sign of what went in can then be told from what came out.
std::optional<float> relu_slope_of(const Tail& tail);

/// One way of computing a layer. Made for one layer, told the problem by prepare.
class Engine {
 public:
  virtual ~Engine() = default;

  /// The layouts in which it can run the layer's present shapes. Empty: it cannot, and `why` says
  /// why.
  virtual std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) = 0;
  /// Makes primitives and scratch memory for an option that it gave. Bottoms and tops have that
  /// option's layouts.
  virtual void prepare(Layer& layer, const Option& option, Blobs bottom, Blobs top) = 0;
  /// What prepare() made holds again, after the layer ran other shapes: makes anew what lies in the
  /// layer itself.
  virtual void resume(Layer& /*layer*/, Blobs /*bottom*/, Blobs /*top*/) {}
  virtual void forward(Layer& layer, Blobs bottom, Blobs top) = 0;
  virtual void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                        Blobs bottom) = 0;
  /// What its backward reads; by default what the layer's reference reads.
  virtual BackwardReads backward_reads(const Layer& layer) const;
  /// By default what the layer says.
  virtual InPlace in_place(const Layer& layer) const;
  /// Bytes of memory it holds beside the blobs: workspaces, scratch, weights in its own layout.
  virtual size_t extra_bytes() const { return 0; }
  /// Says what it needs while it runs, of memory that it does not hold itself.
  virtual void plan_scratch(ScratchPlan& /*plan*/) const {}
  /// What it picked for this problem, for summary and time; e.g. "jit:avx512_core, winograd".
  virtual std::string detail() const { return {}; }
};

/// Floating point operations (a multiply-add is 2) of one pass over present shapes.
struct Flops {
  double forward = 0;
  double backward = 0;
};

/// What a layer is made from; all of it outlives the layer but `param`.
struct LayerInit {
  const LayerParameter& param;
  Context& context;
  const RunState& run;
  Phase phase = Phase::train;
  /// Element type of parameters and of what the reference computes in: f32 or f64.
  DType dtype = DType::f32;
  /// Element type of the activations that flow between layers, where layers have a choice: `dtype`,
  /// or a 16-bit type.
  DType activations = dtype;
  /// Whether the net may ever run backward through the layer.
  bool trains = true;
};

class Layer {
 public:
  explicit Layer(const LayerInit& init);
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  const std::string& type() const { return type_; }
  const LayerParameter& param() const { return *param_; }
  Phase phase() const { return phase_; }
  Context& context() const { return context_; }
  /// Seed, iteration and pass of the present run: the address of random numbers.
  const RunState& run() const { return run_; }
  bool trains() const { return trains_; }
  DType dtype() const { return dtype_; }
  DType activations() const { return activations_; }

  virtual Arity arity() const { return {}; }
  virtual void setup(Blobs bottom, Blobs top);
  virtual void reshape(Blobs bottom, Blobs top) = 0;

  virtual TopShapes top_shapes() const { return TopShapes::fixed; }
  /// Of sources (TopShapes::per_batch): makes the next batch ready, which forward then gives, and
  /// gives the tops its shapes.
  virtual void fetch(Blobs /*top*/) {}

  /// All ways in which the present shapes can run, best engine first. With an engine forced, by
  /// `engine:` of the layer or, for all types that have it, by the context, only that one's; an
  /// Error that says why when it refuses, or when there is none of that name.
  std::vector<Option> options(const Wanted& wanted, Blobs bottom, Blobs top);
  /// Takes the option. Bottoms and tops have its layouts by now.
  void prepare(const Option& option, Blobs bottom, Blobs top);
  /// What prepare() made for the present shapes, to be taken up again by resume().
  struct Prepared {
    std::unique_ptr<Engine> engine;
    const EngineEntry* entry = nullptr;
    Wanted wanted;
  };
  Prepared suspend();
  void resume(Prepared prepared, Blobs bottom, Blobs top);

  void forward(Blobs bottom, Blobs top);
  /// propagate[i]: write the diff of bottom i (overwriting it). Adds to parameters' gradients. A
  /// top's diff is the gradient with respect to it; for a top with a loss weight that nobody reads,
  /// the weight in each element. Tops' diffs stay the same where Wanted::top_diffs_stay.
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom);

  BackwardReads backward_reads() const;
  InPlace in_place() const;
  /// The bottom that in_place() is about.
  virtual size_t in_place_bottom() const { return 0; }

  /// Name of the engine in use: "reference" or a registered name.
  std::string engine_name() const;
  Engine* engine() const { return engine_.get(); }
  /// Forward runs on the CPU although the context's device is another.
  bool falls_back_to_cpu() const;

  /// Changes parameters that were published in another count or in other shapes than params() into
  /// these. Both are contiguous, of f32 or f64. False: the layer does not know them.
  virtual bool adopt(std::vector<Tensor>& /*published*/) const { return false; }

  std::vector<std::unique_ptr<Parameter>>& params() { return params_; }
  const std::vector<std::unique_ptr<Parameter>>& params() const { return params_; }

  /// Loss layers: the default loss_weight of top i (1 for the first top of a loss).
  virtual float default_loss_weight(int /*top*/) const { return 0; }
  /// Whether a gradient can flow to bottom i (labels: false).
  virtual bool can_propagate(int /*bottom*/) const { return true; }
  /// Whether the layer, when a bottom needs no gradient, can skip computing it without being asked
  /// (`force_backward` leaves such bottoms, labels mostly, alone).
  virtual bool allow_force_backward(int bottom) const { return can_propagate(bottom); }
  virtual Flops flops(Blobs /*bottom*/, Blobs /*top*/) const { return {}; }
  /// A data source: forward gives the next batch. The net runs it also when nothing needs it.
  virtual bool is_source() const { return false; }
  /// Whether the values of a bottom or top must keep their precision in a net of 16-bit
  /// activations. By default of bottoms that no gradient flows to (labels) and of losses.
  virtual bool is_exact_bottom(int i) const { return !can_propagate(i); }
  virtual bool is_exact_top(int i) const { return default_loss_weight(i) != 0; }

  /// The layer as an operation on its bottom 0, where it is nothing else. Of an addition, `bottom`
  /// is the layer's own other one.
  virtual std::optional<TailStep> as_tail_step() const { return std::nullopt; }
  /// Whether the layer can apply these operations to its top, on the way. Asked before options.
  virtual bool accepts(const Tail& /*tail*/) const { return false; }
  /// Whether `step` may be applied behind this layer instead of in front of it, as to a maximum
  /// where it never falls. Then accepts() is also asked for one that stands in front.
  virtual bool commutes_with(const TailStep& /*step*/) const { return false; }
  /// What the net wants beside the forward pass; as given to options().
  const Wanted& wanted() const { return wanted_; }
  const Tail& tail() const { return wanted_.tail; }
  /// The layer trains, and backward will be asked for the diff of bottom i.
  bool propagates(int bottom) const {
    const auto i = static_cast<size_t>(bottom);
    return trains_ && (i >= wanted_.bottom_diffs.size() || wanted_.bottom_diffs[i]);
  }

  /// The reference, for engines and tests that want to call it by itself.
  virtual void forward_cpu(Blobs bottom, Blobs top) = 0;
  virtual void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom);

 protected:
  /// For setup: declares parameter number params().size().
  Parameter& add_param(const Shape& shape, Filler filler);
  /// What the reference reads in its backward, and whether it may run in place.
  virtual BackwardReads reference_backward_reads() const { return {}; }
  virtual InPlace reference_in_place() const { return InPlace::never; }
  /// Layouts that the reference can run in; by default contiguous only, of dtype().
  virtual std::vector<Option> reference_options(Blobs bottom, Blobs top) const;
  /// Runs when the reference is taken and layouts are fixed: scratch memory of the reference.
  virtual void prepare_reference(Blobs /*bottom*/, Blobs /*top*/) {}

 private:
  friend class Engine;
  /// The one that message or context ask for, among those of the type; "" when the choice is free.
  std::string forced_engine(const std::vector<const EngineEntry*>& engines) const;

  std::string name_, type_;
  std::unique_ptr<const LayerParameter> param_;
  Context& context_;
  const RunState& run_;
  Phase phase_;
  DType dtype_, activations_;
  bool trains_;
  Wanted wanted_;
  std::vector<std::unique_ptr<Parameter>> params_;
  std::unique_ptr<Engine> engine_;
  const EngineEntry* engine_entry_ = nullptr;
};

}  // namespace crema
