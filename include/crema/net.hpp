// Net: the layers of a prototxt, planned and ready to run.
//
//   crema::Context context;
//   crema::Net net("deploy.prototxt", context, {.phase = crema::Phase::test});
//   net.load_weights("net.caffemodel");
//   std::copy(pixels.begin(), pixels.end(), net.input("data").host_overwrite<float>());
//   net.forward();
//   crema::Tensor scores = net.output("prob");   // contiguous, valid until the next forward
//
// A net keeps what it was asked for: inputs, outputs, losses, data and what NetOptions::keep names.
// All other blobs share memory, and hold another blob's values by the time forward() returns.
//
// Failure: whatever cannot be done is an Error. One from the constructor leaves no net; one from
// load_weights leaves the parameters as they were; one from reshape or forward (a shape that some
// layer refuses) leaves a net that plans again in its next forward, so that the caller can give
// inputs other shapes and go on.
//
// Threads: one net runs on one thread at a time, whichever. On the CPU, nets may run at the same
// time in different threads, and those that share parameters (NetOptions::share_params_with) may
// run forward so. On CUDA, all nets of a context run on one thread at a time.
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
  Phase phase = Phase::train;
  /// For the rules of layers (`include { min_level: 1 stage: "deploy" }`). The net's own `state`
  /// adds its stages, and gives the level where this one is 0.
  int level = 0;
  std::vector<std::string> stages = {};
  /// Of parameters, labels, losses and all blobs that the caller sees: f32 or f64.
  DType dtype = DType::f32;
  /// Of the activations between layers: `dtype`, or DType::bf16 with f32. Default: as the net's
  /// `precision` says, where dtype is f32.
  std::optional<DType> activations = {};
  /// Whether backward() will be called. Default: in the TRAIN phase only.
  enum class Backward : uint8_t { by_phase, yes, no } backward = Backward::by_phase;
  /// Fuse layers where that leaves the results the same.
  bool fuse = true;
  /// Keep every blob and diff in memory of its own, to look at after a pass.
  bool keep_all = false;
  /// Blobs to keep beside inputs and outputs.
  std::vector<std::string> keep = {};
  /// Use this net's parameters, by layer name, instead of own ones. It must be of the same context,
  /// or of another one on the CPU like this one. The shared ones stay that net's: params() here
  /// holds only what that net lacks. When it ends first, those who share go on with its values;
  /// while it ends they may run forward, and nothing else.
  class Net* share_params_with = nullptr;
  /// A layer that learns and that share_params_with lacks is an Error. Otherwise, as every layer
  /// with parameters that it lacks: a warning, and parameters of its own.
  bool share_all = false;
  /// Files of parameters, loaded as by load_weights() one after the other: what they hold is not
  /// drawn first. `strict`: together they have to fit the net exactly.
  std::vector<std::string> weights = {};
  bool strict = false;
  /// Seed, iteration and pass of the caller, who changes them between passes and keeps them alive.
  /// Null: the net has its own, which begin with the context's seed and count its forward passes.
  RunState* run = nullptr;
};

/// What happened to each layer's parameters when weights were loaded.
struct LoadReport {
  std::vector<std::string> loaded;   // layers that got their weights
  std::vector<std::string> missing;  // layers of the net with parameters that the file lacks
  std::vector<std::string> unused;   // layers of the file that the net lacks
  std::string str() const;
};

/// One unit of work of a net: a layer, or a conversion between layouts.
struct NetStep {
  std::string name;       // the layer's; of a conversion, the blob's
  std::string type;       // the layer's; "Conversion"
  int layer = -1;         // index into Net::layers(); -1: a conversion
  bool backward = false;  // backward() runs it too
  std::string engine;     // which way of computing runs: "reference" or a registered name
  std::string detail;     // what the engine picked for this problem, in its own words; or ""
  /// Type (where it is not f32) and format of bottom 0 and top 0; "" where there is none.
  std::string bottom_format, top_format;
  Flops flops;  // operations a pass, not per second
};

/// A layer of the prototxt and the step that computes it. Of a layer that was fused into another
/// one, only name, type, layer, params and fused_into are set.
struct LayerSummary : NetStep {
  std::string fused_into;  // the layer that computes this one's work too, or ""
  std::vector<Shape> bottoms, tops;
  int64_t params = 0;    // values, save those that an earlier layer of the net holds already
  size_t top_bytes = 0;  // of the tops' data, padding of their format included
  bool falls_back_to_cpu = false;
};

/// The net as forward() runs it. Nodes are in order, one an entry of Net::steps(); their indices
/// and those of values hold until shapes change.
struct NetGraph {
  struct Node {
    std::string name, type;          // as NetStep has them
    int layer = -1;                  // index into Net::layers(); -1: a conversion
    std::vector<int> bottoms, tops;  // values
  };
  struct Value {
    std::string name;
    int version = 0;  // layers in place make new ones; in another layout it is the same
    Shape shape;
    Layout layout;
    int producer = -1;         // node
    std::vector<int> readers;  // nodes; an entry for each bottom
    bool kept = false;         // holds its values until the next pass
  };
  std::vector<Node> nodes;
  std::vector<Value> values;
};

