// Net: the layers of a prototxt, planned and ready to run.
//
//   crema::Context context;
//   crema::Net net("deploy.prototxt", context, {.phase = crema::Phase::test});
//   net.load_weights("net.caffemodel");
//   std::copy(pixels.begin(), pixels.end(), net.input("data").overwrite<float>());
//   net.forward();
//   crema::Tensor scores = net.output("prob");   // contiguous, valid until the next forward
//
// After a pass, these blobs are valid: inputs, outputs, losses, tops of data sources, and those
// that NetOptions::keep names. All other blobs share memory and may hold the values of another
// blob.
//
// Errors: every failure throws an Error. If load_weights throws, the parameters are unchanged. If
// reshape or forward throws because a layer refuses a shape, the next forward plans again: the
// caller can give the inputs other shapes and continue.
//
// Threads: one thread at a time may use a net. Net::runner() gives another thread the same net. On
// the CPU, several nets may run at the same time in different threads. Nets that share parameters
// (runners, and NetOptions::share_params_with) may run forward at the same time, but not backward,
// and not if a layer changes parameters in forward, as BatchNorm does in the TRAIN phase. On CUDA,
// one thread at a time may use the nets of a context.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

class NetParameter;    // proto/net.proto
class ParameterArena;  // crema/parameter_arena.hpp
class SourceMap;       // src/model/source_map.hpp
struct Plan;           // src/net/plan.hpp

struct NetOptions {
  /// Of the net, and of its layers that have no `phase` of their own in the prototxt.
  Phase phase = Phase::train;
  /// Level and stages, which the include and exclude rules of layers test, as in
  /// `include { min_level: 1 stage: "deploy" }`. Stages of the net's `state` are added to these.
  /// The level of the net's `state` counts if this one is 0.
  int level = 0;
  std::vector<std::string> stages = {};
  /// Element type of parameters, labels, losses and all blobs that the caller can read: f32 or f64.
  DType dtype = DType::f32;
  /// Element type of activations between layers: `dtype`, or DType::bf16 or f16 if dtype is f32.
  /// Default: as the net's `precision` says if dtype is f32, else dtype.
  std::optional<DType> activations = {};
  /// How a GPU multiplies f32, and whether all its sums have the same order every time. Default: as
  /// the net's `math` and `deterministic` say.
  std::optional<Math> math = {};
  std::optional<bool> deterministic = {};
  /// Whether backward() can be called. Default: in the TRAIN phase only.
  enum class Backward : uint8_t { by_phase, yes, no } backward = Backward::by_phase;
  /// Whether a layer may compute the operations of layers behind it in the same pass over memory.
  /// Nets that do not train fold BatchNorm and Scale into convolutions, which rounds differently
  /// and takes a copy of these weights.
  bool fuse = true;
  /// Gives every blob and diff its own memory, so that all are valid after a pass. Disables fusion.
  bool keep_all = false;
  /// The most bytes that memory() may plan in all, with `parameter_copies`; 0: no limit. If the net
  /// needs more, it drops tops after forward and computes them again in backward, as layers with
  /// `recompute` do: those that take the fewest seconds among the choices that fit. Losses and
  /// gradients stay the same to the bit. It holds for the shapes in use: what is kept for earlier
  /// shapes needs memory besides. Error, here or in a forward with new shapes, if the smallest plan
  /// found exceeds the budget.
  size_t memory_budget = 0;
  /// Arrays of the size of params() that the caller holds beside the net, as the history of a
  /// solver. They count against `memory_budget` only.
  int parameter_copies = 0;
  /// Names of blobs that are valid after a pass, in addition to inputs and outputs.
  std::vector<std::string> keep = {};
  /// Another net whose parameters this net uses, by layer name. Both nets must have the same
  /// context, or both run on the CPU. params() of this net holds only the parameters that the other
  /// net does not have. The other net may be destroyed first; its parameters stay valid. During its
  /// destruction, this net may run forward only.
  class Net* share_params_with = nullptr;
  /// What happens if share_params_with has no layer of a name. True: an Error for a layer that
  /// learns. False, and for layers that do not learn: a warning, and the layer has own parameters.
  bool share_all = false;
  /// Weights files, loaded in this order as by load_weights(). Fillers do not run for the
  /// parameters in them. `need_all_weights`: Error if the files lack a layer with parameters.
  /// `strict`: Error unless the files together have exactly the layers of the net.
  std::vector<std::string> weights = {};
  bool need_all_weights = false;
  bool strict = false;
  /// Layers that do not learn, although the net trains: a name stands for the layer and all before
  /// it in the prototxt, a regular expression between slashes, such as "/conv.*/", for the layers
  /// whose whole names it matches. Their parameters keep their values, BatchNorm among them uses
  /// its stored statistics, and backward leaves out what no other layer needs. Error for a name or
  /// a pattern of no layer.
  std::vector<std::string> freeze = {};
  /// A run state owned by the caller. It must outlive the net; the caller changes it between
  /// passes. Null: the net has its own, with the seed of the context, and counts forward passes in
  /// it.
  RunState* run = nullptr;
  /// On a device: whether passes over the whole net are recorded once for each set of shapes and
  /// then run as CUDA graphs, as far as the layers allow. Results are the same.
  bool graphs = true;
};

