// Makes the lists of actions of the forward and the backward pass.
//
// If several layers read a value, each of them computes a part of its gradient. The first of them
// in the order of backward writes the diff of the value. The others write diffs of edges, and sum
// actions add these to the diff of the value. With NetOptions::keep_all, all of them write diffs of
// edges, and one sum action writes the diff of the value: parts of backward may then be repeated.
//
// The tops of a layer with `recompute` are computed twice. After their last reader in the forward
// pass, their memory is used for other values. Before the first layer whose backward reads them, a
// second forward action writes them again, to other blobs.
#include <algorithm>
#include <set>

#include "net/plan.hpp"

namespace crema {
namespace {

class Scheduler {
 public:
  explicit Scheduler(Plan& plan) : plan_(plan), program_(*plan.program) {}

  void run() {
    connect();
    for (const NodeId id : program_.order) {
      program_.forward_of.push_back(program_.forward.size());
      const Node& node = plan_.node(id);
      program_.forward.push_back({.kind = Action::Kind::forward,
                                  .node = id,
                                  .bottoms = node.bottom_blobs,
                                  .tops = node.top_blobs});
    }
    program_.backward_of.assign(program_.order.size(), {0, 0});
    if (!plan_.trains) return;
    find_segments();
    for (size_t k = program_.order.size(); k-- > 0;) {
      const NodeId id = program_.order[k];
      const size_t first = program_.backward.size();
      if (plan_.node(id).needs_backward) go_back(id);
      program_.backward_of[k] = {first, program_.backward.size()};
    }
  }

 private:
  /// Sets the readers of each value, and the blobs of each node.
  void connect() {
    for (const auto& value : plan_.values) value->readers.clear();
    for (const NodeId id : program_.order) {
      Node& node = plan_.node(id);
      node.bottom_blobs.clear();
      node.top_blobs.clear();
      node.edges.clear();
      node.edges.resize(node.reads.size());
      for (size_t i = 0; i < node.reads.size(); ++i) {
        plan_.value(node.reads[i]).readers.push_back({id, i});
        node.bottom_blobs.push_back(&plan_.value(node.reads[i]).blob);
      }
      for (const ValueId top : node.makes) node.top_blobs.push_back(&plan_.value(top).blob);
    }
    for (const auto& value : plan_.values) {
      value->has_gradient = false;
      value->seed = Seed::none;
      if (value->fused_away) continue;
      value->reserved = plan_.shows(*value);
      value->planned = value->blob.shape();
      resolve_diff(*value);
    }
  }

  /// Gives an edge to all readers but the first in the order of backward, and sets the seed.
  void resolve_diff(Value& value) {
    const auto writes =
        std::count_if(value.readers.begin(), value.readers.end(), [&](const Use& use) {
          return plan_.node(use.node).needs_backward && plan_.node(use.node).propagate[use.bottom];
        });
    bool written = plan_.options.keep_all && writes > 1;
    for (size_t u = value.readers.size(); u-- > 0;) {
      const Use use = value.readers[u];
      Node& node = plan_.node(use.node);
      if (!node.needs_backward || !node.propagate[use.bottom]) continue;
      if (written) {
        node.edges[use.bottom] = std::make_unique<Blob>(value.blob);
        node.edges[use.bottom]->data.unbind();
        node.edges[use.bottom]->diff.unbind();
        node.bottom_blobs[use.bottom] = node.edges[use.bottom].get();
      }
      written = true;
    }
    value.has_gradient = writes > 0 || plan_.node(value.maker).needs_backward;
    if (value.loss_weight != 0) {
      value.seed = writes > 0 ? Seed::add_weight : Seed::weight;
    } else if (writes == 0 && !value.is_output) {
      value.seed = Seed::zero;
    }
  }

  /// Finds, for each segment of the arena, the node whose backward is the last that adds to it.
  void find_segments() {
    std::map<const ParameterStorage*, size_t> index;
    const auto& segments = plan_.arena.segments();
    for (size_t s = 0; s < segments.size(); ++s) index[segments[s].parameter->storage().get()] = s;
    std::set<size_t> found;
    for (const NodeId id : program_.order) {  // the first in order is the last in backward
      if (!plan_.node(id).needs_backward) continue;
      for (const Parameter* parameter : parameters_of(id)) {
        const auto segment = index.find(parameter->storage().get());
        if (segment == index.end() || !parameter->needs_gradient) continue;
        if (found.insert(segment->second).second) completes_[id].push_back(segment->second);
      }
    }
  }

  std::vector<const Parameter*> parameters_of(NodeId id) const {
    const Node& node = plan_.node(id);
    std::vector<const Parameter*> all;
    for (const auto& parameter : node.layer->params()) all.push_back(parameter.get());
    for (const TailStep& step : node.tail) {
      if (step.scale != nullptr) all.push_back(step.scale);
      if (step.bias != nullptr) all.push_back(step.bias);
    }
    return all;
  }

