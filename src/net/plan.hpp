// Plan: a net as its passes see it. Each pass is a file beside this one:
//
//   upgrade.cpp   old spellings become today's               NetParameter -> NetParameter
//   filter.cpp    phase, level, stage                        NetParameter -> NetParameter
//   graph.cpp     names -> values, layers made and set up    NetParameter -> Plan
//   params.cpp    sharing by name, the arena, fillers
//   gradient.cpp  who needs backward
//   shapes.cpp    shapes through the graph
//   fuse.cpp      layers absorb their successors
//   formats.cpp   memory formats, conversions where neighbours disagree
//   memory.cpp    what shares memory, one arena
//
// Values are in single-assignment form: a layer that runs in place in the prototxt makes a new
// value (version) of the same name. Whether two values share memory is decided by memory.cpp alone,
// which is why in-place use can never corrupt a gradient here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {

class SourceMap;  // model/text_format.hpp

/// A bottom of a node.
struct Use {
  int node = -1;
  int bottom = -1;
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
  bool reserved = false;      // memory of its own: never shared, never reused
  Blob blob;
};

/// A layer, or a format conversion that formats.cpp put between layers.
struct Node {
  Position position;
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

  bool scheduled() const { return absorbed_into < 0; }
};

struct Plan {
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
  std::vector<std::string> input_names, output_names;
  ParameterArena arena;
  std::vector<std::string> notes;
  std::vector<NetStep> steps;                   // one an entry of order
  std::map<std::string, Shape> planned_inputs;  // shapes the present plan was made for

  size_t layer_count = 0;  // nodes that are layers; conversions follow
  size_t value_count = 0;  // likewise for values
  std::shared_ptr<Memory> activations;
  MemoryPlan memory;

  Value& value(int id) { return *values[static_cast<size_t>(id)]; }
  const Value& value(int id) const { return *values[static_cast<size_t>(id)]; }
  Node& node(int id) { return nodes[static_cast<size_t>(id)]; }
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
/// Returns where each layer of the upgraded net stands.
std::vector<Position> upgrade_net(NetParameter& net, const SourceMap* source,
                                  const std::string& file);
/// Layers whose include/exclude rules hold in the state. `kept` maps their indices to those in
/// `in`.
void filter_net(const NetParameter& in, const NetOptions& options, NetParameter& out,
                std::vector<int>& kept);
void build_graph(Plan& plan, const NetParameter& net, const std::vector<Position>& positions);
void place_params(Plan& plan, const NetParameter& net);
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