/// Bytes. Known before the memory is taken, which the first pass does.
struct MemoryPlan {
  size_t activations = 0;           // data and diffs of all blobs, as planned
  size_t activations_unshared = 0;  // the same if every blob had memory of its own
  size_t reserved = 0;    // part of activations that is not shared: inputs, outputs, kept blobs
  size_t parameters = 0;  // data, and gradients where the net trains; not those of another net
  size_t engines = 0;     // what engines hold, and their scratch memory, of all threads
};

class Net {
 public:
  /// Reads the prototxt file at `path`, filters, plans. Errors carry file, line and layer.
  Net(const std::string& path, Context& context, NetOptions options = {});
  /// The net of a message, with the weights that its layers carry (`blobs`), such as one read from
  /// a .caffemodel. The context must outlive the net.
  Net(const NetParameter& param, Context& context, NetOptions options = {});
  /// The same for a message of a text, whose places Errors then name.
  Net(const NetParameter& param, const SourceMap& source, Context& context,
      NetOptions options = {});
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  const std::string& name() const;
  Phase phase() const;
  Context& context() const;

  /// A blob that the net keeps, by name. An in-place name means its last value. Its data are those
  /// of the last forward, its diff that of the last backward where has_diff; in a blob that is no
  /// loss and that no layer reads, the caller seeds backward by writing the diff, which stays until
  /// the caller writes it again. Error when there is no such blob, and when it was fused away or
  /// shares its memory with others: name it in NetOptions::keep.
  Blob& blob(const std::string& name);
  bool has_blob(const std::string& name) const;
  std::vector<std::string> blob_names() const;
  /// Every value that bore the name and was not fused away, in order of computation (several for
  /// in-place layers). For shapes: of those that blob() refuses, the contents mean nothing.
  std::vector<Blob*> blob_versions(const std::string& name);
  /// Whether backward computes this version's diff.
  bool has_diff(const Blob& blob) const;

  /// Names of the blobs that the caller fills, and of those that no layer reads.
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;
  /// An input's tensor, contiguous. Error when `name` is no input.
  Tensor& input(const std::string& name);
  /// The values of a kept blob as a contiguous tensor, valid until the next forward. Errors as
  /// blob().
  Tensor output(const std::string& name);

  /// Gives an input another shape; takes effect at the next reshape() or forward().
  void reshape_input(const std::string& name, const Shape& shape);
  /// Plans the net anew for the shapes of its inputs. forward() does so by itself for shapes that it
  /// has not met; the plans of those met last are kept. Memory only grows.
  void reshape();

  /// What the next forward pass draws its random numbers by. A net of its own run counts
  /// `iteration` up before each forward pass but the first; what is set here counts as it is in the
  /// next one.
  RunState& run_state();

  /// Runs all layers. Returns the weighted sum of the losses.
  double forward();
  /// Runs the layers from `first` to `last` alone, indices into layers(), both included. For nets
  /// with NetOptions::keep_all: in others, blobs that a pass has finished with are overwritten.
  /// Returns the weighted sum of the losses among them.
  double forward(size_t first, size_t last);
  /// Adds to the gradients of the parameters; call clear_gradients() first where a new sum begins.
  /// Error when the net does not train, when its last forward pass did not end well, and when its
  /// shapes changed since.
  void backward();
  /// The layers from `first` down to `last` alone, likewise.
  void backward(size_t first, size_t last);
  /// Called within backward when the gradient of a segment of params() is complete, with its index.
  void on_gradient(std::function<void(size_t segment)> hook);
  /// Of all parameters that layers of this net have, another net's too that it shares.
  void clear_gradients();

  /// The layers of the prototxt that are in this net. A name that comes a second time has "#2"
  /// behind it here, and everywhere but in files of weights.
  const std::vector<Layer*>& layers() const;
  /// Error when there is no such layer; the nearest name is given.
  Layer& layer(const std::string& name);
  bool has_layer(const std::string& name) const;
  /// What forward() runs, in order; layers that were fused into others are not among them. Empty
  /// after a reshape that failed.
  const std::vector<NetStep>& steps() const;
  /// Runs one step; for timing. backward_step needs NetStep::backward.
  void forward_step(size_t step);
  void backward_step(size_t step);
  /// The tops of a step. Their memory may be used again by later steps.
  Blobs step_tops(size_t step) const;
  /// Weight of blob `name` in the loss, 0 when it is none.
  float loss_weight(const std::string& name) const;

  /// The net's own parameters: not those of share_params_with, nor those of layers without any.
  ParameterArena& params();
  const ParameterArena& params() const;

  /// Copies parameters by layer name from a .caffemodel; where a name repeats, by the order of its
  /// layers. A shape that differs is an Error; `strict` makes missing and unused layers one too.
  /// All is checked before anything is copied.
  LoadReport load_weights(const std::string& path, bool strict = false);
  LoadReport load_weights(const NetParameter& weights, bool strict = false);
  /// The net's layers with their parameters, in the published form.
  void save(NetParameter& out, bool with_diffs = false) const;
  void save_weights(const std::string& path) const;

  /// Nodes, values and what connects them. Empty after a reshape that failed.
  NetGraph graph() const;
  std::vector<LayerSummary> summary() const;
  MemoryPlan memory() const;
  /// What the passes did that the user may want to know: repairs, fusions, fallbacks.
  const std::vector<std::string>& notes() const;

 private:
  friend struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace crema
