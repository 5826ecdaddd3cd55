// Plan: a net as its passes see it. Each pass is a file beside this one:
//
//   upgrade.cpp   old spellings become today's               NetParameter -> NetParameter
//   filter.cpp    phase, level, stage                        NetParameter -> NetParameter
//   ignored.cpp   settings that have no effect are told
//   graph.cpp     names -> values, layers made and set up    NetParameter -> Plan
//   params.cpp    sharing by name, the arena, fillers
//   weights.cpp   parameters from and to messages
//   gradient.cpp  who needs backward
//   fuse.cpp      layers become operations on the tops of others
//   graph.cpp     shapes through the graph
//   layouts.cpp   type and format of each tensor, conversions where neighbours disagree
//   schedule.cpp  the list of actions of a forward and a backward pass
//   memory.cpp    what shares memory, by the actions' reads and writes
//   summary.cpp   what was decided, for people
//
// net.cpp leads them and runs the schedule; accumulate.cpp adds up gradients meanwhile.
//
// Values are in single-assignment form: a layer that runs in place in the prototxt makes a new
// value (version) of the same name. Whether two values share memory is decided by memory.cpp alone,
// which is why in-place use can never corrupt a gradient here.
//
// What depends on shapes is a Program. Those of the shapes met last are kept.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "net/ids.hpp"

namespace crema {

/// A bottom of a node.
struct Use {
  NodeId node;
  size_t bottom = 0;
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
  NodeId producer;        // tops are in order
  std::vector<Use> uses;  // by layers; conversions are not among them
  float loss_weight = 0;
  bool is_input = false;    // the caller fills it
  bool is_output = false;   // no layer of the prototxt reads it
  bool keep = false;        // asked for by name: stays valid until the next pass
  bool fused_away = false;  // it is never computed by itself
  Blob blob;

  // As the Program has it.
  NodeId maker;               // the producer, or the conversion of what the producer makes
  std::vector<Use> readers;   // conversions counted
  bool has_gradient = false;  // backward computes or reads its diff
  bool reserved = false;      // its values last until the next pass
  Seed seed = Seed::none;
  Shape planned;  // its shape when forward begins; a bound, of TopShapes::from_values
};

/// A layer, or a conversion between two layouts.
struct Node {
  Position position;
  std::string name;  // as in the prototxt: a layer's own is told apart from others of that name
  std::unique_ptr<Layer> layer;
  std::vector<ValueId> bottoms, tops;
  std::vector<bool> propagate;  // a bottom's gradient is wanted
  bool needs_backward = false;
  Tail tail;          // what it does to its top for layers behind it
  NodeId fused_into;  // the node that computes this one's work too
  bool is_conversion = false;
  bool recompute = false;       // its tops are dropped after forward and computed again
  bool follows_values = false;  // shapes of its bottoms are known once forward runs

  // As the Program has it.
  Option option;
  std::vector<ValueId> reads, makes;  // bottoms and tops, converted ones where it wants others
  /// As the layer sees its bottoms and tops. A bottom with other readers gets a blob of its own:
  /// the same data, but a diff that is then added to the value's.
  std::vector<Blob*> bottom_blobs, top_blobs;
  std::vector<std::unique_ptr<Blob>> edges;  // one a bottom, null where the value's blob serves
  std::vector<Shape> prepared_for;           // of the bottoms, where follows_values

  bool scheduled() const { return !fused_into.valid(); }
};

/// One thing that a pass does. Memory is planned by what actions read and write.
struct Action {
  enum class Kind : uint8_t {
    forward,
    seed,  // writes the diffs of the node's tops that no reader writes
    backward,
    sum,       // into += all of parts
    complete,  // the gradient of a segment of the arena is complete
  };
  Kind kind = Kind::forward;
  NodeId node;
  bool again = false;  // forward of dropped values, within the backward pass
  std::vector<Blob*> bottoms, tops;
  std::vector<Blob*> parts;  // sum: at most kMostParts
  Blob* into = nullptr;
  size_t segment = 0;

  /// Parts are summed as soon as there are so many: each saves a pass over the sum, and takes its
  /// memory until then.
  static constexpr size_t kMostParts = 3;
};

/// Tensors of one life, in one place.
struct Buffer {
  size_t bytes = 0;
  bool reserved = false;  // own memory, which outlives the pass
  size_t offset = 0;      // in the arena
  std::vector<Tensor*> tensors;
};

/// Everything that depends on the shapes of inputs and sources.
struct Program {
  std::vector<Shape> shapes;  // what it was made for
  std::vector<std::unique_ptr<Node>> conversions;
  std::vector<std::unique_ptr<Value>> converted;
  std::vector<std::unique_ptr<Blob>> again;  // values that are computed a second time, and views
  /// Blobs that have the data of one other blob and the diff of another.
  struct View {
    Blob* blob;
    Blob* data;
    Blob* diff;
  };
  std::vector<View> views;
  std::vector<NodeId> order;              // nodes to run
  std::vector<Action> forward, backward;  // in order
  std::vector<size_t> forward_of;         // of each entry of order: its action in `forward`
  /// Of each entry of order: its actions in `backward`, from the first to behind the last.
  std::vector<std::pair<size_t, size_t>> backward_of;
  std::vector<Buffer> buffers;
  std::vector<NetStep> steps;  // one an entry of order
  MemoryPlan memory;
  size_t arena_bytes = 0;

