// Layer: what one computation of a net is: settings, parameters, shapes, and its reference
// implementation.
//
// The net calls the methods of a layer in this order:
//
//   constructor   reads the message; throws an Error for wrong settings
//   setup         once, when the shapes of the bottoms are known: checks them, declares parameters
//   require       once: what the net needs of it
//   reshape       sets the shapes of the tops; called any number of times
//
// A kernel computes the layer in one set of shapes and layouts (crema/kernel.hpp), made by an
// engine (crema/engine.hpp) such as one of oneDNN or cuDNN. Every layer implements forward_cpu and
// backward_cpu for f32 and f64 and contiguous memory. This implementation is called the reference;
// the kernel of an option without an engine calls it. Engines are tried before the reference, in
// the order of their registration. One thread at a time may use a layer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crema/arithmetic.hpp"
#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/engine.hpp"
#include "crema/error.hpp"
#include "crema/filler.hpp"
#include "crema/kernel.hpp"
#include "crema/layout.hpp"
#include "crema/parameter.hpp"
#include "crema/run_state.hpp"
#include "crema/tail.hpp"

namespace crema {

class CarriesState;    // src/core/carried_state.hpp
class CountsImages;    // src/core/counts_images.hpp
class DataSource;      // src/core/data_source.hpp
class LayerParameter;  // proto/layer.proto

enum class Phase : uint8_t { train, test };

/// The numbers of bottoms and tops that a layer accepts. A maximum of -1 means no limit.
struct Arity {
  int min_bottoms = 1, max_bottoms = 1;
  int min_tops = 1, max_tops = 1;
};

/// What determines the shapes of a layer's tops.
enum class TopShapes : uint8_t {
  fixed,        // the shapes of the bottoms and the settings
  per_batch,    // a source: fetch() sets the shapes before the pass
  from_values,  // reshape() sets bounds (see has_unbounded_tops()), forward() the shapes
};

/// A map whose positions are numbered row by row, as in the mask of maximum pooling: row * width +
/// column.
struct PlacedMap {
  int64_t height = 0, width = 0;
  int64_t rows = 0;  // all places are in the first `rows` rows; at most `height`
};

/// What a value is the mean over.
struct MeanUnits {
  double count = 0;     // such as labels that are not ignored
  bool is_sum = false;  // over the batch, without a divisor that follows it
  double divisor = 0;   // of the sum, where it is not `count`: 1 for losses over nothing

  /// The value times this is the sum.
  double factor() const { return is_sum ? 1 : divisor > 0 ? divisor : count; }
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
  /// How a device computes.
  Arithmetic arithmetic = {};
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
  const Arithmetic& arithmetic() const { return arithmetic_; }

  virtual Arity arity() const { return {}; }
  virtual void setup(Blobs /*bottom*/, Blobs /*top*/) {}
  virtual void reshape(Blobs bottom, Blobs top) = 0;

  virtual TopShapes top_shapes() const { return TopShapes::fixed; }
  /// For TopShapes::from_values: whether forward may make tops of any shapes, such as those of a
  /// script. What reshape() sets is a guess then. Memory is planned for it; a top that needs more,
  /// and what layers behind make of it, gets memory of its own. Those layers are asked about the
  /// shapes that forward has made: what they refuse of the guess is no Error, unless they have
  /// taken no other shapes before.
  virtual bool has_unbounded_tops() const { return false; }
  /// For TopShapes::per_batch: loads the next batch and sets the shapes of the tops. The next
  /// forward writes that batch. If the batch of the last call was not written yet, because the pass
  /// failed before, that batch is the next one.
  virtual void fetch(Blobs /*top*/) {}

  /// What the net needs beside forward. The steps of its tail are those that accepts() allowed.
  void require(Requirements requirements) { requirements_ = std::move(requirements); }
  const Requirements& requirements() const { return requirements_; }
  const Tail& tail() const { return requirements_.tail; }
  /// Whether backward has to write the diff of bottom i.
  bool propagates(int bottom) const {
    const auto i = static_cast<size_t>(bottom);
    return trains_ && (i >= requirements_.bottom_diffs.size() || requirements_.bottom_diffs[i]);
  }
  /// The bottom whose memory top 0 may use, if Kernel::in_place() allows that.
  virtual size_t in_place_bottom() const { return 0; }

  /// Converts parameters of a weights file that differ from params() in number or shapes. On
  /// success, `published` has the number and shapes of params(), contiguous, of f32 or f64. Returns
  /// false if the layer does not know the given form.
  virtual bool convert_weights(std::vector<Tensor>& /*published*/) const { return false; }

  std::vector<std::unique_ptr<Parameter>>& params() { return params_; }
  const std::vector<std::unique_ptr<Parameter>>& params() const { return params_; }

