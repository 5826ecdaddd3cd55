// Running one action of a program.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "data/data_source.hpp"
#include "net/not_finite.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

double weighted_sum(const Value& value) {
  double sum = 0;
  dispatch_float(value.blob.data.dtype(), [&](auto zero) {
    for (const auto x : value.blob.data.values<decltype(zero)>()) sum += static_cast<double>(x);
  });
  return sum * static_cast<double>(value.loss_weight);
}

/// The bottom with the labels or indices that an Error of one sample is about: the first behind
/// bottom 0 that has no gradient, or else that one.
size_t label_bottom(const Node& node) {
  for (size_t i = 1; i < node.bottoms.size(); ++i) {
    if (!node.layer->can_propagate(static_cast<int>(i))) return i;
  }
  return 0;
}

/// Says why a loss is not finite, once until it is finite again.
void check_loss(const Plan& plan, Node& node, const Value& loss) {
  if (!plan.warns_of_losses) return;
  const bool finite = std::isfinite(loss.blob.data.at(0));
  if (std::exchange(node.told_not_finite, !finite) || finite) return;
  warn_of_loss(*node.layer, node.bottom_blobs, loss.blob, [&](size_t bottom, int64_t sample) {
    return bottom < node.bottoms.size() ? record_key(plan, node.bottoms[bottom], sample) : "";
  });
}

/// Whether the node has no element to read and none to write: all engines may refuse such a
/// problem.
bool is_empty(const Node& node) {
  const auto empty = [](const Blob* blob) { return blob->shape().count() == 0; };
  return node.follows_values && !node.top_blobs.empty() && empty(node.bottom_blobs.front()) &&
         std::ranges::all_of(node.top_blobs, empty);
}

/// Reshapes and prepares a node whose bottoms have shapes that are known during forward only.
void follow_shapes(const Plan& plan, Node& node) {
  // Edges are blobs of their own, which do not follow the value. Other bottoms stay as they are.
  for (size_t i = 0; i < node.reads.size(); ++i) {
    node.bottom_blobs[i]->reshape(plan.value(node.reads[i]).blob.shape());
  }
  if (std::ranges::equal(node.bottom_blobs, node.prepared_for, {}, &Blob::shape)) return;
  // If the layer refuses the shapes, the next pass asks it again.
  node.prepared_for.clear();
  node.layer->reshape(node.bottom_blobs, node.top_blobs);
  check_places(plan, node);
  if (!is_empty(node))
    node.kernel = make_kernel(*node.layer, node.option, node.bottom_blobs, node.top_blobs);
  for (const Blob* blob : node.bottom_blobs) node.prepared_for.push_back(blob->shape());
}

[[noreturn]] void refuse_shape(const Node& node, const Value& value) {
  const Shape& shape = value.blob.shape();
  if (node.layer->top_shapes() == TopShapes::fixed && !node.follows_values) {
    throw Error("changed the shape of its top '", value.name, "' in forward from ",
                value.planned.str(), " to ", shape.str(),
                ", which only layers whose top_shapes() are from_values may");
  }
  throw Error("made a top '", value.name, "' of ", shape.str(), ", which exceeds its bound ",
              value.planned.str());
}

/// Error unless the tops have the shapes that memory was planned for, or fit if they may be
/// smaller.
void check_shapes(const Plan& plan, const Node& node) {
  const bool late = node.follows_values || node.layer->top_shapes() == TopShapes::from_values;
  for (size_t t = 0; t < node.makes.size(); ++t) {
    const Value& value = plan.value(node.makes[t]);
    const Blob& blob = *node.top_blobs[t];
    if (blob.shape() == value.planned) continue;
    const bool fits = storage_count(blob.shape(), blob.data.format()) <=
                      storage_count(value.planned, blob.data.format());
    const bool may_shrink = late || (!node.is_conversion && plan.has_late_shape(value));
    if (!may_shrink || !fits) refuse_shape(node, value);
  }
}

