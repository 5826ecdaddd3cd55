// Makes the lists of actions of the forward and the backward pass, and tells what actions read and
// write.
//
// If several layers read a value, each of them computes a part of its gradient. The first of them
// in the order of backward writes the diff of the value. The others write diffs of edges, and sum
// actions add these to the diff of the value. With NetOptions::keep_all, all of them write diffs of
// edges, and one sum action writes the diff of the value. Behind the last part, a seed action adds
// the loss weight of the value. So parts of backward may be repeated with keep_all.
//
// The tops of a dropped node are computed twice. After their last reader in the forward
// pass, their memory is used for other values. Before the first layer whose backward reads them, a
// second forward action writes them again, to other blobs.
#include <utility>

#include "net/plan.hpp"

namespace crema {
namespace {

class Scheduler {
 public:
  Scheduler(const Plan& plan, Program& program) : plan_(plan), program_(program) {}

  void run() {
    clear();
    connect();
    for (const NodeId id : program_.order) {
      const ProgramNode& node = program_[id];
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
      if (program_[id].needs_backward) go_back(id);
      program_.backward_of[k] = {first, program_.backward.size()};
    }
  }

 private:
  /// Removes an earlier schedule.
  void clear() {
    program_.forward.clear();
    program_.backward.clear();
    program_.twins.clear();
    for (const NodeId id : program_.order) {
      ProgramNode& node = program_[id];
      node.bottom_blobs = program_.blobs(node.reads);
    }
  }

  /// Sets the readers of each value, and what depends on them.
  void connect() {
    for (ProgramValue& value : program_.values) value.readers.clear();
    for (const NodeId id : program_.order) {
      const std::vector<ValueId>& reads = program_[id].reads;
      for (size_t i = 0; i < reads.size(); ++i) program_[reads[i]].readers.push_back({id, i});
    }
    for (size_t v = 0; v < program_.values.size(); ++v) {
      ProgramValue& value = program_[ValueId(v)];
      last_writers_.push_back({});
      value.has_gradient = false;
      if (value.fused_away) continue;
      value.reserved = !value.is_converted() && plan_.shows(value);
      value.planned = value.blob->shape();
      add_edges(ValueId(v));
      value.has_gradient =
          last_writers_[ValueId(v)].node.valid() || program_[value.maker].needs_backward;
    }
  }

  /// Gives an edge to all readers but the first in the order of backward.
  void add_edges(ValueId id) {
    ProgramValue& value = program_[id];
    std::vector<Use> writers;
    for (const Use& use : value.readers) {
      const ProgramNode& node = program_[use.node];
      if (node.needs_backward && node.propagate[use.bottom]) writers.push_back(use);
    }
    if (writers.empty()) return;
    last_writers_[id] = writers.front();
    if (!plan_.options.keep_all || writers.size() == 1) writers.pop_back();
    for (const Use& use : writers) {
      program_[use.node].bottom_blobs[use.bottom] = add_twin({*value.blob, &value.blob->data});
    }
  }

  Blob* add_twin(Twin twin) {
    twin.blob.data.unbind();
    twin.blob.diff.unbind();
    twin.planned = twin.blob.shape();
    return &program_.twins.emplace_back(std::move(twin)).blob;
  }

  /// Finds, for each segment of the arena, the node whose backward is the last that adds to it.
  void find_segments() {
    std::map<const ParameterStorage*, size_t> index;
    const auto& segments = plan_.arena.segments();
    for (size_t s = 0; s < segments.size(); ++s) index[segments[s].parameter->storage().get()] = s;
    for (const NodeId id : program_.order) {  // the first in order is the last in backward
      if (!program_[id].needs_backward) continue;
      for (const Parameter* parameter : parameters_of(program_[id])) {
        const auto segment = index.find(parameter->storage().get());
        if (segment == index.end() || !parameter->needs_gradient) continue;
        completes_[id].push_back(segment->second);
        index.erase(segment);
      }
    }
  }

  void go_back(NodeId id) {
    const ProgramNode& node = program_[id];
    const BackwardReads reads = node.kernel->backward_reads();
    Action action{.kind = Action::Kind::backward,
                  .node = id,
                  .bottoms = node.bottom_blobs,
                  .tops = node.top_blobs};
    for (size_t i = 0; i < node.reads.size(); ++i) {
      Blob* const made = reads.bottom_data[i] ? compute_again(node.reads[i]) : nullptr;
      if (made == nullptr) continue;
      const Blob& own = *action.bottoms[i];
      action.bottoms[i] = is_edge(node, i) ? add_twin({own, &made->data, &own.diff}) : made;
    }
    // State in the layer itself (such as dropout's mask) is kept; only its tops are dropped.
    for (size_t t = 0; t < node.makes.size(); ++t) {
      Blob* const made = reads.top_data[t] ? compute_again(node.makes[t]) : nullptr;
      if (made != nullptr) action.tops[t] = made;
    }
    for (const ValueId top : node.makes) {
      const ProgramValue& value = program_[top];
      if (last_writers_[top].node.valid() || (value.is_output && value.loss_weight == 0)) continue;
      add_seed(id, top);
    }
    program_.backward.push_back(std::move(action));
    for (size_t i = node.reads.size(); i-- > 0;) {
      if (node.propagate[i]) collect(id, i);
    }
    const auto complete = completes_.find(id);
    if (complete == completes_.end()) return;
    for (const size_t segment : complete->second) {
      program_.backward.push_back({.kind = Action::Kind::complete, .node = id, .segment = segment});
    }
  }

