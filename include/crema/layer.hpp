// Layer: one computation of a net, and Engine: one way of doing it.
//
// The life of a layer, as the net leads it:
//
//   constructor   reads its message; errors about parameters alone are thrown here
//   setup         once, bottoms' shapes known: checks them, declares its parameters
//   reshape       at the start and whenever bottoms change shape: gives the tops their shapes
//   options       which formats it could run in, and what that would cost
//   prepare       formats are fixed now: takes an engine, makes what it needs for this problem
//   forward, backward
//
// A layer implements forward_cpu and backward_cpu plainly, for f32 and f64 and contiguous memory:
// the reference. Engines (oneDNN, cuDNN, CUDA kernels) stand in front of it, in the order of their
// registration. Layers run on one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/error.hpp"
#include "crema/filler.hpp"

namespace crema {

class Layer;
class LayerParameter;  // proto/layer.proto
struct EngineEntry;    // crema/registry.hpp

enum class Phase : uint8_t { train, test };

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
  /// Those that share with this one keep its memory and share on among themselves.
  ~Parameter();
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const Shape& shape() const { return shape_; }
  const Filler& filler() const { return filler_; }

  Tensor data;  // (shape), f32 or f64, contiguous
  Tensor diff;  // (shape); see above. Read it through gradient()

  /// Factors on the solver's rates, which may change between updates; the owner's count where it is
  /// shared. Where lr_mult is 0 when the net is built there is no gradient later either.
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
  void clear_gradient() { root().cleared_ = true; }

  /// Makes this a user of the memory and gradient of `owner` (weight sharing). Counts must be
  /// equal.
  void share_with(Parameter& owner);
  /// Places values and gradient in larger memories (an empty pointer leaves that one where it is),
  /// for this and all that share with it. Values that are there already move along; the gradient is
  /// cleared.
  void bind(const std::shared_ptr<Memory>& data_memory, size_t data_offset,
            const std::shared_ptr<Memory>& diff_memory, size_t diff_offset);
  bool is_shared() const { return owner_ != nullptr; }
  Parameter& root() { return owner_ ? owner_->root() : *this; }
  const Parameter& root() const { return owner_ ? owner_->root() : *this; }

 private:
  Shape shape_;
  Filler filler_;
  void follow_owner();

  Parameter* owner_ = nullptr;
  std::vector<Parameter*> users_;  // of an owner
  bool cleared_ = true;
};

/// How many bottoms and tops a layer takes. max -1: no limit.
struct Arity {
  int min_bottoms = 1, max_bottoms = 1;
  int min_tops = 1, max_tops = 1;
};

/// What the backward pass reads of the forward pass; the net keeps only that.
struct BackwardReads {
  bool bottom_data = true;
  bool top_data = true;
};

/// Whether top 0 may lie in the memory of bottom 0 (and, going back, the bottom's diff in that of
/// the top's).
enum class InPlace : uint8_t {
  never,
  overwrite,  // the top's values replace the bottom's
  alias,      // the values are the same, only the shape differs: nothing need be computed
};

/// What the layer computes when it is but a pointwise activation that an engine in front can take
/// over (see Layer::absorb).
struct Activation {
  enum class Kind : uint8_t { relu, sigmoid, tanh } kind = Kind::relu;
  float alpha = 0;  // relu: slope for negative values
};

/// One way a layer could run: formats of its bottoms and tops of rank 3 and up (others are
/// contiguous), the engine (index into the registered ones of its device; -1: the reference), and
/// the measured seconds of forward (plus backward where the net trains), 0 when not measured.
struct FormatOption {
  Format bottom = Format::contiguous;
  Format top = Format::contiguous;
  int engine = -1;
  double seconds = 0;
};

/// One way of computing a layer. Made for one layer, told the problem by prepare.
class Engine {
 public:
  virtual ~Engine() = default;

  /// The formats it can run the layer's present shapes in. Empty: it cannot, and `why` says why.
  virtual std::vector<FormatOption> options(Layer& layer, Blobs bottom, Blobs top,
                                            std::string& why) = 0;
  /// Formats are those of an option it gave. Makes primitives and scratch memory.
  virtual void prepare(Layer& layer, Blobs bottom, Blobs top) = 0;
  virtual void forward(Layer& layer, Blobs bottom, Blobs top) = 0;
  virtual void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                        Blobs bottom) = 0;
  /// What its backward reads; by default what the layer's reference reads.
  virtual BackwardReads backward_reads(const Layer& layer) const;
  /// By default what the layer says.
  virtual InPlace in_place(const Layer& layer) const;
  /// Bytes of memory it holds beside the blobs: workspaces, scratch, weights in its own layout.
  virtual size_t extra_bytes() const { return 0; }
  /// Bytes that it needs while it runs, of memory that all layers of a device use in turn.
  virtual size_t scratch_bytes() const { return 0; }
  /// What it picked for this problem, for summary and time; e.g. "jit:avx512_core, winograd".
  virtual std::string detail() const { return {}; }
};

