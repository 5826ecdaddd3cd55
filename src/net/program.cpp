// Making a program, putting it aside while other shapes run, and taking it up again.
#include <algorithm>
#include <utility>

#include "net/plan.hpp"

namespace crema {
namespace {

/// The number of programs kept for other shapes. Detectors and fully convolutional nets return to a
/// few shapes. Each program holds memory of its engines, but shares what is derived from weights.
constexpr size_t kKeptPrograms = 8;

/// Moves the present program, with its states of nodes and values, to Plan::kept.
void put_aside(Plan& plan) {
  Program& program = *plan.program;
  for (const NodeId id : program.order) {
    Node& node = plan.node(id);
    program.nodes.push_back(std::exchange<NodeState>(node, {}));
  }
  for (const ValueId id : plan.graph_values()) {
    plan.value(id).layout = plan.value(id).blob.data.layout();
    program.values.push_back(plan.value(id));
  }
  // Pieces would keep the arena of this program alive beside that of the next one.
  for (const Buffer& buffer : program.buffers) {
    if (buffer.reserved) continue;
    for (const Buffer::Resident& resident : buffer.tensors) resident.tensor->unbind();
  }
  for (size_t n = plan.layer_count; n < plan.nodes.size(); ++n) {
    program.conversions.push_back(std::move(plan.nodes[NodeId(n)]));
  }
  for (size_t v = plan.value_count; v < plan.values.size(); ++v) {
    program.converted.push_back(std::move(plan.values[ValueId(v)]));
  }
  plan.kept.push_front(std::move(program));
}

/// Makes a program that put_aside() kept the present one. The layers have its shapes.
void take_up(Plan& plan, Program taken) {
  Program& program = plan.program.emplace(std::move(taken));
  for (auto& node : std::exchange(program.conversions, {})) plan.nodes.push_back(std::move(node));
  for (auto& value : std::exchange(program.converted, {})) plan.values.push_back(std::move(value));
  for (const ValueId id : plan.graph_values()) {
    Value& value = plan.value(id);
    static_cast<ValueState&>(value) = std::move(program.values[id.index()]);
    value.blob.set_layout(value.layout);
  }
  program.values.clear();
  bind_memory(plan);
  for (size_t k = 0; k < program.order.size(); ++k) {
    Node& node = plan.node(program.order[k]);
    static_cast<NodeState&>(node) = std::move(program.nodes[k]);
    // Shapes are bounds again: what follows values is prepared anew.
    node.prepared_for.clear();
    node.kernel->enter(node.bottom_blobs, node.top_blobs);
  }
  program.nodes.clear();
}

void make_kernels(Plan& plan) {
  int computing = 0, on_cpu = 0;
  for (const NodeId id : plan.program->order) {
    Node& node = plan.node(id);
    node.bottom_blobs = plan.blobs(node.reads);
    node.top_blobs = plan.blobs(node.makes);
    if (node.is_conversion) {
      node.option = options_of(*node.layer, node.bottom_blobs, node.top_blobs).front();
    }
    in_node(node, [&] {
      node.kernel = make_kernel(*node.layer, node.option, node.bottom_blobs, node.top_blobs);
    });
    for (const Blob* blob : node.bottom_blobs) node.prepared_for.push_back(blob->shape());
    // Data sources always run on the host.
    if (node.is_conversion || node.bottoms.empty()) continue;
    ++computing;
    if (!falls_back_to_cpu(plan, node)) continue;
    ++on_cpu;
    plan.note(text(named(node), " runs on the CPU"), Severity::warning);
  }
  if (on_cpu != 0) {
    plan.note(text(on_cpu, " of ", computing, " layers run on the CPU"), Severity::warning);
  }
}

/// Bytes that the layers and their engines hold, and the scratch memory, which they share.
size_t engine_bytes(const Plan& plan) {
  size_t held = 0;
  ScratchPlan scratch(plan.context->threads());
  for (const NodeId id : plan.program->order) {
    held += plan.node(id).layer->kept_bytes();
    for (const ParameterNoise& noise : plan.node(id).noise) held += noise.layer->kept_bytes();
    held += plan.node(id).kernel->bytes();
    plan.node(id).kernel->plan_scratch(scratch);
  }
  return held + scratch.bytes();
}

}  // namespace

void clear_program(Plan& plan) {
  plan.program.reset();
  plan.done = 0;
  plan.nodes.resize(plan.layer_count);
  plan.values.resize(plan.value_count);
  for (const NodeId id : plan.layer_nodes()) {
    Node& node = plan.node(id);
    static_cast<NodeState&>(node) = {};
    node.bottom_blobs = plan.blobs(node.bottoms);
    node.top_blobs = plan.blobs(node.tops);
  }
}

bool Plan::current() const {
  // A bound holds smaller shapes too.
  const auto fits = [&](ValueId id, const Shape& planned) {
    const Shape& shape = value(id).blob.shape();
    return shape == planned || (shape.count() <= planned.count() && has_late_shape(value(id)));
  };
  return program && std::ranges::equal(outer, program->shapes, fits);
}

std::vector<Blob*> Plan::blobs(const std::vector<ValueId>& ids) {
  std::vector<Blob*> found;
  for (const ValueId id : ids) found.push_back(&value(id).blob);
  return found;
}

void take_program(Plan& plan) {
  std::vector<Shape> shapes;
  for (const ValueId id : plan.outer) shapes.push_back(plan.value(id).blob.shape());
  if (plan.program) put_aside(plan);
  clear_program(plan);
  // If this throws, there is no program, and the next pass calls take_program again.
  infer_shapes(plan);
  const auto known = std::ranges::find(plan.kept, shapes, &Program::shapes);
  std::list<Program> taken;
  if (known != plan.kept.end()) taken.splice(taken.begin(), plan.kept, known);
  if (plan.kept.size() > kKeptPrograms) plan.kept.pop_back();
  try {
    if (!taken.empty()) return take_up(plan, std::move(taken.front()));
    plan.program.emplace();
    plan.program->shapes = std::move(shapes);
    choose_layouts(plan);
    make_kernels(plan);
    plan.context->save_tuning();
    plan.program->memory.parameters =
        plan.arena.data().bytes() + plan.arena.diff().bytes() + noisy_bytes(plan);
    plan.program->memory.engines = engine_bytes(plan);
    choose_dropped(plan);
    make_schedule(plan);
    plan_memory(plan);
    bind_memory(plan);
    describe_steps(plan);
  } catch (...) {
    clear_program(plan);
    throw;
  }
}

}  // namespace crema
