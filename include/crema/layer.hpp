// Layer: one computation of a net. Engine: one implementation of that computation.
//
// The net calls the methods of a layer in this order:
//
//   constructor   reads the message; throws an Error for wrong settings
//   setup         once, when the shapes of the bottoms are known: checks them, declares parameters
//   reshape       sets the shapes of the tops; called any number of times
//   options       lists the layouts in which the layer can run, with the engine and the seconds
//   prepare       takes one option and makes primitives and scratch memory for it
//   forward, backward
//
// Every layer implements forward_cpu and backward_cpu for f32 and f64 and contiguous memory. This
// implementation is called the reference. Engines (oneDNN, cuDNN, CUDA kernels) are tried before
// the reference, in the order of their registration. One thread at a time may use a layer.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
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

/// Values and gradient of a parameter. Layers of one net or of several nets may share one storage.
/// All of them hold a shared_ptr to it.
class ParameterStorage {
 public:
  /// `data` and `diff`: f32 or f64, contiguous. `diff` is empty if the net does not train.
  ParameterStorage(Tensor data, Tensor diff) : data_(std::move(data)), diff_(std::move(diff)) {}

  const Tensor& data() const { return data_; }
  const Tensor& diff() const { return diff_; }
  /// A tensor computed from the values by `make`, such as a copy in another element type or in the
  /// layout of a library. `form` names it. `make` runs once for each form and version of the
  /// values; all callers share the result, which exists as long as one of them holds it. Several
  /// threads may call this at the same time.
  std::shared_ptr<const Tensor> derived(const std::string& form,
                                        const std::function<Tensor(const Tensor&)>& make);
  /// The same for an object of any type.
  template <class T>
  std::shared_ptr<T> derived_object(const std::string& form,
                                    const std::function<std::shared_ptr<T>(const Tensor&)>& make) {
    return std::static_pointer_cast<T>(derive(typeid(T).name() + form, make));
  }

 private:
  friend class Parameter;
  struct Derived {
    uint64_t version = 0;
    std::weak_ptr<void> object;
  };
  std::shared_ptr<void> derive(const std::string& form,
                               const std::function<std::shared_ptr<void>(const Tensor&)>& make);
  Tensor data_, diff_;
  bool cleared_ = true;
  std::mutex mutex_;
  std::map<std::string, Derived> derived_;
};

/// A parameter of a layer: learned, or only saved, such as the statistics of BatchNorm.
///
/// Gradients accumulate over backward passes until the solver clears them. Clearing is lazy: a
/// cleared gradient counts as zero, but its memory still holds the old values. The first writer
/// overwrites them. A layer adds its gradient in one of two ways:
///   - it calls begin_gradient() and uses the result as beta of a GEMM (0: overwrite, 1: add);
///   - it adds to gradient(), which sets cleared memory to zero first.
class Parameter {
 public:
  Parameter(Shape shape, Filler filler) : shape_(std::move(shape)), filler_(std::move(filler)) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const Shape& shape() const { return shape_; }
  const Filler& filler() const { return filler_; }

  Tensor data;  // (shape), f32 or f64, contiguous; a view of values()
  Tensor diff;  // (shape), the gradient; read it through gradient()

  /// Factors on the solver's learning rate and weight decay. They may change between updates. For a
  /// shared parameter, those of its first user count. If lr_mult is 0 when the net is built, the
  /// net never computes the gradient, unless it has force_backward.
  float lr_mult = 1;
  float decay_mult = 1;
  /// False for parameters that are saved but never learned, such as the statistics of BatchNorm.
  /// They have no gradient and no decay, even if the prototxt sets lr_mult.
  bool learnable = true;
  /// The net computes the gradient: the parameter is learnable, and lr_mult is not 0 or the net has
  /// force_backward.
  bool needs_gradient = true;

  /// 0 at the first call after clear_gradient(), else 1.
  double begin_gradient();
  /// The gradient. Sets its memory to zero if it was cleared.
  Tensor& gradient();
  void clear_gradient() { storage_->cleared_ = true; }
  bool is_cleared() const { return storage_->cleared_; }

  /// Makes data and diff views of `storage`. Error if the number of values differs.
  void attach(std::shared_ptr<ParameterStorage> storage);
  const std::shared_ptr<ParameterStorage>& storage() const { return storage_; }
  /// Makes data a view of other values, such as a noisy copy, until compute_with(nullptr). The net
  /// does that around forward and backward of a layer whose `param` sets noise. storage() and the
  /// gradient stay. `values` has the type and the number of the parameter's own.
  void compute_with(ParameterStorage* values);
  /// What data is a view of. What an engine derives from the values belongs there.
  ParameterStorage& values() const { return values_ != nullptr ? *values_ : *storage_; }

