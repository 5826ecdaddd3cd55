// Plan: a net as its passes see it. Each pass is a file beside this one:
//
//   upgrade.cpp   old spellings become today's               NetParameter -> NetParameter
//   filter.cpp    phase, level, stage                        NetParameter -> NetParameter
//   ignored.cpp   settings that have no effect are told
//   graph.cpp     names -> values, layers made and set up    NetParameter -> Plan
//   params.cpp    sharing by name, the arena, fillers
//   weights.cpp   parameters from and to messages
//   gradient.cpp  who needs backward
//   fuse.cpp      layers absorb their successors
//   graph.cpp     shapes through the graph
//   formats.cpp   memory formats, conversions where neighbours disagree (conversion.cpp)
//   memory.cpp    what shares memory, one arena
//   summary.cpp   what was decided, for people
//
// net.cpp leads them and runs the plan; accumulate.cpp adds up gradients meanwhile.
//
// Values are in single-assignment form: a layer that runs in place in the prototxt makes a new
// value (version) of the same name. Whether two values share memory is decided by memory.cpp alone,
// which is why in-place use can never corrupt a gradient here.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {

/// A bottom of a node.
struct Use {
  int node = -1;
  int bottom = -1;
};

/// What backward does to a top's diff before the layer that made the top.
enum class Seed : uint8_t {
  none,        // its readers write it, or else the caller
  zero,        // nobody writes it
  weight,      // every element is the loss weight
  add_weight,  // readers write it, and the loss weight comes on top
};

struct Value {
  std::string name;
  int version = 0;
  int producer = -1;  // node; tops are in order
  int top = 0;        // which top of the producer
  std::vector<Use> uses;
  float loss_weight = 0;
  bool is_input = false;      // the caller fills it
  bool is_output = false;     // no layer of the prototxt reads it
  bool keep = false;          // asked for by name: stays valid until the next pass
  bool gone = false;          // fused away
  bool has_gradient = false;  // backward computes or reads its diff
  bool reserved = false;      // its values last until the next pass
  Seed seed = Seed::none;
  Blob blob;
};

/// Parts of a gradient that several readers of a value made: into += all of from.
struct GradientSum {
  /// Parts are summed as soon as there are so many: each saves a pass over the sum, and takes its
  /// memory until then.
  static constexpr size_t kMost = 3;

  Blob* into = nullptr;
  std::vector<Blob*> from;
};

/// A layer, or a format conversion that formats.cpp put between layers.
struct Node {
  Position position;
  std::string name;  // as in the prototxt: a layer's own is told apart from others of that name
  std::unique_ptr<Layer> layer;
  std::vector<int> bottoms, tops;  // values
  std::vector<bool> propagate;     // a bottom's gradient is wanted
  bool needs_backward = false;
  int absorbed_into = -1;  // node that computes this one's work too
  bool is_conversion = false;
  FormatOption option;

  // As the layer sees its bottoms and tops. A bottom with other readers gets a blob of its own: the
  // same data, but a diff that is then added to the value's.
  std::vector<Blob*> bottom_blobs, top_blobs;
  std::vector<std::unique_ptr<Blob>> edges;  // one a bottom, null where the value's blob serves
  std::vector<GradientSum> sums;             // that are complete after the node's backward

  bool scheduled() const { return absorbed_into < 0; }
};

/// The parameters of a net that nobody gave values yet. They get those of their fillers when values
/// are first needed, since weights from a file mostly come before. Nets that share them ask here
/// too, from threads of their own, also when the net that made them is gone.
class FirstValues {
 public:
  explicit FirstValues(uint64_t seed) : seed_(seed) {}

  /// `parameter` owns its memory and stays where it is; its numbers are those of `stream`.
  void expect(const Parameter& parameter, uint64_t stream);
  /// The parameter whose values `data` are got them from elsewhere.
  void given(const Tensor& data);
  /// Fills what is left.
  void fill();

