// Makes the layers of a net, connects them by the names of their blobs, and sets them up in order.
#include <algorithm>
#include <set>

#include "crema/registry.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

ValueId add_value(Plan& plan, Graph& graph, const std::string& name, NodeId producer) {
  auto& versions = graph.versions[name];
  Value value;
  value.name = name;
  value.version = static_cast<int>(versions.size());
  value.producer = producer;
  auto blob = std::make_unique<Blob>(name);
  blob->set_layout({plan.options.dtype});
  plan.blobs.push_back(std::move(blob));
  versions.push_back(graph.values.push_back(std::move(value)));
  return versions.back();
}

/// The names of all blobs, in order.
std::vector<std::string> blob_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& entry : plan.graph->versions) names.push_back(entry.first);
  return names;
}

void check_arity(const Layer& layer, size_t bottoms, size_t tops) {
  const Arity arity = layer.arity();
  auto check = [](const char* what, int count, int least, int most) {
    if (count >= least && (most < 0 || count <= most)) return;
    const std::string wanted = most < 0        ? text("at least ", least)
                               : least == most ? text(least)
                                               : text(least, " to ", most);
    throw Error("has ", count, " ", what, count == 1 ? "" : "s", ", but takes ", wanted);
  };
  check("bottom", static_cast<int>(bottoms), arity.min_bottoms, arity.max_bottoms);
  check("top", static_cast<int>(tops), arity.min_tops, arity.max_tops);
}

/// The Input layer without a shape that the bottoms of the node come from; null if there is none.
const Node* shapeless_input(const Plan& plan, const Node& node) {
  for (const ValueId bottom : node.bottoms) {
    const Value& value = plan.value(bottom);
    const Node& producer = plan.node(value.producer);
    if (value.is_input) {
      if (producer.layer->param().input_param().shape_size() == 0) return &producer;
    } else if (const Node* found = shapeless_input(plan, producer)) {
      return found;
    }
  }
  return nullptr;
}

/// Calls setup and reshape of the layer. An Input without a shape is blamed itself, not its reader.
void set_up(const Plan& plan, const Node& node) {
  const std::vector<Blob*> bottoms = plan.blobs_of(node.bottoms), tops = plan.blobs_of(node.tops);
  try {
    node.layer->setup(bottoms, tops);
    node.layer->reshape(bottoms, tops);
  } catch (const Error& error) {
    const Node* input = shapeless_input(plan, node);
    if (input == nullptr) throw;
    throw Error("has no shape, and layer '", node.layer->name(), "' (", node.layer->param().type(),
                ") needs one (", error.message(), "); add input_param { shape { dim: ... } }")
        .in_layer(input->layer->name(), input->layer->param().type())
        .at(input->position);
  }
}