 private:
  Shape shape_;
  Filler filler_;
  std::shared_ptr<ParameterStorage> storage_;
  ParameterStorage* values_ = nullptr;  // null: storage_
};

/// The numbers of bottoms and tops that a layer accepts. A maximum of -1 means no limit.
struct Arity {
  int min_bottoms = 1, max_bottoms = 1;
  int min_tops = 1, max_tops = 1;
};

/// A set of bottoms or of tops of a layer, by index.
class Which {
 public:
  /// All of them, or none.
  constexpr Which(bool all) : first_(all ? ~uint64_t{0} : 0), others_(all) {}  // NOLINT: implicit
  /// The indices in the list; each is below 64.
  constexpr Which(std::initializer_list<int> list) {
    for (const int index : list) first_ |= uint64_t{1} << index;
  }
  constexpr bool operator[](size_t index) const {
    return index < 64 ? (first_ >> index & 1U) != 0 : others_;
  }
  /// Whether the set contains any index.
  constexpr explicit operator bool() const { return first_ != 0; }

 private:
  uint64_t first_ = 0;   // one bit for each index below 64
  bool others_ = false;  // all indices from 64 on
};

/// The forward values that backward reads. The net keeps only these until backward.
struct BackwardReads {
  Which bottom_data = true;
  Which top_data = true;
};

/// Whether top 0 may use the memory of a bottom: of bottom 0, unless in_place_bottom() names
/// another. In backward, the same holds for their diffs.
enum class InPlace : uint8_t {
  never,
  overwrite,  // the layer may write the top over the bottom
  alias,      // top and bottom have the same values; only the shape differs
  parts,  // the values of all bottoms, one behind the other in memory, are those of the one top;
          // or those of all tops are those of the one bottom
};

/// What determines the shapes of a layer's tops.
enum class TopShapes : uint8_t {
  fixed,        // the shapes of the bottoms and the settings
  per_batch,    // a source: fetch() sets the shapes before the pass
  from_values,  // reshape() sets upper bounds, forward() the shapes
};

/// A pointwise function that an engine may apply to its result.
struct Activation {
  enum class Kind : uint8_t { relu, sigmoid, tanh } kind = Kind::relu;
  float alpha = 0;  // relu: the slope for negative values

  bool operator==(const Activation&) const = default;
};

/// y = scale * x + shift, with one of each for each channel (axis 1).
struct ChannelAffine {
  std::vector<double> scale, shift;
};

/// One operation on the top of a layer. The engine of the layer applies it while it writes the top.
struct TailStep {
  enum class Kind : uint8_t {
    activation,  // y = activation(x)
    affine,      // y = scale * x + bias, with one scale and one bias for each channel (axis 1)
    stored,      // y = scale * x + shift, likewise; both are Layer::stored_affine() of `layer`
    add,         // y = x + another bottom of the same shape
  };
  Kind kind = Kind::activation;
  Activation activation = {};
  Parameter* scale = nullptr;    // affine: (C); null means 1
  Parameter* bias = nullptr;     // affine: (C); null means 0
  const Layer* layer = nullptr;  // stored
  int bottom = -1;               // add: the index of the other bottom

  bool operator==(const TailStep&) const = default;
};
/// Operations in the order in which they are applied.
using Tail = std::vector<TailStep>;

/// What the net requires of a layer beside its forward pass. The net sets it before options().
struct Wanted {
  /// One entry a bottom: whether backward has to write its diff. Empty means true for all.
  std::vector<bool> bottom_diffs = {};
  /// The diffs of the tops are read after backward, for instance by the caller. If false, backward
  /// may overwrite them.
  bool top_diffs_stay = true;
  /// Operations on the top that Layer::accepts() allowed. The bottoms that they add follow the
  /// layer's own bottoms.
  Tail tail = {};
};

/// One way to run a layer in its present shapes.
struct Option {
  std::vector<Layout> bottoms, tops;    // one entry for each bottom and each top
  const EngineEntry* engine = nullptr;  // null: the reference
  /// The choices of the engine (such as names of kernels), for its prepare(). They make prepare()
  /// take what was measured.
  std::vector<std::string> choice = {};
  double seconds = 0;  // forward, plus backward if the layer trains; 0: not measured
};

/// An option with all bottoms in format `from` and all tops in format `to`, of one type. Blobs of a
/// rank below 3 are contiguous.
Option uniform_option(Blobs bottom, Blobs top, DType dtype, Format from = Format::contiguous,
                      Format to = Format::contiguous);