 private:
  /// What filling takes, without the parameter, which ends with its net.
  struct Entry {
    Tensor data;
    Filler filler;
    uint64_t stream;
  };
  uint64_t seed_;
  std::mutex mutex_;
  std::vector<Entry> missing_;
  std::atomic<bool> complete_ = true;
};

struct Plan {
  static Plan& of(Net& net) { return *net.plan_; }

  Context* context = nullptr;
  NetOptions options;
  bool trains = false;
  bool force_backward = false;
  std::string name, file;
  std::vector<Node> nodes;  // in order of computation: layers of the prototxt, then conversions
  std::vector<int> order;   // nodes to run, in order
  std::vector<std::unique_ptr<Value>> values;
  std::vector<Layer*> layers;                        // of the prototxt, in its order
  std::map<std::string, std::vector<int>> versions;  // name -> values
  std::vector<int> inputs;                           // values that the caller fills
  std::vector<std::string> input_names, output_names;
  ParameterArena arena;
  std::shared_ptr<FirstValues> first_values;
  std::vector<std::shared_ptr<FirstValues>> shared_values;  // of nets whose parameters are used
  std::vector<std::string> notes;
  std::vector<NetStep> steps;         // one an entry of order
  bool ready = false;                 // order, formats and memory fit together
  bool ran = false;                   // forward, since then
  std::vector<Shape> planned_shapes;  // of the inputs, that they were made for

  size_t layer_count = 0;  // nodes that are layers; conversions follow
  size_t value_count = 0;  // likewise for values
  std::shared_ptr<Memory> activations;
  MemoryPlan memory;

  Value& value(int id) { return *values[static_cast<size_t>(id)]; }
  const Value& value(int id) const { return *values[static_cast<size_t>(id)]; }
  Node& node(int id) { return nodes[static_cast<size_t>(id)]; }
  /// Layers with parameters by their name in the prototxt, in its order.
  std::map<std::string, std::vector<Node*>> nodes_with_params();
  /// Whether the plan holds for the inputs as they are now.
  bool current() const;
  /// Whether the caller may look at a value and its diff after a pass.
  bool shows(const Value& value) const;
  /// Gives all parameters that are used here values.
  void need_values();
  /// Keeps what the user may want to know, and logs it, once.
  void note(const std::string& text, Severity severity = Severity::info);
};

/// Runs `body`, giving an Error that leaves it the node's place and layer.
template <class Body>
decltype(auto) in_node(const Node& node, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    if (node.layer) error.in_layer(node.layer->name(), node.layer->type());
    error.at(node.position);
    throw;
  }
}

// The passes.
/// `positions`: where each layer of the upgraded net stands.
void upgrade_net(NetParameter& net, const SourceMap& source, std::vector<Position>& positions);
/// Adds the net's own state to the options, as they say.
void merge_state(const NetParameter& net, NetOptions& options);
/// Warns of stages of the options that no rule of the net asks for.
void note_unknown_stages(Plan& plan, const NetParameter& net);
/// Whether the layer's include or exclude rules let it into a net of these options.
bool in_state(const LayerParameter& layer, const NetOptions& options);
/// Removes layers, and their positions, whose include or exclude rules do not hold.
void filter_net(NetParameter& net, const NetOptions& options, std::vector<Position>& positions);
/// Warns once of settings that other toolkits read and this one does not.
void note_ignored_fields(Plan& plan, const NetParameter& net);
void build_graph(Plan& plan, NetParameter& net, const std::vector<Position>& positions);
void place_params(Plan& plan);
/// Copies the weights that the layers of the net's message carry.
void load_own_blobs(Plan& plan, const NetParameter& given);
void resolve_gradients(Plan& plan);
void infer_shapes(Plan& plan);
void fuse_layers(Plan& plan);
void choose_formats(Plan& plan);
void plan_memory(Plan& plan);
/// Plan::steps, from what the passes decided.
void describe_steps(Plan& plan);

/// From the shapes of the inputs on: everything that depends on shapes.
void plan_shapes(Plan& plan);

}  // namespace crema