template <class Names>
bool contains(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// A layer of the prototxt, with what its messages need.
struct Place {
  const NetParameter& net;
  const std::vector<Position>& positions;
  int layer;

  Position position(int other) const { return positions[static_cast<size_t>(other)]; }
};

/// Whether layer `later` reads what the layer makes, directly or through others.
bool depends_on(const Place& place, int later) {
  const auto& layers = place.net.layer();
  std::set<std::string> made(layers[place.layer].top().begin(), layers[place.layer].top().end());
  for (int i = place.layer + 1; i <= later; ++i) {
    const auto is_made = [&](const std::string& name) { return made.count(name) != 0; };
    if (std::ranges::none_of(layers[i].bottom(), is_made)) continue;
    if (i == later) return true;
    made.insert(layers[i].top().begin(), layers[i].top().end());
  }
  return false;
}

/// "" unless a layer behind this one makes the blob.
std::string made_later(const Place& place, const std::string& name) {
  for (int i = place.layer + 1; i < place.net.layer_size(); ++i) {
    const LayerParameter& layer = place.net.layer(i);
    if (!contains(layer.top(), name) || contains(layer.bottom(), name)) continue;
    const std::string maker = named(layer.name(), place.position(i));
    if (depends_on(place, i))
      return text("bottom '", name, "' is made by ", maker,
                  ", which comes later and itself depends on this layer; break the loop: read "
                  "another blob here or there");
    return text("bottom '", name, "' is made by ", maker,
                ", which comes later; move that layer before this one");
  }
  return {};
}

/// " is left out by its rule ... (selected by ...)".
std::string left_out_by(const LeftOut& layer) {
  return text(" is left out by its rule ", layer.rule,
              layer.how_selected.empty() ? "" : text(" (", layer.how_selected, ")"));
}

/// "" unless layers that are not in the net would make the blob.
std::string made_by_left_out(const Plan& plan, const std::string& name) {
  std::vector<std::string> makers;
  bool selectable = false;
  for (const LeftOut& layer : plan.left_out) {
    if (!contains(layer.tops, name) || contains(layer.bottoms, name)) continue;
    makers.push_back(
        text(named(layer.name, layer.position), ", which makes it,", left_out_by(layer)));
    selectable = selectable || !layer.how_selected.empty();
  }
  if (makers.empty()) return {};
  return text("bottom '", name, "' is unknown: ", joined(makers, "; "), "; ",
              selectable ? "select it, " : "", "change the rule, or add one to this layer");
}

/// Error for a name that no layer before makes. Names the layers that would, but come later or are
/// not in the net.
Error unknown_bottom(const Plan& plan, const Place& place, const std::string& name) {
  for (const std::string& why : {made_later(place, name), made_by_left_out(plan, name)}) {
    if (!why.empty()) return Error(why);
  }
  return Error("bottom '", name, "' is not made by any layer before this one",
               did_you_mean(name, blob_names(plan)));
}

/// Finds the values of the bottoms and makes the values of the tops. A top with the name of a
/// bottom is in place and makes a new version. Error if another top has its name.
void connect(Plan& plan, Graph& graph, NodeId id, const Place& place) {
  Node& node = graph[id];
  const LayerParameter& param = place.net.layer(place.layer);
  for (const auto& name : param.bottom()) {
    const auto found = graph.versions.find(name);
    if (found == graph.versions.end()) throw unknown_bottom(plan, place, name);
    const ValueId value = found->second.back();
    graph[value].uses.push_back({id, node.bottoms.size()});
    node.bottoms.push_back(value);
  }
  std::set<std::string> seen;
  for (const auto& name : param.top()) {
    const bool in_place = std::ranges::find(param.bottom(), name) != param.bottom().end();
    if (!seen.insert(name).second) throw Error("names top '", name, "' twice");
    if (!in_place && graph.versions.count(name)) {
      const Value& earlier = graph[graph.versions[name].back()];
      throw Error("makes top '", name, "', which layer '", graph[earlier.producer].layer->name(),
                  "' makes already; rename one of them, or read it as a bottom to run in place");
    }
    node.tops.push_back(add_value(plan, graph, name, id));
  }
  // The prototxt may omit the top of a loss.
  const Arity arity = node.layer->arity();
  while (node.layer->default_loss_weight(static_cast<int>(node.tops.size())) != 0 &&
         static_cast<int>(node.tops.size()) < arity.min_tops) {
    node.tops.push_back(add_value(plan, graph, "(automatic)" + node.layer->name(), id));
  }
}

/// Error unless a field has one entry for each of the `count` bottoms or tops, or none.
void check_entries(const char* field, int entries, int count, const char* what) {
  if (entries == 0 || entries == count) return;
  throw Error("has ", count, " ", what, count == 1 ? " but " : "s but ", entries, " ", field,
              "; give one a ", what, ", or none");
}

void set_loss_weights(Graph& graph, const Node& node, const LayerParameter& param) {
  check_entries("loss_weight", param.loss_weight_size(), static_cast<int>(node.tops.size()), "top");
  for (size_t i = 0; i < node.tops.size(); ++i) {
    const int top = static_cast<int>(i);
    graph[node.tops[i]].loss_weight =
        param.loss_weight_size() ? param.loss_weight(top) : node.layer->default_loss_weight(top);
  }
}

/// Error if a layer type is unknown. The message names all unknown types of the net.
void check_types(const NetParameter& net, const std::vector<Position>& positions) {
  struct Missing {
    Error error;  // of the first layer of the type
    int layers = 1;
  };
  std::vector<Missing> missing;
  std::map<std::string, size_t> met;  // type -> index into missing
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    if (Registry::instance().has(layer.type())) continue;
    const auto [entry, first] = met.try_emplace(layer.type(), missing.size());
    if (!first) {
      ++missing[entry->second].layers;
      continue;
    }
    missing.push_back({Registry::unknown_type(layer).at(positions[static_cast<size_t>(i)])});
  }
  if (missing.empty()) return;
  if (missing.size() == 1) throw Error(missing[0].error);
  std::string list;
  for (const Missing& one : missing) {
    list += text("\n  ", one.error.what());
    if (one.layers > 1) list += text(" (", one.layers, " such layers)");
  }
  throw Error(missing.size(), " layer types of the net are unknown:", list)
      .at(missing[0].error.position());
}

