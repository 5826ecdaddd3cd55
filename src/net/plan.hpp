// Plan: the internal representation of a net. Old forms are upgraded first (model/upgrade). The
// passes that build it are declared below, in their order, each with its file. net.cpp calls those
// up to fusion. program.cpp calls those that depend on shapes, and keeps programs of other shapes.
// execute.cpp runs an action.
//
// Values are in single-assignment form: a layer that runs in place in the prototxt makes a new
// value (version) of the same name. Only memory.cpp decides whether two values share memory. It
// knows all readers of a value, so running in place never corrupts a gradient.
//
// A Program holds everything that depends on shapes. The programs of the last shapes are kept.
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
#include "data/data_source.hpp"
#include "net/ids.hpp"

namespace crema {

/// One bottom of a node.
struct Use {
  NodeId node;
  size_t bottom = 0;
  bool operator==(const Use&) const = default;
};

/// The state of a value in one program.
struct ValueState {
  Layout layout;              // of its blob, while the program is kept
  NodeId maker;               // the producer, or a conversion behind it
  std::vector<Use> readers;   // by layers and conversions
  bool has_gradient = false;  // backward computes or reads its diff
  bool reserved = false;      // valid until the next pass
  Shape planned;              // the shape before forward; for TopShapes::from_values, the bound
};

/// A value, with its state in the present program.
struct Value : ValueState {
  std::string name;
  int version = 0;
  NodeId producer;        // the layer with this top
  std::vector<Use> uses;  // by layers, without conversions
  float loss_weight = 0;
  bool is_input = false;      // the caller fills it
  bool is_output = false;     // no layer of the prototxt reads it
  bool keep = false;          // NetOptions::keep names it
  bool fused_away = false;    // never computed: its producer and its reader were fused
  bool is_converted = false;  // of a program, in another layout; has no name for the caller
  Blob blob;
};

/// The state of a node in one program.
struct NodeState {
  Option option;
  bool dropped = false;  // its tops are dropped after forward, and computed again in backward
  std::vector<ValueId> reads, makes;  // bottoms and tops in the layouts of the option
  /// The blobs that the layer gets. If several nodes write the diff of a bottom, all but one of
  /// them get an edge: a twin with the data of the value and an own diff. A sum action adds these
  /// diffs to the diff of the value.
  std::vector<Blob*> bottom_blobs, top_blobs;
  std::vector<Shape> prepared_for;  // if follows_values: the bottoms' shapes at the last prepare
  std::unique_ptr<Kernel> kernel;   // of the option
};

/// Noise on a parameter of a layer, for that layer alone.
struct ParameterNoise {
  Parameter* parameter = nullptr;
  std::unique_ptr<Layer> layer = {};              // of type Noise
  std::unique_ptr<Kernel> kernel = {};            // of that layer
  Blob exact = {}, noisy = {};                    // its bottom and top, of the parameter's shape
  std::unique_ptr<ParameterStorage> values = {};  // the noisy ones
};

/// A layer, or a conversion between two layouts, with its state in the present program.
struct Node : NodeState {
  Position position;
  std::string name;  // as in the prototxt; Layer::name() has "#2" appended if the name occurs again
  std::unique_ptr<Layer> layer;
  std::vector<ValueId> bottoms, tops;
  std::vector<Blob*> graph_tops;  // the blobs of `tops`, whatever program runs
  std::vector<bool> propagate;    // one entry a bottom: backward writes its diff
  bool needs_backward = false;
  Tail tail;                          // operations of layers that were fused into this one
  NodeId fused_into;                  // the node that computes this layer too
  std::vector<ParameterNoise> noise;  // of parameters of the layer and of its tail
  bool is_conversion = false;
  bool own_phase = false;        // the prototxt gives the layer a phase
  bool recompute = false;        // the prototxt asks that its tops, those of its tail, are dropped
  bool follows_values = false;   // the shapes of its bottoms are known during forward only
  bool told_not_finite = false;  // its loss is not finite, and the log says so