/// Sets RunState::recomputing as long as it lives. Other passes do not write it: nets in other
/// threads may use the same state.
class Recomputing {
 public:
  explicit Recomputing(RunState& run) : run_(run) { run_.recomputing = true; }
  ~Recomputing() { run_.recomputing = false; }
  Recomputing(const Recomputing&) = delete;
  Recomputing& operator=(const Recomputing&) = delete;

 private:
  RunState& run_;
};

/// As long as it lives, the layer of the node computes with the noisy values.
class WithNoise {
 public:
  explicit WithNoise(Node& node) : node_(node) {
    for (ParameterNoise& noise : node_.noise) noise.parameter->compute_with(noise.values.get());
  }
  ~WithNoise() {
    for (ParameterNoise& noise : node_.noise) noise.parameter->compute_with(nullptr);
  }
  WithNoise(const WithNoise&) = delete;
  WithNoise& operator=(const WithNoise&) = delete;

 private:
  Node& node_;
};

void run_forward(Plan& plan, const Action& action) {
  Node& node = plan.node(action.node);
  std::optional<Recomputing> recomputing;
  if (action.again) recomputing.emplace(*plan.run);
  in_node(node, [&] {
    if (node.follows_values) follow_shapes(plan, node);
    try {
      if (!is_empty(node)) {
        if (!action.again) draw_noise(node);
        const WithNoise noise(node);
        node.kernel->forward(action.bottoms, action.tops);
      }
    } catch (Error& error) {
      try {
        if (error.sample() >= 0 && !node.bottoms.empty())
          error.in_record(record_key(plan, node.bottoms[label_bottom(node)], error.sample()));
      } catch (const Error&) {  // of reading the key: `error` matters more
      }
      throw;
    }
    if (action.again) return;
    check_shapes(plan, node);
    log_action(plan, action);
    // To look at a loss on a device would wait for all that is queued there; the solver looks.
    if (plan.context->on_gpu()) return;
    for (const ValueId top : node.makes) {
      const Value& value = plan.value(top);
      if (value.loss_weight != 0 && value.blob.count() == 1) check_loss(plan, node, value);
    }
  });
}

}  // namespace

void run_action(Plan& plan, const Action& action) {
  Node& node = plan.node(action.node);
  const ComputeDevice device =
      plan.context->on_gpu() ? ComputeDevice(plan.context->backend()) : ComputeDevice();
  switch (action.kind) {
    case Action::Kind::forward:
      return run_forward(plan, action);
    case Action::Kind::seed:
      if (action.weight == 0) return action.into->fill(0);
      // Losses read a diff of one element on the host.
      return fill(action.into->count() > 1 ? device : ComputeDevice(), *action.into,
                  action.weight * plan.loss_scale, action.adds);
    case Action::Kind::backward:
      if (is_empty(node)) return;
      in_node(node, [&] {
        const WithNoise noise(node);
        node.kernel->backward(action.tops, node.propagate, action.bottoms);
      });
      return log_action(plan, action);
    case Action::Kind::sum:
      return add(device, action.parts, *action.into);
    case Action::Kind::complete:
      if (plan.on_gradient) plan.on_gradient(action.segment);
      return;
  }
}

std::string record_key(const Plan& plan, ValueId value, int64_t index) {
  const int64_t samples = plan.value(value).blob.shape().dim_or_1(0);
  std::set<NodeId> met;
  std::vector<ValueId> above = {value};
  std::set<const DataSource*> sources;
  while (!above.empty()) {
    const Value& one = plan.value(above.back());
    above.pop_back();
    // A layer that splits or joins batches changes the indices of the samples.
    if (one.blob.shape().dim_or_1(0) != samples) return {};
    if (!met.insert(one.producer).second) continue;
    const Node& producer = plan.node(one.producer);
    const DataSource* source = producer.layer->data_source();
    if (source != nullptr) sources.insert(source);
    above.insert(above.end(), producer.bottoms.begin(), producer.bottoms.end());
  }
  return sources.size() == 1 ? (*sources.begin())->record_key(index) : std::string();
}

double losses_of(const Plan& plan, const Node& node) {
  double loss = 0;
  for (const ValueId top : node.makes) {
    if (plan.value(top).loss_weight != 0) loss += weighted_sum(plan.value(top));
  }
  return loss;
}

}  // namespace crema