/// What happened to each layer's parameters when weights were loaded.
struct LoadReport {
  std::vector<std::string> loaded;   // layers whose weights were loaded
  std::vector<std::string> missing;  // layers with parameters that are not in the file
  std::vector<std::string> unused;   // layers of the file that are not in the net
  std::string str() const;
};

/// One unit of work of a net: a layer, or a conversion between layouts.
struct NetStep {
  std::string name;                // of the layer; for a conversion, of the blob
  std::string type;                // of the layer; for a conversion, "Conversion"
  int layer = -1;                  // index into Net::layers(); -1: a conversion
  std::vector<int> bottoms, tops;  // indices into Net::values()
  bool backward = false;           // backward() runs it too
  bool recomputed = false;  // its tops are dropped after forward; backward() makes them again
  bool falls_back_to_cpu = false;  // the context has a device, but the layer has no code for it;
                                   // false for data sources, which always run on the host
  std::string engine;              // "reference" or the name of a registered engine
  std::string detail;              // Kernel::detail(): the primitives chosen for this problem
  /// Layouts of bottom 0 and top 0, such as "bf16 channels_last". f32 is left out. "": no such
  /// blob.
  std::string bottom_format, top_format;
  Flops flops;  // operations a pass, not per second
};

/// A layer of the prototxt and the step that computes it. For a layer fused into another one, only
/// name, type, layer, params and fused_into are set.
struct LayerSummary : NetStep {
  std::string fused_into;  // the layer that computes this layer too, or ""
  int64_t params = 0;      // number of values, without parameters shared with an earlier layer
};

/// What steps read and write: the data of a blob in one version and one layout. A value that was
/// fused away has no producer, no readers and no memory.
struct NetValue {
  std::string name;
  int version = 0;  // layers in place make a new version, conversions do not
  Shape shape;
  Layout layout;
  size_t bytes = 0;          // of the data, with the padding of its format
  int producer = -1;         // step; -1: none
  std::vector<int> readers;  // steps; one entry for each bottom
  bool kept = false;         // valid until the next pass
};

/// Planned memory in bytes. The first pass allocates it.
struct MemoryPlan {
  size_t activations = 0;           // data and diffs of all blobs
  size_t activations_unshared = 0;  // the same without sharing of memory between blobs
  size_t reserved = 0;  // the part of activations that is not shared: inputs, outputs, kept blobs
  /// Values, and gradients if the net trains, without those of another net; and noisy copies.
  size_t parameters = 0;
  size_t engines = 0;  // memory that layers and engines hold, and scratch memory of all threads
};

class Net {
 public:
  /// Builds the net of the prototxt file at `path`. Errors name file, line and layer. The context
  /// must outlive the net.
  Net(const std::string& path, Context& context, NetOptions options = {});
  /// Builds the net of a message, with the weights in its layers (`blobs`), such as a message read
  /// from a .caffemodel.
  Net(const NetParameter& param, Context& context, NetOptions options = {});
  /// The same for a message that was read from a text file. Errors name positions in that file.
  Net(const NetParameter& param, const SourceMap& source, Context& context,
      NetOptions options = {});
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  /// The same net for another thread: it shares graph, parameters and what is derived from them,
  /// and has layers, activations, shapes and a run state of its own. It runs forward alone. This
  /// net may be destroyed first; the context may not. Weights that are loaded into one of them are
  /// those of all; no pass may run meanwhile. Error if the net trains, reads data, adds noise to
  /// parameters, runs on a device, or if a layer changes more than its tops (Layer::changes()).
  Net runner() const;

  const std::string& name() const;
  Phase phase() const;
  Context& context() const;

  /// The blob of that name: contiguous, of NetOptions::dtype. If layers run in place on the name,
  /// its last value. The data are those of the last forward; the diff is that of the last backward,
  /// if has_diff(). If the blob is an output and no loss, the caller writes its diff before
  /// backward; the diff stays until the caller writes it again. Error if there is no such blob, or
  /// if the blob was fused away or shares memory with others; NetOptions::keep prevents both.
  Blob& blob(const std::string& name);
  bool has_blob(const std::string& name) const;
  std::vector<std::string> blob_names() const;
  /// All values of that name that were not fused away, in order of computation. Layers that run in
  /// place make several. The shapes are valid; the contents are valid for those of blob() only.
  std::vector<Blob*> blob_versions(const std::string& name);
  /// Whether backward computes the diff of this blob.
  bool has_diff(const Blob& blob) const;

  /// Names of the blobs that the caller fills.
  const std::vector<std::string>& inputs() const;
  /// Names of the blobs that no layer reads.
  const std::vector<std::string>& outputs() const;
  /// The tensor of an input, contiguous. Error if there is no such input.
  Tensor& input(const std::string& name);
  /// The values of a blob as a contiguous tensor, valid until the next forward. Errors as for
  /// blob().
  Tensor output(const std::string& name);