  bool scheduled() const { return !fused_into.valid(); }
};

/// One step of a pass. memory.cpp plans memory by what the actions read and write.
struct Action {
  enum class Kind : uint8_t {
    forward,
    seed,  // sets every element of `into` to `weight`, or adds it
    backward,
    sum,       // into = the sum of parts
    complete,  // calls the hook of Net::on_gradient
  };
  Kind kind = Kind::forward;
  NodeId node;
  bool again = false;  // forward: in the backward pass, for dropped values
  std::vector<Blob*> bottoms, tops;
  std::vector<const Tensor*> parts;  // sum: diffs; the first may be `into`
  Tensor* into = nullptr;            // seed and sum: a diff
  double weight = 0;                 // seed: of the loss; 0 for a diff that no reader writes
  bool adds = false;                 // seed
  size_t segment = 0;                // complete: index into ParameterArena::segments()

  /// The largest number of parts that are added to a diff at once. A larger number saves passes
  /// over the diff, but needs memory for more parts.
  static constexpr size_t kMostParts = 3;
};

/// A blob that shares memory with others: an edge, or a value that is computed again.
struct Twin {
  Blob blob;
  // Whose memory its data and its diff have. Null: memory of their own. An owner without memory:
  // none.
  const Tensor* data = nullptr;
  const Tensor* diff = nullptr;
};

/// A piece of memory that one or several tensors use.
struct Buffer {
  size_t bytes = 0;
  bool reserved = false;  // has its own memory, which is valid after the pass
  size_t offset = 0;      // if not reserved: in bytes, in the activation arena
  struct Resident {
    Tensor* tensor;
    size_t offset = 0;  // in bytes, in the buffer
  };
  std::vector<Resident> tensors;
};

/// Everything that depends on the shapes of inputs and sources.
struct Program {
  std::vector<Shape> shapes;  // of Plan::outer
  std::list<Twin> twins;
  std::vector<NodeId> order;              // nodes to run
  std::vector<Action> forward, backward;  // in order; one of `forward` for each of order
  /// One entry for each of order: its actions in `backward`, [first, second).
  std::vector<std::pair<size_t, size_t>> backward_of;
  std::vector<Buffer> buffers;
  std::vector<NetStep> steps;  // one entry for each of order
  MemoryPlan memory;
  size_t arena_bytes = 0;

  // These four are filled only while the program is kept.
  std::vector<std::unique_ptr<Node>> conversions;
  std::vector<std::unique_ptr<Value>> converted;
  std::vector<NodeState> nodes;    // one entry for each of order
  std::vector<ValueState> values;  // one entry for each value of the graph
};

/// A layer of the prototxt that is not in the net because of its include or exclude rules.
struct LeftOut {
  std::string name, rule;
  std::string how_selected;  // into the net: "selected by --stage val"; "" if nothing does
  Position position;
  std::vector<std::string> bottoms, tops;
  std::shared_ptr<const LayerParameter> data = {};  // the message, of a layer of type Data
};

struct Plan {
  static Plan& of(Net& net) { return *net.plan_; }

  Context* context = nullptr;
  NetOptions options;
  DType activations = DType::f32;
  bool trains = false;
  bool force_backward = false;
  bool debug_info = false;   // the prototxt asks for it: nothing is fused, and each pass is logged
  bool logs_passes = false;  // set_debug_info() asks for it
  bool warns_of_losses = true;  // that are not finite (net/not_finite.hpp)
  std::string name;
  std::string file;                                      // of the prototxt; "": a message
  std::unique_ptr<RunState> own_run;                     // null if NetOptions::run is set
  RunState* run = nullptr;                               // NetOptions::run or own_run
  bool advances = false;                                 // the next pass increments the iteration
  IdVector<NodeId, std::unique_ptr<Node>> nodes;         // layers of the prototxt, then conversions
  IdVector<ValueId, std::unique_ptr<Value>> values;      // likewise
  std::vector<Layer*> layers;                            // of the prototxt, in its order
  std::map<std::string, std::vector<ValueId>> versions;  // by name
  std::vector<ValueId> inputs;                           // values that the caller fills
  std::vector<ValueId> outer;  // inputs and tops of TopShapes::per_batch; all shapes follow theirs
  std::vector<std::string> input_names, output_names;
  ParameterArena arena;
  std::vector<LeftOut> left_out;
  ClassNames trained_classes;  // those that the message's `origin` names
  std::vector<std::string> notes;
  std::function<void(size_t)> on_gradient;