/// A unique name for each layer: a name that occurs again gets a number, as in "conv#2". Random
/// numbers and positions in the data depend on these names.
std::vector<std::string> distinct_names(const NetParameter& net) {
  std::set<std::string> taken;
  for (const auto& layer : net.layer()) taken.insert(layer.name());
  std::map<std::string, int> times;
  std::vector<std::string> names;
  for (const auto& layer : net.layer()) {
    std::string name = layer.name();
    int& time = times[name];
    if (time++ > 0) {
      while (!taken.insert(name = text(layer.name(), "#", time)).second) ++time;
    }
    names.push_back(std::move(name));
  }
  return names;
}

/// Sets the shapes of the tops. Behind a guess, notes those of the bottoms.
void reshape_layer(Plan& plan, NodeId id) {
  plan.layer(id).reshape(plan.bottoms[id], plan.tops[id]);
  check_places(plan, id);
  plan.note_taken(id, plan.bottoms[id]);
}

/// For a layer that refuses what is guessed in front of it: sets its tops by bottoms of the shapes
/// that it took last, in place of its own. False if it took none.
bool stand_in(Plan& plan, NodeId id) {
  const auto last = plan.taken.find(id);
  if (last == plan.taken.end()) return false;
  auto& blobs = plan.stand_ins[id];
  for (const Shape& shape : last->second)
    blobs.push_back(std::make_unique<Blob>(shape, plan.options.dtype));
  plan.layer(id).reshape(plan.planned_bottoms(id), plan.tops[id]);
  return true;
}

}  // namespace

std::map<std::string, std::vector<const Node*>> Plan::nodes_with_params() const {
  std::map<std::string, std::vector<const Node*>> found;
  for (const Node& node : graph->nodes) {
    if (!node.layer->params().empty()) found[node.name].push_back(&node);
  }
  return found;
}

std::vector<Blob*> Plan::blobs_of(const std::vector<ValueId>& ids) const {
  std::vector<Blob*> found;
  for (const ValueId id : ids) found.push_back(blobs[id].get());
  return found;
}

std::vector<Blob*> Plan::planned_bottoms(NodeId id) const {
  const auto found = stand_ins.find(id);
  if (found == stand_ins.end()) return bottoms[id];
  std::vector<Blob*> standing;
  for (const auto& blob : found->second) standing.push_back(blob.get());
  return standing;
}

void Plan::note_taken(NodeId id, Blobs taken_bottoms) {
  if (!node(id).follows_guess) return;
  std::vector<Shape>& shapes = taken[id];
  shapes.clear();
  for (const Blob* blob : taken_bottoms) shapes.push_back(blob->shape());
}

void Plan::connect_blobs() {
  bottoms.clear();
  tops.clear();
  for (const Node& node : graph->nodes) {
    bottoms.push_back(blobs_of(node.bottoms));
    tops.push_back(blobs_of(node.tops));
  }
}

bool Graph::has_late_shape(ValueId id) const {
  const Node& producer = nodes[values[id].producer];
  if (producer.follows_values || producer.layer->top_shapes() == TopShapes::from_values)
    return true;
  if (producer.layer->top_shapes() != TopShapes::per_batch) return false;
  for (size_t t = 0; t < producer.tops.size(); ++t) {
    if (producer.tops[t] == id) return producer.layer->is_late(static_cast<int>(t));
  }
  return false;
}

bool Graph::has_guessed_shape(ValueId id) const {
  const Node& producer = nodes[values[id].producer];
  return producer.follows_guess || (producer.layer->top_shapes() == TopShapes::from_values &&
                                    producer.layer->has_unbounded_tops());
}

void Plan::note(const std::string& message, Severity severity) {
  if (std::ranges::find(notes, message) != notes.end()) return;
  notes.push_back(message);
  context->log(severity, text(options.phase == Phase::test ? "TEST" : "TRAIN", " net: ", message));
}