/// Floating point operations (a multiply-add is 2) of one pass over present shapes.
struct Flops {
  double forward = 0;
  double backward = 0;
};

class Layer {
 public:
  Layer(const LayerParameter& param, Context& context);
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  const std::string& type() const { return type_; }
  const LayerParameter& param() const { return *param_; }
  Phase phase() const { return phase_; }
  Context& context() const { return context_; }

  virtual Arity arity() const { return {}; }
  virtual void setup(Blobs bottom, Blobs top);
  virtual void reshape(Blobs bottom, Blobs top) = 0;

  /// All ways in which the present shapes can run, best engine first. With an engine forced, by
  /// `engine:` of the layer or, for all types that have it, by the context, only that one's; an
  /// Error that says why when it refuses, or when there is none of that name.
  std::vector<FormatOption> options(Blobs bottom, Blobs top);
  /// Takes the option's engine. The formats of bottom and top are set by now.
  void prepare(const FormatOption& option, Blobs bottom, Blobs top);

  void forward(Blobs bottom, Blobs top);
  /// propagate[i]: write the diff of bottom i (overwriting it). Adds to parameters' gradients. A
  /// top's diff is the gradient with respect to it; for a top with a loss weight that nobody reads,
  /// the weight in each element. Tops' diffs stay, unless keeps_top_diffs() is false.
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom);

  BackwardReads backward_reads() const;
  InPlace in_place() const;

  /// Name of the engine in use: "reference" or a registered name.
  std::string engine_name() const;
  Engine* engine() const { return engine_.get(); }
  /// Forward runs on the CPU although the context's device is another.
  bool falls_back_to_cpu() const;

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
  virtual std::optional<Activation> activation() const { return std::nullopt; }
  /// A data source: forward fetches the next batch. The net runs it also when nothing needs it.
  virtual bool is_source() const { return false; }

  /// Whether `activation` may be applied behind this layer instead of in front of it, as to a
  /// maximum where it never falls. Then absorb is also asked for one that stands in front.
  virtual bool commutes_with(const Activation& /*activation*/) const { return false; }
  /// Takes over the computation of `next`, which alone reads this layer's top: from then on this
  /// layer's top is next's top, in forward and backward. False: it cannot. `next` lives on for its
  /// parameters.
  virtual bool absorb(Layer& /*next*/) { return false; }

  /// Whether the net may backpropagate through this layer in its life; set before setup.
  bool trains() const { return trains_; }
  void set_trains(bool trains) { trains_ = trains; }
  /// Whether backward will be asked for the diff of bottom i, so that engines are chosen for the
  /// work that is to be done; set before options, all of them by default.
  bool propagates(int bottom) const {
    return trains_ && (propagates_.empty() || propagates_[static_cast<size_t>(bottom)]);
  }
  void set_propagates(std::vector<bool> propagates) { propagates_ = std::move(propagates); }
  /// Whether somebody reads the tops' diffs after backward, as the caller may those of outputs;
  /// otherwise backward may use their memory. Set before prepare.
  bool keeps_top_diffs() const { return keeps_top_diffs_; }
  void set_keeps_top_diffs(bool keeps) { keeps_top_diffs_ = keeps; }
  /// Element type of the net's activations and parameters: f32 or f64.
  DType dtype() const { return dtype_; }
  void set_dtype(DType dtype) { dtype_ = dtype; }

  /// The reference, for engines and tests that want to call it by itself.
  virtual void forward_cpu(Blobs bottom, Blobs top) = 0;
  virtual void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom);

 protected:
  /// For setup: declares parameter number params().size().
  Parameter& add_param(const Shape& shape, Filler filler);
  /// What the reference reads in its backward, and whether it may run in place.
  virtual BackwardReads reference_backward_reads() const { return {}; }
  virtual InPlace reference_in_place() const { return InPlace::never; }
  /// Formats that the reference can run in; the default is contiguous only.
  virtual std::vector<FormatOption> reference_options(Blobs bottom, Blobs top) const;
  /// Runs when formats are fixed and the engine is chosen: scratch memory of the reference.
  virtual void prepare_reference(Blobs /*bottom*/, Blobs /*top*/) {}

 private:
  friend class Engine;
  /// The one that message or context ask for, among those of the type; "" when the choice is free.
  std::string forced_engine(const std::vector<const EngineEntry*>& engines) const;

  std::string name_, type_;
  std::unique_ptr<const LayerParameter> param_;
  Context& context_;
  Phase phase_;
  bool trains_ = true;
  std::vector<bool> propagates_;
  bool keeps_top_diffs_ = true;
  DType dtype_ = DType::f32;
  std::vector<std::unique_ptr<Parameter>> params_;
  std::unique_ptr<Engine> engine_;
  int engine_index_ = -1;
};

}  // namespace crema