  std::optional<Program> program;  // none if making it threw
  std::list<Program> kept;         // for other shapes; the last used first
  size_t back = 0;                 // the step that ran backward last in this pass; 0: none
  size_t done = 0;  // steps of the program, from the first on, that ran since the pass began

  size_t layer_count = 0;  // number of nodes that are layers; conversions follow
  size_t value_count = 0;  // number of values of the graph; converted values follow
  std::shared_ptr<Memory> activation_arena;
  double loss_scale = 1;  // factor on the loss weights in backward

  Value& value(ValueId id) { return *values[id]; }
  const Value& value(ValueId id) const { return *values[id]; }
  Node& node(NodeId id) { return *nodes[id]; }
  const Node& node(NodeId id) const { return *nodes[id]; }
  std::vector<Blob*> blobs(const std::vector<ValueId>& ids);
  IdRange<NodeId> layer_nodes() const { return IdRange<NodeId>(layer_count); }
  IdRange<ValueId> graph_values() const { return IdRange<ValueId>(value_count); }
  /// The layers with parameters, by their name in the prototxt; layers of one name in their order.
  std::map<std::string, std::vector<Node*>> nodes_with_params();
  /// Whether the program was made for the present shapes of `outer`.
  bool current() const;
  /// Whether a forward pass of the program has run to its end.
  bool ran() const { return program && done == program->order.size(); }
  /// Whether the caller may read the value and its diff after a pass.
  bool shows(const Value& value) const;
  /// Whether the shape of the value is known during forward only.
  bool has_late_shape(const Value& value) const;
  /// Adds a message to `notes` and logs it, unless it is there already.
  void note(const std::string& text, Severity severity = Severity::info);
};

/// Runs `body`. Adds the position and the layer of the node to an Error.
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

/// The layer runs on the CPU although the context has another device.
inline bool falls_back_to_cpu(const Plan& plan, const Node& node) {
  return plan.context->on_gpu() && node.option.engine == nullptr;
}

/// "layer 'conf_rows' (Reshape)".
inline std::string named(const Node& node) {
  return text("layer '", node.layer->name(), "' (", node.layer->type(), ")");
}
/// "layer 'conf_rows' (line 3)"; without the line where it is not known.
inline std::string named(const std::string& layer, const Position& position) {
  return text("layer '", layer, "'", position.line > 0 ? text(" (line ", position.line, ")") : "");
}

/// filter.cpp: adds level and stages of the net's `state` to the options, warns of stages that no
/// rule names and of rules that can never hold, and removes the layers whose rules do not hold, and
/// their positions.
void filter_net(Plan& plan, NetParameter& net, std::vector<Position>& positions);
/// The message in its present format, with the layers that the options include, without a plan.
NetParameter layers_of(const NetParameter& net, NetOptions options);
/// Whether the include or exclude rules of the layer hold for the options.
bool in_state(const LayerParameter& layer, const NetOptions& options);
/// ignored.cpp: warns of fields that are set but have no effect.
void note_ignored_fields(Plan& plan, const NetParameter& net);
/// The settings that layers of the type read and that have a bias_term: "convolution_param"; ""
/// without such.
std::string settings_with_bias_term(const std::string& type);
/// graph.cpp: makes and connects the layers and values, and calls setup and reshape of each layer.
void build_graph(Plan& plan, NetParameter& net, const std::vector<Position>& positions);
/// detections.cpp: compares what detection layers read with the layers that made it. Error if their
/// numbers of classes differ.
void check_detections(const Plan& plan);
/// class_names.cpp: tells a data layer of phase TEST whose labels are the places of names of
/// classes those of the training data: of the net that this one shares parameters with, or of a
/// layer that the phase excludes, or Plan::trained_classes. Error if the last two differ.
void tell_classes(const Plan& plan, const Node& node);
/// Error if data layers of a training net without a file of names have different classes.
void check_classes(const Plan& plan);
/// params.cpp: gives each parameter a storage, in the arena or shared by name or with another net,
/// and its values: those of NetOptions::weights; else those in the layers of `given`, the message
/// of the net; else those of its filler.
void place_params(Plan& plan, const NetParameter& given);
/// weights.cpp: copies the weights in the layers of the message, then those of the files of
/// NetOptions::weights, and logs the report of each file. Returns the names of the layers whose
/// weights were loaded.
std::set<std::string> load_first_weights(Plan& plan, const NetParameter& given);
/// gradient.cpp: finds the nodes that run backward. Sets their needs_backward and propagate, and
/// needs_gradient of each parameter.
void resolve_gradients(Plan& plan);
/// Whether the layer has a parameter that is learnable and has an lr_mult other than 0.
bool has_learning_params(const Layer& layer);
/// fuse.cpp: moves layers into the tails of other layers. Sets tail and fused_into of the nodes.
void fuse_layers(Plan& plan);
/// Tells each layer what the net requires of it.
void require(Plan& plan);
/// noise.cpp: sets noise of the nodes, by the `param` of their layers.
void add_noise(Plan& plan);
/// Bytes of all noisy copies.
size_t noisy_bytes(const Plan& plan);
/// Draws the noise of the present iteration and pass for the parameters that the node computes
/// with.
void draw_noise(Node& node);
/// graph.cpp: calls reshape of all layers, with the present shapes of inputs and batches.
void infer_shapes(Plan& plan);
/// places.cpp: Error if bottoms of the node are places in maps of another width than it puts values
/// in (core/places.hpp). Follows each reshape() of a layer.
void check_places(const Plan& plan, const Node& node);
/// layouts.cpp: chooses the layout of each tensor. Sets the option of each node, adds conversions,
/// and sets Program::order.
void choose_layouts(Plan& plan);
/// budget.cpp: sets `dropped` of the nodes: those that the prototxt asks for, and those by which
/// the planned memory fits NetOptions::memory_budget.
void choose_dropped(Plan& plan);
/// schedule.cpp: sets the blobs of the nodes, and the actions of the program.
void make_schedule(Plan& plan);
/// memory.cpp: plans which tensors share memory. Sets the buffers of the program.
void plan_memory(Plan& plan);
/// The same for a program that is not final: says nothing to the user.
void try_memory(Plan& plan);
/// Allocates the buffers and binds their tensors.
void bind_memory(Plan& plan);
/// summary.cpp: sets Program::steps, which describe the result for the user.
void describe_steps(Plan& plan);

/// program.cpp: sets the program for the present shapes: one that was kept, or a new one.
void take_program(Plan& plan);
/// Removes the program and the conversions.
void clear_program(Plan& plan);

/// debug_info.cpp: log the published lines of debug_info, if the net or the caller asks for them:
/// behind an action, and behind a whole backward pass.
void log_action(const Plan& plan, const Action& action);
void log_all_parameters(const Plan& plan);

/// execute.cpp: runs one action of the program. Errors name the node.
void run_action(Plan& plan, const Action& action);
/// The key of sample `index` of a value in the data source that it comes from. "" if no source or
/// several sources make it.
std::string record_key(const Plan& plan, ValueId value, int64_t index);
/// The weighted losses among a node's tops.
double losses_of(const Plan& plan, const Node& node);

}  // namespace crema
