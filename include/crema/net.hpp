// Net: the layers of a prototxt, planned and ready to run.
//
//   crema::Context context;
//   crema::Net net("deploy.prototxt", context, {.phase = crema::Phase::test});
//   net.load_weights("net.caffemodel");
//   std::copy(pixels.begin(), pixels.end(), net.input("data").host_overwrite<float>());
//   net.forward();
//   crema::Tensor scores = net.output("prob");   // contiguous, valid until the next forward
//
// Threads: one net runs on one thread at a time, whichever. Nets that share parameters
// (NetOptions::share_params_with) may run forward at the same time in different threads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

class NetParameter;    // proto/net.proto
class ParameterArena;  // crema/parameter_arena.hpp
struct Plan;           // src/net/plan.hpp

struct NetOptions {
  Phase phase = Phase::train;
  int level = 0;
  std::vector<std::string> stages = {};
  DType dtype = DType::f32;
  /// Whether backward() will be called. Default: in the TRAIN phase only.
  enum class Backward : uint8_t { by_phase, yes, no } backward = Backward::by_phase;
  /// Fuse layers where that leaves the results the same.
  bool fuse = true;
  /// Keep every blob and diff in memory of its own, to look at after a pass.
  bool keep_all = false;
  /// Blobs to keep beside inputs and outputs.
  std::vector<std::string> keep = {};
  /// Use this net's parameters, by layer name, instead of own ones. It must outlive this net.
  class Net* share_params_with = nullptr;
};

/// What happened to each layer's parameters when weights were loaded.
struct LoadReport {
  std::vector<std::string> loaded;   // layers that got their weights
  std::vector<std::string> missing;  // layers of the net with parameters that the file lacks
  std::vector<std::string> unused;   // layers of the file that the net lacks
  std::string str() const;
};

struct LayerSummary {
  std::string name, type, engine, detail, fused_into, top_format;
  std::vector<Shape> bottoms, tops;
  int64_t params = 0;
  Flops flops;
  size_t top_bytes = 0;
  bool falls_back_to_cpu = false;
};

/// One unit of work of a net: a layer, or a format conversion between layers.
struct NetStep {
  std::string name;       // the layer's; of a conversion, the blob's
  std::string type;       // the layer's; "Conversion"
  int layer = -1;         // index into Net::layers(); -1: a conversion
  bool backward = false;  // backward() runs it too
  std::string engine, detail;
  std::string bottom_format, top_format;
  Flops flops;
};

struct MemoryPlan {
  size_t activations = 0;           // bytes of the shared arena (data and diffs)
  size_t activations_unshared = 0;  // what separate buffers would take
  size_t parameters = 0;            // data, and gradients where the net trains
  size_t engines = 0;               // workspaces and scratch
};

class Net {
 public:
  /// Reads, filters, plans. Errors carry file, line and layer.
  Net(const std::string& prototxt, Context& context, NetOptions options = {});
  Net(const NetParameter& param, Context& context, NetOptions options = {});
  ~Net();
  Net(Net&&) noexcept;
  Net& operator=(Net&&) noexcept;

  const std::string& name() const;
  Phase phase() const;
  Context& context() const;

  /// Blobs by name. An in-place name means its last value. Error when there is no such blob, or
  /// when it was fused away (name it in NetOptions::keep).
  Blob& blob(const std::string& name);
  bool has_blob(const std::string& name) const;
  std::vector<std::string> blob_names() const;
  /// Every value that bore the name, in order of computation (several for in-place layers).
  std::vector<Blob*> blob_versions(const std::string& name);
  /// Whether backward computes this version's diff.
  bool has_diff(const Blob& blob) const;

  /// Names of the blobs that the caller fills, and of those that no layer reads.
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;
  /// An input's tensor, contiguous. Error when `name` is no input.
  Tensor& input(const std::string& name);
  /// A blob's values as a contiguous tensor.
  Tensor output(const std::string& name);

  /// Gives an input another shape; takes effect at the next reshape() or forward().
  void reshape_input(const std::string& name, const Shape& shape);
  /// Carries new shapes through the net and plans again; memory only grows.
  void reshape();

  /// Runs all layers. Returns the weighted sum of the losses.
  double forward();
  /// Fills gradients: clears none (see clear_gradients). Error when the net does not train.
  void backward();
  void clear_gradients();

  const std::vector<Layer*>& layers() const;
  /// Error when there is no such layer; the nearest name is given.
  Layer& layer(const std::string& name);
  bool has_layer(const std::string& name) const;
  /// What forward() runs, in order; layers that were fused into others are not among them.
  const std::vector<NetStep>& steps() const;
  /// Runs one step; for timing. backward_step needs NetStep::backward.
  void forward_step(size_t step);
  void backward_step(size_t step);
  /// The tops of a step. Their memory may be used again by later steps.
  Blobs step_tops(size_t step) const;
  /// Weight of blob `name` in the loss, 0 when it is none.
  float loss_weight(const std::string& name) const;

  ParameterArena& params();
  const ParameterArena& params() const;

  /// Copies parameters by layer name from a .caffemodel. A shape that differs is an Error;
  /// `strict` makes missing and unused layers one too.
  LoadReport load_weights(const std::string& path, bool strict = false);
  LoadReport load_weights(const NetParameter& weights, bool strict = false);
  /// The net with its parameters, in the published form.
  void save(NetParameter& out, bool with_diffs = false) const;
  void save_weights(const std::string& path) const;

  std::vector<LayerSummary> summary() const;
  MemoryPlan memory() const;
  /// What the passes did that the user may want to know: repairs, fusions, fallbacks.
  const std::vector<std::string>& notes() const;

 private:
  std::unique_ptr<Plan> plan_;
};

}  // namespace crema