  void add_seed(NodeId id, ValueId top) {
    ProgramValue& value = program_[top];
    program_.backward.push_back({.kind = Action::Kind::seed,
                                 .node = id,
                                 .into = &value.blob->diff,
                                 .weight = value.loss_weight,
                                 .adds = last_writers_[top].node.valid()});
  }

  bool is_edge(const ProgramNode& node, size_t bottom) const {
    return node.bottom_blobs[bottom] != program_[node.reads[bottom]].blob;
  }

  /// Behind backward of a node that wrote the diff of a bottom, or its edge: adds the edge to the
  /// gradient of the value. A sum action follows when there are kMostParts parts, or when this part
  /// is the last. With keep_all, it follows the last part only.
  void collect(NodeId id, size_t bottom) {
    const ProgramNode& node = program_[id];
    const ValueId read = node.reads[bottom];
    Tensor& gradient = program_[read].blob->diff;
    const bool last = last_writers_[read] == Use{id, bottom};
    if (is_edge(node, bottom)) {
      std::vector<const Tensor*>& parts = parts_[read];
      parts.push_back(&node.bottom_blobs[bottom]->diff);
      if (last || (!plan_.options.keep_all && parts.size() >= Action::kMostParts)) {
        // The first reader wrote the diff of the value.
        if (!plan_.options.keep_all) parts.insert(parts.begin(), &gradient);
        program_.backward.push_back({.kind = Action::Kind::sum,
                                     .node = id,
                                     .parts = std::exchange(parts, {}),
                                     .into = &gradient});
      }
    }
    if (last && program_[read].loss_weight != 0) add_seed(id, read);
  }

  /// Adds the actions that compute a dropped value again, and returns a blob of it with the diff of
  /// the value. Null if the value is not dropped.
  Blob* compute_again(ValueId id) {
    const ProgramValue& value = program_[id];
    if (!is_dropped(id)) return nullptr;
    if (const auto known = again_.find(id); known != again_.end()) return known->second;
    const ProgramNode& node = program_[value.maker];
    Action action{.kind = Action::Kind::forward,
                  .node = value.maker,
                  .again = true,
                  .bottoms = program_.blobs(node.reads),
                  .tops = {}};
    for (size_t i = 0; i < node.reads.size(); ++i) {
      if (Blob* made = compute_again(node.reads[i])) action.bottoms[i] = made;
    }
    for (const ValueId top : node.makes) {
      const Blob& blob = *program_[top].blob;
      again_[top] = add_twin({blob, nullptr, &blob.diff});
      action.tops.push_back(again_[top]);
    }
    program_.backward.push_back(std::move(action));
    return again_.at(id);
  }

  bool is_dropped(ValueId id) const {
    const ProgramValue& value = program_[id];
    const ProgramNode& maker = program_[value.maker];
    // A conversion is computed again if the layer that it converts is.
    const bool dropped = maker.is_conversion() ? program_[value.producer].dropped : maker.dropped;
    return dropped && !value.reserved && !maker.layer->is_source() &&
           !plan_.graph->has_late_shape(value.is_converted() ? value.origin : id);
  }

  const Plan& plan_;
  Program& program_;
  std::map<NodeId, std::vector<size_t>> completes_;
  /// The bottom whose backward is the last to write a part of the diff; invalid if there is none.
  IdVector<ValueId, Use> last_writers_;
  std::map<ValueId, std::vector<const Tensor*>> parts_;
  std::map<ValueId, Blob*> again_;
};

Accesses accesses_of_backward(const Program& program, const Action& action) {
  Accesses all;
  const ProgramNode& node = program[action.node];
  const BackwardReads reads = node.kernel->backward_reads();
  for (size_t i = 0; i < action.bottoms.size(); ++i) {
    if (reads.bottom_data[i]) all.reads.push_back(&action.bottoms[i]->data);
    if (node.propagate[i]) all.writes.push_back(&action.bottoms[i]->diff);
  }
  for (size_t t = 0; t < action.tops.size(); ++t) {
    if (reads.top_data[t]) all.reads.push_back(&action.tops[t]->data);
    if (program[node.makes[t]].has_gradient) all.reads.push_back(&action.tops[t]->diff);
  }
  return all;
}

}  // namespace

void make_schedule(const Plan& plan, Program& program) { Scheduler(plan, program).run(); }

std::vector<const Parameter*> parameters_of(const ProgramNode& node) {
  std::vector<const Parameter*> all;
  for (const auto& parameter : node.layer->params()) all.push_back(parameter.get());
  if (node.is_conversion()) return all;
  for (const TailStep& step : node.node->tail) {
    if (step.scale != nullptr) all.push_back(step.scale);
    if (step.bias != nullptr) all.push_back(step.bias);
  }
  return all;
}

Accesses accesses_of(const Program& program, const Action& action) {
  Accesses all;
  switch (action.kind) {
    case Action::Kind::forward:
      for (const Blob* bottom : action.bottoms) all.reads.push_back(&bottom->data);
      for (const Blob* top : action.tops) all.writes.push_back(&top->data);
      return all;
    case Action::Kind::seed:
      if (action.adds) all.reads.push_back(action.into);
      all.writes.push_back(action.into);
      return all;
    case Action::Kind::backward:
      return accesses_of_backward(program, action);
    case Action::Kind::sum:
      return {action.parts, {action.into}};
    case Action::Kind::complete:
    case Action::Kind::losses:
    case Action::Kind::update:
      return all;
  }
  return all;
}

}  // namespace crema