void build_graph(Plan& plan, Graph& graph, NetParameter& net,
                 const std::vector<Position>& positions) {
  if (net.layer_size() == 0) {
    std::string why = "; check that the file is a net and not a solver";
    if (!plan.left_out.empty()) {
      const LeftOut& layer = plan.left_out.front();
      why = text(": ", named(layer.name, layer.position), left_out_by(layer),
                 "; check the phase, and include and exclude rules");
    }
    throw Error("the net has no layers in phase ",
                plan.options.phase == Phase::test ? "TEST" : "TRAIN", why);
  }
  check_types(net, positions);
  graph.name = net.name();
  plan.force_backward = net.force_backward();

  const std::vector<std::string> names = distinct_names(net);
  for (int i = 0; i < net.layer_size(); ++i) {
    if (!net.layer(i).name().empty() && net.layer(i).name() != names[static_cast<size_t>(i)]) {
      plan.note(text("layer name '", net.layer(i).name(),
                     "' is used more than once: in weights files, these layers are matched by "
                     "their order"),
                Severity::warning);
    }
    LayerParameter& param = *net.mutable_layer(i);
    const NodeId id = graph.nodes.push_back(Node());
    Node& node = graph[id];
    node.position = positions[static_cast<size_t>(i)];
    node.name = param.name();
    param.set_name(names[static_cast<size_t>(i)]);
    // As in published nets, a layer may have another phase than its net.
    node.own_phase = param.has_phase();
    if (!node.own_phase) param.set_phase(plan.options.phase == Phase::test ? TEST : TRAIN);
    try {
      check_entries("propagate_down", param.propagate_down_size(), param.bottom_size(), "bottom");
      node.layer =
          Registry::instance().make({.param = param,
                                     .context = *plan.context,
                                     .run = *plan.run,
                                     .phase = param.phase() == TEST ? Phase::test : Phase::train,
                                     .dtype = plan.options.dtype,
                                     .activations = plan.activations,
                                     .trains = plan.trains,
                                     .arithmetic = plan.arithmetic});
      node.recompute = param.recompute();
      connect(plan, graph, id, {net, positions, i});
      check_arity(*node.layer, node.bottoms.size(), node.tops.size());
      set_loss_weights(graph, node, param);

      plan.layers.push_back(node.layer.get());
      tell_classes(plan, id);
      set_up(plan, node);
      check_places(plan, id);
    } catch (Error& error) {
      error.in_layer(param.name(), param.type()).at(node.position);
      throw;
    }
    if (node.layer->is_input()) {
      for (ValueId value : node.tops) {
        graph[value].is_input = true;
        graph.inputs.push_back(value);
        graph.input_names.push_back(graph[value].name);
      }
    }
    if (node.layer->is_input() || node.layer->top_shapes() == TopShapes::per_batch) {
      graph.outer.insert(graph.outer.end(), node.tops.begin(), node.tops.end());
    }
    node.follows_values = std::ranges::any_of(
        node.bottoms, [&](ValueId bottom) { return graph.has_late_shape(bottom); });
    node.follows_guess = std::ranges::any_of(
        node.bottoms, [&](ValueId bottom) { return graph.has_guessed_shape(bottom); });
  }
  check_classes(plan);

  for (Value& value : graph.values) {
    if (!value.uses.empty()) continue;
    value.is_output = true;
    graph.output_names.push_back(value.name);
  }
  for (const auto& name : plan.options.keep) {
    const auto found = graph.versions.find(name);
    if (found == graph.versions.end()) {
      throw Error("there is no blob '", name, "' to keep", did_you_mean(name, blob_names(plan)));
    }
    graph[found->second.back()].keep = true;
  }
}

size_t infer_shapes(Plan& plan, size_t needed) {
  plan.stand_ins.clear();
  for (const NodeId id : plan.graph->node_ids()) {
    const Node& node = plan.node(id);
    if (!node.scheduled()) continue;
    Layer& layer = plan.layer(id);
    // The caller sets the shapes of inputs, mostly of their data alone, and fetch() those of
    // batches.
    const bool given = !node.tops.empty() && plan.value(node.tops[0]).is_input;
    if (given || layer.top_shapes() == TopShapes::per_batch) {
      for (Blob* top : plan.tops[id]) top->diff.reshape(top->data.shape());
      continue;
    }
    try {
      in_node(node, [&] {
        if (!node.follows_guess) return reshape_layer(plan, id);
        try {
          reshape_layer(plan, id);
        } catch (const Error&) {
          if (!stand_in(plan, id)) throw;
        }
      });
    } catch (const Error&) {
      if (id.index() < needed) throw;
      return id.index();
    }
  }
  return plan.graph->nodes.size();
}

}  // namespace crema
