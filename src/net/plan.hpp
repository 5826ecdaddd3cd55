// Plan: the internal representation of a net: its graph, one set of layers and blobs of the graph,
// and the programs for the shapes that these have had.
//
// Old forms are upgraded first (model/upgrade). The passes that build the graph are declared below,
// in their order, each with its file; net.cpp calls them. Those that depend on shapes are in
// net/program.hpp. execute.cpp runs an action.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/data_source.hpp"
#include "core/device_loss_scale.hpp"
#include "core/memory.hpp"
#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "model/stored_weights.hpp"
#include "net/graph.hpp"
#include "net/program.hpp"

namespace crema {

struct NetUpgrade;  // model/upgrade/upgrade.hpp
/// Noise on a parameter of a layer, for that layer alone.
struct ParameterNoise {
  Parameter* parameter = nullptr;
  std::unique_ptr<Layer> layer = {};              // of type Noise
  std::unique_ptr<Kernel> kernel = {};            // of that layer
  Blob exact = {}, noisy = {};                    // its bottom and top, of the parameter's shape
  std::unique_ptr<ParameterStorage> values = {};  // the noisy ones
};

/// A layer of the prototxt that is not in the net because of its include or exclude rules.
struct LeftOut {
  std::string name, rule;
  std::string how_selected;  // into the net: "selected by --stage val"; "" if nothing does
  Position position;
  std::vector<std::string> bottoms, tops;
  /// The message, of a layer of type Data or AnnotatedData.
  std::shared_ptr<const LayerParameter> data = {};
};

struct Plan {
  static Plan& of(Net& net) { return *net.plan_; }
  static const Plan& of(const Net& net) { return *net.plan_; }

  Context* context = nullptr;
  NetOptions options;
  DType activations = DType::f32;
  Arithmetic arithmetic;  // of all layers
  bool trains = false;
  bool force_backward = false;
  bool debug_info = false;   // the prototxt asks for it: nothing is fused, and each pass is logged
  bool logs_passes = false;  // set_debug_info() asks for it
  bool warns_of_losses = true;        // that are not finite (net/not_finite.hpp)
  std::string file;                   // of the prototxt; "": a message
  std::unique_ptr<RunState> own_run;  // null if NetOptions::run is set
  RunState* run = nullptr;            // NetOptions::run or own_run
  bool advances = false;              // the next pass increments the iteration
  std::shared_ptr<const Graph> graph;
  /// One for each node: those of the graph. A runner has own ones.
  std::vector<Layer*> layers;
  std::vector<std::unique_ptr<Layer>> own_layers;
  ParameterArena arena;
  /// Files whose values were taken while the net was built, and whose checksums are not known yet.
  std::vector<std::unique_ptr<StoredWeights>> unchecked;
  std::vector<LeftOut> left_out;
  std::vector<bool> frozen;    // by node: NetOptions::freeze names the layer; empty: none
  ClassNames trained_classes;  // those that the message's `origin` names
  std::vector<std::string> notes;
  std::function<void(size_t)> on_gradient;

  IdVector<ValueId, std::unique_ptr<Blob>> blobs;      // one for each value of the graph
  IdVector<NodeId, std::vector<Blob*>> bottoms, tops;  // of each node, of these; after fusion
  /// Of nodes behind a guess (Node::follows_guess): the shapes of bottoms that the layer took last.
  std::map<NodeId, std::vector<Shape>> taken;
  /// Bottoms of these shapes, without memory, of nodes whose layers refuse what is guessed. A guess
  /// may be that of another image than the rest; the program is planned with these then, and the
  /// pass, which knows the shapes, asks the layer again.
  std::map<NodeId, std::vector<std::unique_ptr<Blob>>> stand_ins;
  std::map<NodeId, std::vector<ParameterNoise>> noise;  // of parameters of a node and of its tail

  std::list<Program> programs;  // the last used first
  Program* program = nullptr;   // the first one; null if making it threw
  size_t back = 0;              // the step that ran backward last in this pass; 0: none
  size_t done = 0;  // steps of the program, from the first on, that ran since the pass began
  /// With keep_all, by step: whether it ran since the program was taken, so that it can run
  /// backward.
  std::vector<bool> has_run;
  std::set<NodeId> not_finite;  // nodes whose loss is not finite, and the log says so

  std::shared_ptr<Memory> activation_arena;
  double loss_scale = 1;                          // factor on the loss weights in backward
  std::unique_ptr<DeviceLossScale> device_scale;  // the same on a device; null: not needed yet
  bool scale_follows = false;                     // updates on the device change it
  /// Sources that do not know the batch which the net has been set back to.
  std::set<const DataSource*> without_keys;