  /// What is put aside while other shapes run: one an entry of `order`.
  struct Kept {
    Layer::Prepared prepared;
    Option option;
    std::vector<ValueId> reads, makes;
    std::vector<Blob*> bottom_blobs, top_blobs;
    std::vector<std::unique_ptr<Blob>> edges;
  };
  std::vector<Kept> nodes;
  /// One a value of the graph.
  struct KeptValue {
    Layout layout;
    NodeId maker;
    std::vector<Use> readers;
    bool has_gradient = false, reserved = false;
    Seed seed = Seed::none;
  };
  std::vector<KeptValue> values;
};

struct Plan {
  static Plan& of(Net& net) { return *net.plan_; }

  Context* context = nullptr;
  NetOptions options;
  DType activations = DType::f32;
  bool trains = false;
  bool force_backward = false;
  std::string name, file;
  std::unique_ptr<RunState> own_run;  // where the options give none
  RunState* run = nullptr;
  bool advances = false;                                 // own_run counts on with the next pass
  IdVector<NodeId, std::unique_ptr<Node>> nodes;         // layers of the prototxt, then conversions
  IdVector<ValueId, std::unique_ptr<Value>> values;      // likewise
  std::vector<Layer*> layers;                            // of the prototxt, in its order
  std::map<std::string, std::vector<ValueId>> versions;  // name -> values
  std::vector<ValueId> inputs;                           // values that the caller fills
  std::vector<ValueId> batches;  // tops of sources that give their shapes with each batch
  std::vector<std::string> input_names, output_names;
  ParameterArena arena;
  std::vector<std::string> notes;
  std::function<void(size_t)> on_gradient;

  std::optional<Program> program;  // none after an Error while it was made
  std::list<Program> kept;         // of other shapes, the last used first
  bool fetched = false;            // sources hold a batch that no forward pass has taken yet
  bool ran = false;                // forward, to its end, by the present program

  size_t layer_count = 0;  // nodes that are layers; conversions follow
  size_t value_count = 0;  // likewise for values
  std::shared_ptr<Memory> activation_arena;

  Value& value(ValueId id) { return *values[id]; }
  const Value& value(ValueId id) const { return *values[id]; }
  Node& node(NodeId id) { return *nodes[id]; }
  const Node& node(NodeId id) const { return *nodes[id]; }
  IdRange<NodeId> layer_nodes() const { return IdRange<NodeId>(layer_count); }
  IdRange<ValueId> graph_values() const { return IdRange<ValueId>(value_count); }
  /// Layers with parameters by their name in the prototxt, in its order.
  std::map<std::string, std::vector<Node*>> nodes_with_params();
  /// Shapes of inputs and batches, by which programs are told apart.
  std::vector<Shape> outer_shapes() const;
  /// Whether the program holds for the shapes as they are now.
  bool current() const;
  /// Whether the caller may look at a value and its diff after a pass.
  bool shows(const Value& value) const;
  /// One of the values that the prototxt names.
  bool is_of_graph(const Value& value) const;
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
/// Parameters get their places and values: those of NetOptions::weights, else those that the layers
/// of the net's message carry, else those of their fillers.
void place_params(Plan& plan, const NetParameter& given);
/// The layers of the message that the plan's nodes were made of, one each; null for those that
/// upgrading the message added.
std::vector<const LayerParameter*> layers_of_message(const Plan& plan, const NetParameter& given);
/// Copies the weights that the layers of the net's message carry.
void load_own_blobs(Plan& plan, const NetParameter& given);
/// As those of Net.
LoadReport load_weights(Plan& plan, const NetParameter& weights, bool strict);
LoadReport load_weights(Plan& plan, const std::string& path, bool strict);
/// Loads NetOptions::weights, and tells the log how each file fits. Returns the layers that got
/// theirs.
std::set<std::string> load_weight_files(Plan& plan);
void resolve_gradients(Plan& plan);
void fuse_layers(Plan& plan);
/// Of the layers, from the shapes of inputs and batches.
void infer_shapes(Plan& plan);
void choose_layouts(Plan& plan);
void make_schedule(Plan& plan);
void plan_memory(Plan& plan);
/// Gives the program's buffers their memory.
void bind_memory(Plan& plan);
/// Program::steps, from what the passes decided.
void describe_steps(Plan& plan);

/// A program for the present shapes: one that is kept, or a new one.
void take_program(Plan& plan);

}  // namespace crema