  void go_back(NodeId id) {
    const Node& node = plan_.node(id);
    const BackwardReads reads = node.layer->backward_reads();
    Action action{.kind = Action::Kind::backward,
                  .node = id,
                  .bottoms = node.bottom_blobs,
                  .tops = node.top_blobs};
    for (size_t i = 0; i < node.reads.size(); ++i) {
      if (!reads.bottom_data[i]) continue;
      if (Blob* made = compute_again(node.reads[i]))
        action.bottoms[i] = with_diff_of(made, action.bottoms[i]);
    }
    // State in the layer itself (such as dropout's mask) is kept; only its tops are dropped.
    for (size_t t = 0; t < node.makes.size(); ++t) {
      if (!reads.top_data[t]) continue;
      if (Blob* made = compute_again(node.makes[t]))
        action.tops[t] = with_diff_of(made, action.tops[t]);
    }
    const bool seeds = std::any_of(node.makes.begin(), node.makes.end(), [&](ValueId top) {
      return plan_.value(top).seed != Seed::none;
    });
    if (seeds) {
      program_.backward.push_back({.kind = Action::Kind::seed, .node = id, .tops = node.top_blobs});
    }
    program_.backward.push_back(std::move(action));
    for (size_t i = 0; i < node.reads.size(); ++i) {
      if (node.propagate[i] && node.edges[i]) collect(id, node.reads[i], node.edges[i].get());
    }
    const auto complete = completes_.find(id);
    if (complete == completes_.end()) return;
    for (const size_t segment : complete->second) {
      program_.backward.push_back({.kind = Action::Kind::complete, .node = id, .segment = segment});
    }
  }

  /// Adds a part to the gradient of a value. A sum action follows when there are kMostParts parts,
  /// or when this part is the last. With keep_all, it follows the last part only.
  void collect(NodeId id, ValueId value, Blob* part) {
    std::vector<Blob*>& parts = parts_[value];
    parts.push_back(part);
    const auto& readers = plan_.value(value).readers;
    const bool last = std::none_of(readers.begin(), readers.end(), [&](const Use& use) {
      const Node& reader = plan_.node(use.node);
      const bool comes =
          position(use.node) < position(id) || (use.node == id && is_later(id, use, part));
      return comes && reader.needs_backward && reader.propagate[use.bottom];
    });
    if (!last && (plan_.options.keep_all || parts.size() < Action::kMostParts)) return;
    // The first reader wrote the diff of the value.
    if (!plan_.options.keep_all) parts.insert(parts.begin(), &plan_.value(value).blob);
    program_.backward.push_back({.kind = Action::Kind::sum,
                                 .node = id,
                                 .parts = std::move(parts),
                                 .into = &plan_.value(value).blob});
    parts.clear();
  }

  /// Whether the node reads the value at a later bottom too, whose part has not been collected.
  bool is_later(NodeId id, const Use& use, const Blob* part) const {
    const Node& node = plan_.node(id);
    size_t at = 0;
    while (node.edges[at].get() != part) ++at;
    return use.bottom > at && node.edges[use.bottom] != nullptr;
  }

  size_t position(NodeId id) const {
    if (positions_.size() == 0) {
      positions_.assign(plan_.nodes.size(), 0);
      for (size_t k = 0; k < program_.order.size(); ++k) positions_[program_.order[k]] = k;
    }
    return positions_[id];
  }

  /// Adds the actions that compute a dropped value again, and returns its blob. Null if the value
  /// is not dropped.
  Blob* compute_again(ValueId id) {
    const Value& value = plan_.value(id);
    const NodeId maker = value.maker;
    if (!is_dropped(value)) return nullptr;
    if (const auto known = again_.find(id); known != again_.end()) return known->second;
    const Node& node = plan_.node(maker);
    Action action{.kind = Action::Kind::forward,
                  .node = maker,
                  .again = true,
                  .bottoms = node.bottom_blobs,
                  .tops = {}};
    for (size_t i = 0; i < node.reads.size(); ++i) {
      if (Blob* made = compute_again(node.reads[i])) {
        action.bottoms[i] = made;
      } else {
        action.bottoms[i] = &plan_.value(node.reads[i]).blob;
      }
    }
    for (const ValueId top : node.makes) {
      auto blob = std::make_unique<Blob>(plan_.value(top).blob);
      blob->data.unbind();
      blob->diff.unbind();
      again_[top] = blob.get();
      action.tops.push_back(blob.get());
      program_.again.push_back(std::move(blob));
    }
    program_.backward.push_back(std::move(action));
    return again_.at(id);
  }

  bool is_dropped(const Value& value) const {
    const Node& maker = plan_.node(value.maker);
    // A conversion is computed again if the layer that it converts is.
    const bool asked = maker.is_conversion ? plan_.node(value.producer).recompute : maker.recompute;
    return asked && !value.reserved && !maker.layer->is_source() && !maker.follows_values &&
           maker.layer->top_shapes() != TopShapes::from_values;
  }

  /// A view: a blob with the data of one blob and the diff of another.
  Blob* with_diff_of(Blob* data, Blob* diff) {
    auto blob = std::make_unique<Blob>(data->name);
    blob->data = data->data;
    blob->diff = diff->diff;
    program_.views.push_back({blob.get(), data, diff});
    program_.again.push_back(std::move(blob));
    return program_.again.back().get();
  }

  Plan& plan_;
  Program& program_;
  std::map<NodeId, std::vector<size_t>> completes_;
  std::map<ValueId, std::vector<Blob*>> parts_;
  std::map<ValueId, Blob*> again_;
  mutable IdVector<NodeId, size_t> positions_;
};

}  // namespace

void make_schedule(Plan& plan) { Scheduler(plan).run(); }

}  // namespace crema
