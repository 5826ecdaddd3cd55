// Running one action of a program.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "backend/report.hpp"
#include "core/data_source.hpp"
#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "core/spans.hpp"
#include "net/not_finite.hpp"
#include "net/out_of_memory.hpp"
#include "net/plan.hpp"
#include "net/queued.hpp"

namespace crema {
namespace {

double weighted_sum(const ProgramValue& value) {
  double sum = 0;
  dispatch_float(value.blob->data.dtype(), [&](auto zero) {
    for (const auto x : value.blob->data.values<decltype(zero)>()) sum += static_cast<double>(x);
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
void check_loss(Plan& plan, NodeId id, const ProgramValue& loss) {
  if (!plan.warns_of_losses) return;
  if (std::isfinite(loss.blob->data.at(0))) {
    plan.not_finite.erase(id);
    return;
  }
  if (!plan.not_finite.insert(id).second) return;
  const ProgramNode& node = (*plan.program)[id];
  warn_of_loss(*node.layer, node.bottom_blobs, *loss.blob, [&](size_t bottom, int64_t sample) {
    const bool known = !node.is_conversion() && bottom < node.node->bottoms.size();
    return known ? record_key(plan, node.node->bottoms[bottom], sample) : "";
  });
}

bool has_unbounded_tops(const ProgramNode& node) {
  return node.layer->top_shapes() == TopShapes::from_values && node.layer->has_unbounded_tops();
}

/// Whether the node has no element to read and none to write: all engines may refuse such a
/// problem.
bool is_empty(const ProgramNode& node) {
  const auto empty = [](const Blob* blob) { return blob->shape().count() == 0; };
  return node.follows_values && !node.top_blobs.empty() && empty(node.bottom_blobs.front()) &&
         std::ranges::all_of(node.top_blobs, empty) && !has_unbounded_tops(node);
}

/// Whether the shapes differ in more than the number of samples.
bool differ_within(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return true;
  for (int axis = 1; axis < a.rank(); ++axis) {
    if (a[axis] != b[axis]) return true;
  }
  return false;
}

/// Whether the blobs have the layouts of the option.
bool has_layouts(const ProgramNode& node, const Option& option) {
  const auto same = [](const Blob* blob, const Layout& layout) {
    return blob->data.dtype() == layout.dtype && blob->data.format() == layout.format;
  };
  return std::ranges::equal(node.bottom_blobs, option.bottoms, same) &&
         std::ranges::equal(node.top_blobs, option.tops, same);
}

/// Behind tops that are not as they were guessed: an engine that could run the guess may refuse
/// what there is.
void choose_option(const Program& program, ProgramNode& node) {
  bool is_other = node.stood_in || !has_layouts(node, node.option);
  for (size_t i = 0; i < node.reads.size(); ++i) {
    const Shape& guess = program[node.reads[i]].planned;
    is_other = is_other || differ_within(node.bottom_blobs[i]->shape(), guess);
  }
  if (!is_other) return;
  for (Option& option : options_of(*node.layer, node.bottom_blobs, node.top_blobs)) {
    if (!has_layouts(node, option)) continue;
    node.option = std::move(option);
    return;
  }
  throw Error("cannot run with a bottom of ", node.bottom_blobs.front()->shape().str(),
              ", which follows from a layer in front of it: none of its engines takes the layout");
}

/// Reshapes and prepares a node whose bottoms have shapes that are known during forward only.
void follow_shapes(Plan& plan, NodeId id) {
  const Program& program = *plan.program;
  ProgramNode& node = (*plan.program)[id];
  // Edges are blobs of their own, which do not follow the value. Other bottoms stay as they are.
  for (size_t i = 0; i < node.reads.size(); ++i) {
    const Blob& value = *program[node.reads[i]].blob;
    Blob& bottom = *node.bottom_blobs[i];
    bottom.reshape(value.shape());
    // A value that needs more memory than was planned has left what its edges were bound to.
    if (&bottom != &value && value.data.has_memory() && !bottom.data.same_memory(value.data))
      bottom.data.bind(value.data.memory(), value.data.offset());
  }
  if (std::ranges::equal(node.bottom_blobs, node.made_for, {}, &Blob::shape)) return;
  // If the layer refuses the shapes, the next pass asks it again.
  node.made_for.clear();
  node.layer->reshape(node.bottom_blobs, node.top_blobs);
  if (!node.is_conversion()) {
    check_places(plan, id);
    plan.note_taken(id, node.bottom_blobs);
  }
  if (!is_empty(node)) {
    if (program.outgrown) choose_option(program, node);
    node.kernel = make_kernel(*node.layer, node.option, node.bottom_blobs, node.top_blobs);
  }
  for (const Blob* blob : node.bottom_blobs) node.made_for.push_back(blob->shape());
}

[[noreturn]] void refuse_shape(const ProgramNode& node, const ProgramValue& value) {
  const Shape& shape = value.blob->shape();
  if (node.layer->top_shapes() == TopShapes::fixed && !node.follows_values) {
    throw Error("changed the shape of its top '", value.name, "' in forward from ",
                value.planned.str(), " to ", shape.str(),
                ", which only layers whose top_shapes() are from_values may");
  }
  throw Error("made a top '", value.name, "' of ", shape.str(), ", which exceeds its bound ",
              value.planned.str());
}

/// Error unless the tops have the shapes that memory was planned for, or fit if they may be
/// smaller. Unbounded tops, and those of layers behind them, may have any: a tensor that exceeds
/// its memory has left it.
void check_shapes(const Plan& plan, const ProgramNode& node) {
  Program& program = *plan.program;
  const bool late = node.follows_values || node.layer->top_shapes() == TopShapes::from_values;
  for (size_t t = 0; t < node.makes.size(); ++t) {
    const ProgramValue& value = program[node.makes[t]];
    const Blob& blob = *node.top_blobs[t];
    if (blob.shape() == value.planned) continue;
    if (has_unbounded_tops(node)) {
      program.outgrown = program.outgrown || differ_within(blob.shape(), value.planned) ||
                         blob.shape().count() > value.planned.count();
      continue;
    }
    const bool fits = storage_count(blob.shape(), blob.data.format()) <=
                      storage_count(value.planned, blob.data.format());
    const bool may_shrink =
        late || (!node.is_conversion() && plan.graph->has_late_shape(node.node->tops[t]));
    if (!may_shrink || (!fits && !program.outgrown)) refuse_shape(node, value);
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
  WithNoise(Plan& plan, NodeId id) {
    const auto found = plan.noise.find(id);
    if (found != plan.noise.end()) noises_ = &found->second;
    if (noises_ == nullptr) return;
    for (ParameterNoise& noise : *noises_) noise.parameter->compute_with(noise.values.get());
  }
  ~WithNoise() {
    if (noises_ == nullptr) return;
    for (ParameterNoise& noise : *noises_) noise.parameter->compute_with(nullptr);
  }
  WithNoise(const WithNoise&) = delete;
  WithNoise& operator=(const WithNoise&) = delete;

 private:
  std::vector<ParameterNoise>* noises_ = nullptr;
};

/// Queues the copies of a batch or of inputs to the device that reads it. Those of a batch go on
/// beside the pass before.
void upload_batch(const Plan& plan, const ProgramNode& node) {
  const Program& program = *plan.program;
  for (const ValueId top : node.makes) {
    const ProgramValue& value = program[top];
    const bool read_there = std::ranges::any_of(
        value.readers, [&](const Use& use) { return !falls_back_to_cpu(plan, program[use.node]); });
    if (read_there && value.blob->count() > 0)
      value.blob->data.read_bytes(&plan.context->backend());
  }
}

void run_forward(Plan& plan, const Action& action) {
  Program& program = *plan.program;
  ProgramNode& node = program[action.node];
  std::optional<Recomputing> recomputing;
  if (action.again) recomputing.emplace(*plan.run);
  in_node(node, [&] {
    if (node.follows_values) follow_shapes(plan, action.node);
    try {
      if (!is_empty(node)) {
        if (!action.again) draw_noise(plan, action.node);
        const WithNoise noise(plan, action.node);
        taking_memory(plan, [&] { node.kernel->forward(action.bottoms, action.tops); });
      }
    } catch (Error& error) {
      add_record(plan, node, error);
      throw;
    }
    if (action.again) return;
    check_shapes(plan, node);
    log_action(plan, action);
    // To look at a loss on a device would wait for all that is queued there; the solver looks.
    if (plan.context->on_gpu()) {
      if (!node.is_conversion() && node.layer->is_source())
        taking_memory(plan, [&] { upload_batch(plan, node); });
      return;
    }
    for (const ValueId top : node.makes) {
      const ProgramValue& value = program[top];
      if (value.loss_weight != 0 && value.blob->count() == 1) check_loss(plan, action.node, value);
    }
  });
}

/// With the loss scale of the time when the device does it.
void seed_on_device(Plan& plan, const ComputeDevice& device, const Action& action) {
  Tensor& diff = *action.into;
  if (diff.count() == 0) return;
  dispatch_float(diff.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const values = action.adds ? device.change<T>(diff) : device.overwrite<T>(diff);
    device_seed(*device.backend(), device_loss_scale(plan), diff.dtype(), diff.count(),
                action.weight, action.adds, values);
  });
}

SpanKind span_kind(const Action& action) {
  switch (action.kind) {
    case Action::Kind::forward:
      return action.again ? SpanKind::recompute : SpanKind::forward;
    case Action::Kind::backward:
      return SpanKind::backward;
    case Action::Kind::sum:
      return SpanKind::sum;
    default:
      return SpanKind::seed;
  }
}

}  // namespace

void run_action(Plan& plan, const Action& action) {
  if (action.kind == Action::Kind::complete) {
    if (plan.on_gradient) plan.on_gradient(action.segment);
    return;
  }
  ProgramNode& node = (*plan.program)[action.node];
  const Span span(span_kind(action), [&] {
    return SpanText{node.layer->name(), node.is_conversion() ? "Conversion" : node.layer->type()};
  });
  const ComputeDevice device =
      plan.context->on_gpu() ? ComputeDevice(plan.context->backend()) : ComputeDevice();
  switch (action.kind) {
    case Action::Kind::forward:
      return run_forward(plan, action);
    case Action::Kind::seed:
      if (action.weight == 0) {
        if (!device.on_host()) return fill_zero(device, *action.into);
        return action.into->fill(0);
      }
      if (device.on_host() || is_host_seed(plan, action)) {
        return fill(ComputeDevice(), *action.into, action.weight * plan.loss_scale, action.adds);
      }
      return seed_on_device(plan, device, action);
    case Action::Kind::backward:
      if (is_empty(node)) return;
      in_node(node, [&] {
        const WithNoise noise(plan, action.node);
        taking_memory(plan,
                      [&] { node.kernel->backward(action.tops, node.propagate, action.bottoms); });
      });
      return log_action(plan, action);
    case Action::Kind::sum:
      return add(device, action.parts, *action.into);
    case Action::Kind::complete:
    case Action::Kind::losses:
    case Action::Kind::update:
      return;  // above; of who queues an iteration (queued.hpp)
  }
}

void add_record(const Plan& plan, const ProgramNode& node, Error& error) {
  if (error.sample() < 0 || node.is_conversion() || node.node->bottoms.empty()) return;
  try {
    error.in_record(record_key(plan, node.node->bottoms[label_bottom(*node.node)], error.sample()));
  } catch (const Error&) {  // of reading the key: `error` matters more
  }
}

std::string record_key(const Plan& plan, ValueId value, int64_t index) {
  const int64_t samples = plan.blob(value).shape().dim_or_1(0);
  std::set<NodeId> met;
  std::vector<ValueId> above = {value};
  std::set<const DataSource*> sources;
  while (!above.empty()) {
    const ValueId id = above.back();
    above.pop_back();
    // A layer that splits or joins batches changes the indices of the samples.
    if (plan.blob(id).shape().dim_or_1(0) != samples) return {};
    const NodeId maker = plan.value(id).producer;
    if (!met.insert(maker).second) continue;
    const DataSource* source = plan.layer(maker).data_source();
    if (source != nullptr) sources.insert(source);
    const Node& producer = plan.node(maker);
    above.insert(above.end(), producer.bottoms.begin(), producer.bottoms.end());
  }
  if (sources.size() != 1 || plan.without_keys.count(*sources.begin()) != 0) return {};
  return (*sources.begin())->record_key(index);
}

double losses_of(const Program& program, const ProgramNode& node) {
  double loss = 0;
  for (const ValueId top : node.makes) {
    if (program[top].loss_weight != 0) loss += weighted_sum(program[top]);
  }
  return loss;
}

}  // namespace crema