  /// Sets the shape of an input for the next reshape() or forward().
  void reshape_input(const std::string& name, const Shape& shape);
  /// Computes all shapes from the shapes of the inputs, and plans for them if they changed.
  /// forward() does this by itself. The plans of the last few sets of shapes are kept, so that a
  /// return to one of them is cheap. Memory only grows.
  void reshape();
  /// Drops all plans and plans for the present shapes again, as after the tuner of the context got
  /// other choices.
  void replan();

  /// Seed, iteration and pass of the next forward pass; its random numbers are functions of them. A
  /// net with an own run state increments `iteration` before each forward pass but the first. After
  /// a call of this function, the next forward pass uses the state unchanged.
  RunState& run_state();

  /// Runs all layers. Returns the sum of the losses, each times its weight. On the CPU, for a loss
  /// that is not finite, a warning in the log names the first such value of the layer's bottoms.
  double forward();
  /// Runs the layers from index `first` to index `last` of layers(), both included. Needs
  /// NetOptions::keep_all; otherwise other layers may have overwritten the bottoms. Returns the
  /// weighted sum of the losses among these layers.
  double forward(size_t first, size_t last);
  /// Adds to the gradients of the parameters; clear_gradients() starts a new sum. Error if the net
  /// was built without backward, if the last forward threw, if shapes changed after it, or if
  /// backward ran after it: gradients overwrite activations, except with NetOptions::keep_all.
  void backward();
  /// The same for the layers from index `first` down to index `last`, both included. The diffs of
  /// blobs that layers behind `first` read are taken as they are, with their loss weights.
  void backward(size_t first, size_t last);
  /// backward() starts from each loss weight times `scale`, so that small gradients of 16-bit blobs
  /// do not become 0. All gradients have this factor; who uses them divides by it. It counts from
  /// the next backward pass on; at first it is 1. Error unless it is positive and finite. For a net
  /// of a solver, call Solver::set_loss_scale().
  void set_loss_scale(double scale);
  double loss_scale() const;
  /// Sets a function that backward() calls when the gradient of a segment is complete. Its argument
  /// is the index of the segment in params().segments().
  void on_gradient(std::function<void(size_t segment)> hook);
  /// Sets the gradients of all parameters to zero, those shared with another net included. Their
  /// memory is cleared later, see Parameter.
  void clear_gradients();

  /// The layers of the prototxt that are in this net. If a name occurs again, "#2" is appended to
  /// it, here and everywhere but in weights files.
  const std::vector<Layer*>& layers() const;
  /// Error if there is no such layer; the message suggests the nearest name.
  Layer& layer(const std::string& name);
  bool has_layer(const std::string& name) const;
  /// The steps of forward(), in order, without layers that were fused into others. Empty after a
  /// reshape() that threw.
  const std::vector<NetStep>& steps() const;
  /// Runs one step; for timing. Step 0 begins a pass: sources load their batches, and if these have
  /// new shapes, the net plans again, so that steps() changes. backward_step needs
  /// NetStep::backward.
  void forward_step(size_t step);
  void backward_step(size_t step);
  /// The tops of a step. Later steps may overwrite them. They may be ranges of the rows of others
  /// (Tensor::bind_rows()).
  Blobs step_tops(size_t step) const;
  /// The weight of blob `name` in the loss; 0 if the blob is no loss.
  float loss_weight(const std::string& name) const;

  /// The parameters of this net, without those of share_params_with. A runner has none of its own.
  ParameterArena& params();
  const ParameterArena& params() const;

  /// Copies parameters from a .caffemodel by layer name. Layers of the same name are matched in
  /// their order. Error if a shape differs, and if `strict` and the report has missing or unused
  /// layers. Everything is checked before the first value is copied.
  LoadReport load_weights(const std::string& path, bool strict = false);
  LoadReport load_weights(const NetParameter& weights, bool strict = false);
  /// Writes the layers and their parameters to the published message. `with_diffs`: gradients too.
  /// A layer gets a `phase` only if the prototxt gave it one, so the message can be built in any.
  /// `origin` says by which version of the program and from which net it was made.
  void save(NetParameter& out, bool with_diffs = false) const;
  /// The same to a .caffemodel.
  void save_weights(const std::string& path) const;
  struct SavedLayer {
    std::string name;   // in weights files, where two layers may have the same
    size_t parameters;  // how many tensors
  };
  /// The layers of save(), without values.
  std::vector<SavedLayer> saved_layers() const;

  /// The graph of the net: what its steps read and write, valid until shapes change. Empty after a
  /// reshape() that threw.
  std::vector<NetValue> values() const;
  std::vector<LayerSummary> summary() const;
  MemoryPlan memory() const;
  /// Messages of the passes for the user, such as warnings of settings without effect. They were
  /// logged too.
  const std::vector<std::string>& notes() const;

 private:
  friend struct Plan;
  explicit Net(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

}  // namespace crema