/// One implementation of a layer type. An engine object serves one layer.
class Engine {
 public:
  virtual ~Engine() = default;

  /// The layouts in which the engine can run the layer's present shapes. Empty if it cannot run
  /// them; `why` is then set to the reason.
  virtual std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) = 0;
  /// Makes primitives and scratch memory for an option that options() returned. The bottoms and
  /// tops have the layouts of that option. Behind a layer whose tops are TopShapes::from_values,
  /// the option is that of the bounds, and the shapes are smaller ones.
  virtual void prepare(Layer& layer, const Option& option, Blobs bottom, Blobs top) = 0;
  /// Called when the layer returns to the shapes of the last prepare(), after it ran other shapes.
  /// Members of the layer that prepare() had set must be set again; the engine's own members are
  /// still valid.
  virtual void resume(Layer& /*layer*/, Blobs /*bottom*/, Blobs /*top*/) {}
  virtual void forward(Layer& layer, Blobs bottom, Blobs top) = 0;
  virtual void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                        Blobs bottom) = 0;
  /// The forward values that backward reads. Default: those that the reference reads.
  virtual BackwardReads backward_reads(const Layer& layer) const;
  /// Default: the value for the reference.
  virtual InPlace in_place(const Layer& layer) const;
  /// Bytes that the engine holds beside the blobs: workspaces and weights in its own layout.
  virtual size_t extra_bytes() const { return 0; }
  /// Adds the scratch memory that the engine needs during a pass and does not hold itself.
  virtual void plan_scratch(ScratchPlan& /*plan*/) const {}
  /// The kernels chosen for this problem, for `summary` and `time`: "jit:avx512_core, winograd".
  virtual std::string detail() const { return {}; }
};

/// Floating point operations of one pass in the present shapes. A multiply-add counts as 2.
struct Flops {
  double forward = 0;
  double backward = 0;
};

/// Arguments of a layer's constructor. The context and the run state must outlive the layer.
struct LayerInit {
  const LayerParameter& param;
  Context& context;
  const RunState& run;
  Phase phase = Phase::train;
  /// Element type of the parameters, and of the reference: f32 or f64.
  DType dtype = DType::f32;
  /// Element type of activations between layers: `dtype`, or a 16-bit type. Values that must be
  /// exact (is_exact_bottom, is_exact_top) have `dtype`.
  DType activations = dtype;
  /// Whether the net can run backward.
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
  /// Seed, iteration and pass. Random numbers are functions of them.
  const RunState& run() const { return run_; }
  bool trains() const { return trains_; }
  DType dtype() const { return dtype_; }
  DType activations() const { return activations_; }

  virtual Arity arity() const { return {}; }
  virtual void setup(Blobs /*bottom*/, Blobs /*top*/) {}
  virtual void reshape(Blobs bottom, Blobs top) = 0;

  virtual TopShapes top_shapes() const { return TopShapes::fixed; }
  /// For TopShapes::per_batch: loads the next batch and sets the shapes of the tops. The next
  /// forward writes that batch. If the batch of the last call was not written yet, because the pass
  /// failed before, that batch is the next one.
  virtual void fetch(Blobs /*top*/) {}

  /// All options for the present shapes, best engine first. The message (`engine:`) or the context
  /// may force one engine; then only options of that engine are returned. A context's engine is
  /// ignored by types that do not have it. Error if the forced engine does not exist, or cannot run
  /// this problem.
  std::vector<Option> options(const Wanted& wanted, Blobs bottom, Blobs top);
  /// Takes an option of options(). The bottoms and tops have its layouts.
  void prepare(const Option& option, Blobs bottom, Blobs top);
  /// The state that prepare() made for one set of shapes. The net keeps it while other shapes run.
  struct Prepared {
    std::unique_ptr<Engine> engine;
    const EngineEntry* entry = nullptr;
    Wanted wanted;
  };
  /// Removes that state from the layer and returns it.
  Prepared suspend();
  /// Takes it back. The bottoms and tops have the shapes and layouts of then.
  void resume(Prepared prepared, Blobs bottom, Blobs top);