  const Node& node(NodeId id) const { return (*graph)[id]; }
  const Value& value(ValueId id) const { return (*graph)[id]; }
  Layer& layer(NodeId id) const { return *layers[id.index()]; }
  Blob& blob(ValueId id) const { return *blobs[id]; }
  std::vector<Blob*> blobs_of(const std::vector<ValueId>& ids) const;
  /// The bottoms that a program is planned with: those of the node, or what stands in for them.
  std::vector<Blob*> planned_bottoms(NodeId id) const;
  /// Sets `taken` of a node behind a guess; of others, nothing.
  void note_taken(NodeId id, Blobs taken_bottoms);
  /// Sets `bottoms` and `tops`.
  void connect_blobs();
  /// The layers with parameters, by their name in the prototxt; layers of one name in their order.
  std::map<std::string, std::vector<const Node*>> nodes_with_params() const;
  /// Whether the program was made for the present shapes of Graph::outer, and for all layers, or
  /// for the first `needed`.
  bool current() const { return current(graph->nodes.size()); }
  bool current(size_t needed) const;
  /// Whether a forward pass of the program has run to its end.
  bool ran() const { return program && done == program->order.size(); }
  /// Whether the caller may read the value and its diff after a pass.
  bool shows(const ValueInfo& value) const;
  /// Adds a message to `notes` and logs it, unless it is there already.
  void note(const std::string& message, Severity severity = Severity::info);
};

/// in_node() for a node of a program.
template <class Body>
decltype(auto) in_node(const ProgramNode& node, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    error.in_layer(node.layer->name(), node.layer->type());
    if (node.node != nullptr) error.at(node.node->position);
    throw;
  }
}

/// The layer runs on the CPU although the context has another device.
inline bool falls_back_to_cpu(const Plan& plan, const ProgramNode& node) {
  return plan.context->on_gpu() && node.option.engine == nullptr;
}

/// filter.cpp: adds level and stages of the net's `state` to the options, warns of stages that no
/// rule names and of rules that can never hold, and removes the layers whose rules do not hold, and
/// their positions.
void filter_net(Plan& plan, NetParameter& net, std::vector<Position>& positions);
/// The message in its present format, with the layers that the options include, without a plan.
NetParameter layers_of(const NetParameter& net, NetOptions options);
/// freeze.cpp: sets Plan::frozen, and lets frozen layers use stored statistics. Error if
/// NetOptions::freeze names no layer.
void freeze_layers(Plan& plan, NetParameter& net);
/// ignored.cpp: warns of fields that are set but have no effect.
void note_ignored_fields(Plan& plan, const NetParameter& net);
/// Logs that the net is in an old form, and how to rewrite it.
void note_upgrade(Plan& plan, const NetUpgrade& upgrade, const SourceMap& source);
/// The settings that layers of the type read and that have a bias_term: "convolution_param"; ""
/// without such.
std::string settings_with_bias_term(const std::string& type);
/// graph.cpp: makes and connects the layers and values, and calls setup and reshape of each layer.
void build_graph(Plan& plan, Graph& graph, NetParameter& net,
                 const std::vector<Position>& positions);
/// detections.cpp: compares what detection layers read with the layers that made it. Error if their
/// numbers of classes differ.
void check_detections(const Plan& plan);
/// class_names.cpp: tells a data layer of phase TEST the names of the training data's classes: of
/// the net that this one shares parameters with, or of a layer that the phase excludes, or
/// Plan::trained_classes. Error if the last two differ.
void tell_classes(const Plan& plan, NodeId id);
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
void resolve_gradients(const Plan& plan, Graph& graph);
/// Whether the layer has a parameter that is learnable and has an lr_mult other than 0.
bool has_learning_params(const Layer& layer);
/// fuse.cpp: moves layers into the tails of other layers. Sets tail and fused_into of the nodes.
void fuse_layers(const Plan& plan, Graph& graph);
/// Tells each layer what the net requires of it.
void require(Plan& plan);
/// noise.cpp: sets noise of the nodes, by the `param` of their layers.
void add_noise(Plan& plan);
/// Bytes of all noisy copies.
size_t noisy_bytes(const Plan& plan);
/// Draws the noise of the present iteration and pass for the parameters that the node computes
/// with.
void draw_noise(Plan& plan, NodeId id);
/// graph.cpp: calls reshape of all layers, with the present shapes of inputs and batches. Stops at
/// a layer that refuses them, unless it is one of the first `needed`. Returns the number of layers
/// that have their shapes. What a layer refuses of a guess is no Error here (Plan::stand_ins).
size_t infer_shapes(Plan& plan, size_t needed);
/// places.cpp: Error if bottoms of the node are places in maps of another width than it puts values
/// in (Layer::check_places). Follows each reshape() of a layer.
void check_places(const Plan& plan, NodeId id);

/// debug_info.cpp: log the published lines of debug_info, if the net or the caller asks for them:
/// behind an action, and behind a whole backward pass.
void log_action(const Plan& plan, const Action& action);
void log_all_parameters(const Plan& plan);

/// execute.cpp: runs one action of the program. Errors name the node.
void run_action(Plan& plan, const Action& action);
/// The key of sample `index` of a value in the data source that it comes from. "" if no source or
/// several sources make it.
std::string record_key(const Plan& plan, ValueId value, int64_t index);
/// Names the record of an Error about one sample of the node's bottoms.
void add_record(const Plan& plan, const ProgramNode& node, Error& error);
/// net.cpp: before a forward pass over all layers: fetches batches, and takes a program for the
/// shapes.
void begin_pass(Plan& plan);
/// Takes a program, if the shapes of inputs changed, in which the layers up to index `last` may
/// run.
void reshape_to(Plan& plan, size_t last);
/// Runs all steps of the program.
void run_forward_steps(Plan& plan);
/// On a device: forward, `losses`, backward and `update`.
void run_iteration(Plan& plan, const std::function<void()>& losses,
                   const std::function<void()>& update);
/// The weighted losses among a node's tops.
double losses_of(const Program& program, const ProgramNode& node);

}  // namespace crema