  /// The loss_weight of top i if the prototxt sets none. 1 for top 0 of a loss layer.
  virtual float default_loss_weight(int /*top*/) const { return 0; }
  /// Whether the layer can compute the diff of bottom i. False for labels. A net that trains is an
  /// Error if a path from a loss to what learns ends here, unless propagate_down is false.
  virtual bool can_propagate(int /*bottom*/) const { return true; }
  /// Whether bottom b is a constant for the layer: its shape alone is read, or a setting keeps
  /// gradients from it. A loss that would train through it is refused.
  virtual bool is_constant(int /*b*/) const { return false; }
  /// Whether bottom b, which has no gradient, mostly holds what other layers compute from what
  /// learns, but without gradient, such as regions and weights. No propagate_down has to say so.
  virtual bool takes_constants(int /*b*/) const { return false; }
  /// Whether top t has a gradient, which backward reads. False for masks, for regions that are
  /// proposed, and for what a loss shows beside itself: they are constants for what reads them.
  virtual bool has_gradient(int /*t*/) const { return true; }
  /// Whether a net with `force_backward` computes the diff of this bottom.
  virtual bool allow_force_backward(int bottom) const { return can_propagate(bottom); }
  /// Operations of one pass, for `summary` and `time`.
  virtual Flops flops(Blobs /*bottom*/, Blobs /*top*/) const { return {}; }
  /// The caller fills the tops.
  virtual bool is_input() const { return false; }
  /// The values of the tops come from outside: each forward writes the next batch, or the caller
  /// does.
  virtual bool is_source() const { return is_input() || data_source() != nullptr; }
  // What else the layer is; null: it is not.
  virtual const DataSource* data_source() const { return nullptr; }
  virtual const CarriesState* carries_state() const { return nullptr; }
  virtual CountsImages* counts_images() { return nullptr; }
  DataSource* data_source() { return const_cast<DataSource*>(std::as_const(*this).data_source()); }
  CarriesState* carries_state() {
    return const_cast<CarriesState*>(std::as_const(*this).carries_state());
  }

  /// What forward computes or checks on the host though its kernel is one of a device, in a few
  /// words for those who look at the net: "choice of boxes". "" if nothing.
  virtual std::string host_part() const { return {}; }
  /// With a host_part(): whether the host reads bottom b for it.
  virtual bool host_reads(int /*b*/) const { return true; }
  /// With a host_part(): whether the host writes the tops.
  virtual bool host_writes() const { return true; }

  /// What forward changes beside its tops and beside what the next batch of a sequence begins with
  /// (carries_state), such as "its running statistics"; "" if nothing. Runners share a net only
  /// where no layer changes anything.
  virtual std::string changes() const { return {}; }
  /// Paths of the files that the layer reads, beside those in the fields of its settings: what its
  /// lists and folders name.
  virtual std::vector<std::string> input_files() const { return {}; }

  /// The tops hold values of the bottoms, unchanged. Labels that pass such a layer have to stay
  /// exact, as in front of the layer that reads them.
  virtual bool moves_values() const { return false; }
  /// For such a layer: whether top t holds values of bottom b.
  virtual bool moves(int /*b*/, int /*t*/) const { return true; }
  /// For TopShapes::per_batch: whether fetch() sets a bound on the shape of top t, such as the list
  /// of all boxes, and forward the shape, as with TopShapes::from_values. A batch that fits needs
  /// no new program. Fixed once the layer is set up.
  virtual bool is_late(int /*t*/) const { return false; }
  /// The map in which the values of top t are places, in the present shapes. None if they are
  /// something else.
  virtual std::optional<PlacedMap> places_of(int /*t*/) const { return std::nullopt; }
  /// Error, in the present shapes, if the values of bottom b, which are places in a `map`, are not
  /// the same positions here: in a map of another width, a place means another position without
  /// being out of range. `maker` names the layer that made them: "layer 'pool1' (Pooling)".
  virtual void check_places(int /*b*/, const PlacedMap& /*map*/,
                            const std::string& /*maker*/) const {}
  /// What element `index` of a top is the mean over after forward, beside the records of a batch:
  /// the mean over all records of a test follows from those of batches and from this. None: a mean
  /// over the records, or a value of one.
  virtual std::optional<MeanUnits> mean_over(int /*top*/, int64_t /*index*/) const {
    return std::nullopt;
  }
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
  /// Whether this layer can apply `tail` to its top. The net calls it before require(). Refuse
  /// kinds of steps that the layer does not know: there may be new ones.
  virtual bool accepts(const Tail& /*tail*/) const { return false; }
  /// Whether applying `step` to the top gives the same values as applying it to the bottom.
  /// Example: maximum pooling and ReLU. The net may then move a step from in front of this layer
  /// into its tail, if accepts() allows that.
  virtual bool commutes_with(const TailStep& /*step*/) const { return false; }
  /// Bytes that the layer holds between its passes, which the kernel of the reference reports.
  virtual size_t kept_bytes() const { return 0; }

  /// The reference, as Kernel::forward() and backward().
  virtual void forward_cpu(Blobs bottom, Blobs top) = 0;
  virtual void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom);
  /// The forward values that the reference reads in backward. Default: all.
  virtual BackwardReads reference_backward_reads() const { return {}; }
  /// Whether the reference may run in place.
  virtual InPlace reference_in_place() const { return InPlace::never; }
  /// The layouts in which the reference can run. Default: contiguous, of dtype().
  virtual std::vector<Option> reference_options(Blobs bottom, Blobs top) const;
  /// Called when a kernel of the reference is made, and when the net returns to its shapes. For
  /// scratch memory.
  virtual void prepare_reference(Blobs /*bottom*/, Blobs /*top*/) {}

 protected:
  /// For setup(): declares the next parameter and gives it lr_mult and decay_mult of the prototxt.
  Parameter& add_param(const Shape& shape, Filler filler);

 private:
  std::string name_, type_;
  std::unique_ptr<const LayerParameter> param_;
  Context& context_;
  const RunState& run_;
  Phase phase_;
  DType dtype_, activations_;
  bool trains_;
  Arithmetic arithmetic_;
  Requirements requirements_;
  std::vector<std::unique_ptr<Parameter>> params_;
};

}  // namespace crema