  /// The net may run it again before backward, with the same bottoms and with RunState::recomputing
  /// set, if the tops were dropped (`recompute`, NetOptions::memory_budget): it must then write the
  /// same tops, and change nothing else.
  void forward(Blobs bottom, Blobs top);
  /// Reads the diffs of the tops: the gradients of the loss with respect to the tops. For a loss
  /// that no layer reads, each element is the loss weight. Overwrites the diff of bottom i if
  /// propagate[i]. Adds to the gradients of the parameters. Leaves the diffs of the tops unchanged
  /// if Wanted::top_diffs_stay.
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom);

  BackwardReads backward_reads() const;
  InPlace in_place() const;
  /// The bottom whose memory top 0 may use, if in_place() allows that.
  virtual size_t in_place_bottom() const { return 0; }

  /// The name of the engine in use: "reference" or a registered name.
  std::string engine_name() const;
  /// Null: the reference.
  Engine* engine() const { return engine_.get(); }
  /// The layer runs on the CPU although the context has another device.
  bool falls_back_to_cpu() const;

  /// Converts parameters of a weights file that differ from params() in number or shapes. On
  /// success, `published` has the number and shapes of params(), contiguous, of f32 or f64. Returns
  /// false if the layer does not know the given form.
  virtual bool adopt(std::vector<Tensor>& /*published*/) const { return false; }

  std::vector<std::unique_ptr<Parameter>>& params() { return params_; }
  const std::vector<std::unique_ptr<Parameter>>& params() const { return params_; }

  /// The loss_weight of top i if the prototxt sets none. 1 for top 0 of a loss layer.
  virtual float default_loss_weight(int /*top*/) const { return 0; }
  /// Whether the layer can compute the diff of bottom i. False for labels. A net that trains is an
  /// Error if a path from a loss to what learns ends here, unless propagate_down is false.
  virtual bool can_propagate(int /*bottom*/) const { return true; }
  /// Whether a net with `force_backward` computes the diff of this bottom.
  virtual bool allow_force_backward(int bottom) const { return can_propagate(bottom); }
  /// Operations of one pass, for `summary` and `time`.
  virtual Flops flops(Blobs /*bottom*/, Blobs /*top*/) const { return {}; }
  /// A data source: each forward writes the next batch.
  virtual bool is_source() const { return false; }
  /// Whether a bottom or top must not have a 16-bit type. Default: true for bottoms that cannot
  /// propagate (labels) and for losses.
  virtual bool is_exact_bottom(int i) const { return !can_propagate(i); }
  virtual bool is_exact_top(int i) const { return default_loss_weight(i) != 0; }

  /// This layer as one operation on its bottom 0; none if the layer does anything else. The layer
  /// before it may then run the operation as a step of its tail.
  virtual std::optional<TailStep> as_tail_step() const { return std::nullopt; }
  /// The scale and the shift of the present parameters, if as_tail_step() is
  /// TailStep::Kind::stored. They follow from params() alone. Parameters are on the host.
  virtual ChannelAffine stored_affine() const;
  /// Whether this layer can apply `tail` to its top. The net calls it before options(). Refuse
  /// kinds of steps that the layer does not know: there may be new ones.
  virtual bool accepts(const Tail& /*tail*/) const { return false; }
  /// Whether applying `step` to the top gives the same values as applying it to the bottom.
  /// Example: maximum pooling and ReLU. The net may then move a step from in front of this layer
  /// into its tail, if accepts() allows that.
  virtual bool commutes_with(const TailStep& /*step*/) const { return false; }
  /// The argument of the last options().
  const Wanted& wanted() const { return wanted_; }
  const Tail& tail() const { return wanted_.tail; }
  /// Whether backward has to write the diff of bottom i.
  bool propagates(int bottom) const {
    const auto i = static_cast<size_t>(bottom);
    return trains_ && (i >= wanted_.bottom_diffs.size() || wanted_.bottom_diffs[i]);
  }

  /// Bytes that the layer holds between its passes, beside those of its engine.
  virtual size_t kept_bytes() const { return 0; }

  /// The reference. Public for engines and tests.
  virtual void forward_cpu(Blobs bottom, Blobs top) = 0;
  virtual void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom);

 protected:
  /// For setup(): declares the next parameter and gives it lr_mult and decay_mult of the prototxt.
  Parameter& add_param(const Shape& shape, Filler filler);
  /// The forward values that the reference reads in backward. Default: all.
  virtual BackwardReads reference_backward_reads() const { return {}; }
  /// Whether the reference may run in place.
  virtual InPlace reference_in_place() const { return InPlace::never; }
  /// The layouts in which the reference can run. Default: contiguous, of dtype().
  virtual std::vector<Option> reference_options(Blobs bottom, Blobs top) const;
  /// Called instead of Engine::prepare() if the reference runs. For scratch memory.
  virtual void prepare_reference(Blobs /*bottom*/, Blobs /*top*/) {}

 private:
  friend class Engine;
  /// The engine that the message or the context forces; "" if none.
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
