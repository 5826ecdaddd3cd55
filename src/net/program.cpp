// Making a program, putting it aside while other shapes run, and taking it up again.
#include <algorithm>
#include <utility>

#include "net/plan.hpp"

namespace crema {
namespace {

/// The number of programs kept for other shapes. Detectors and fully convolutional nets return to a
/// few shapes. Each program holds memory of its engines, but shares what is derived from weights.
constexpr size_t kKeptPrograms = 8;

/// Moves the present program, and its state in nodes and values, to Plan::kept.
void put_aside(Plan& plan) {
  Program& program = *plan.program;
  program.nodes.clear();
  for (const NodeId id : program.order) {
    Node& node = plan.node(id);
    program.nodes.push_back({node.layer->suspend(), std::move(node.option), std::move(node.reads),
                             std::move(node.makes), std::move(node.bottom_blobs),
                             std::move(node.top_blobs), std::move(node.edges)});
  }
  program.values.clear();
  // Pieces would keep the arena of this program alive beside that of the next one.
  for (const Buffer& buffer : program.buffers) {
    if (buffer.reserved) continue;
    for (const Buffer::Resident& resident : buffer.tensors) resident.tensor->unbind();
  }
  for (const ValueId id : plan.graph_values()) {
    const Value& value = plan.value(id);
    program.values.push_back({{value.blob.data.dtype(), value.blob.data.format()},
                              value.maker,
                              value.readers,
                              value.has_gradient,
                              value.reserved,
                              value.seed});
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
void take_up(Plan& plan, Program program) {
  for (auto& node : program.conversions) plan.nodes.push_back(std::move(node));
  for (auto& value : program.converted) plan.values.push_back(std::move(value));
  program.conversions.clear();
  program.converted.clear();
  for (const ValueId id : plan.graph_values()) {
    Value& value = plan.value(id);
    const Program::KeptValue& then = program.values[id.index()];
    for (Tensor* tensor : {&value.blob.data, &value.blob.diff}) {
      if (tensor->dtype() != then.layout.dtype || tensor->format() != then.layout.format) {
        tensor->set_layout(then.layout.dtype, then.layout.format);
      }
    }
    value.maker = then.maker;
    value.readers = then.readers;
    value.has_gradient = then.has_gradient;
    value.reserved = then.reserved;
    value.seed = then.seed;
    value.planned = value.blob.shape();
  }
  plan.program = std::move(program);
  bind_memory(plan);
  for (size_t k = 0; k < plan.program->order.size(); ++k) {
    Node& node = plan.node(plan.program->order[k]);
    Program::Kept& then = plan.program->nodes[k];
    node.option = std::move(then.option);
    node.reads = std::move(then.reads);
    node.makes = std::move(then.makes);
    node.bottom_blobs = std::move(then.bottom_blobs);
    node.top_blobs = std::move(then.top_blobs);
    node.edges = std::move(then.edges);
    // Shapes are bounds again: what follows values is prepared anew.
    node.prepared_for.clear();
    node.layer->resume(std::move(then.prepared), node.bottom_blobs, node.top_blobs);
  }
  plan.program->nodes.clear();
}

void prepare_layers(Plan& plan) {
  int computing = 0, on_cpu = 0;
  for (const NodeId id : plan.program->order) {
    Node& node = plan.node(id);
    if (node.is_conversion) {
      for (const ValueId value : node.reads) node.bottom_blobs.push_back(&plan.value(value).blob);
      for (const ValueId value : node.makes) node.top_blobs.push_back(&plan.value(value).blob);
      node.option = node.layer->options({}, node.bottom_blobs, node.top_blobs).front();
      node.layer->prepare(node.option, node.bottom_blobs, node.top_blobs);
      continue;
    }
    std::vector<Blob*> bottoms, tops;
    for (const ValueId value : node.reads) bottoms.push_back(&plan.value(value).blob);
    for (const ValueId value : node.makes) tops.push_back(&plan.value(value).blob);
    in_node(node, [&] { node.layer->prepare(node.option, bottoms, tops); });
    node.prepared_for.clear();
    for (const Blob* blob : bottoms) node.prepared_for.push_back(blob->shape());
    if (node.bottoms.empty()) continue;  // data sources always run on the host
    ++computing;
    if (!node.layer->falls_back_to_cpu()) continue;
    ++on_cpu;
    plan.note(concat("layer '", node.layer->name(), "' (", node.layer->type(), ") runs on the CPU"),
              Severity::warning);
  }
  if (on_cpu != 0) {
    plan.note(concat(on_cpu, " of ", computing, " layers run on the CPU"), Severity::warning);
  }
}

/// Bytes that the layers and their engines hold, and the scratch memory, which they share.
size_t engine_bytes(const Plan& plan) {
  size_t held = 0;
  ScratchPlan scratch(plan.context->threads());
  for (const NodeId id : plan.program->order) {
    held += plan.node(id).layer->kept_bytes();
    if (const Engine* engine = plan.node(id).layer->engine()) {
      held += engine->extra_bytes();
      engine->plan_scratch(scratch);
    }
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
    node.edges.clear();
    node.bottom_blobs.clear();
    node.top_blobs.clear();
    for (const ValueId value : node.bottoms) node.bottom_blobs.push_back(&plan.value(value).blob);
    for (const ValueId value : node.tops) node.top_blobs.push_back(&plan.value(value).blob);
  }
}

std::vector<Shape> Plan::outer_shapes() const {
  std::vector<Shape> shapes;
  for (const auto* ids : {&inputs, &batches}) {
    for (const ValueId id : *ids) shapes.push_back(value(id).blob.shape());
  }
  return shapes;
}

bool Plan::current() const {
  if (!program) return false;
  size_t i = 0;
  for (const auto* ids : {&inputs, &batches}) {
    for (const ValueId id : *ids) {
      if (value(id).blob.shape() != program->shapes[i++]) return false;
    }
  }
  return true;
}

void take_program(Plan& plan) {
  std::vector<Shape> shapes = plan.outer_shapes();
  if (plan.program) put_aside(plan);
  clear_program(plan);
  // If this throws, there is no program, and the next pass calls take_program again.
  infer_shapes(plan);
  const auto known = std::find_if(plan.kept.begin(), plan.kept.end(),
                                  [&](const Program& program) { return program.shapes == shapes; });
  std::list<Program> taken;
  if (known != plan.kept.end()) taken.splice(taken.begin(), plan.kept, known);
  if (plan.kept.size() > kKeptPrograms) plan.kept.pop_back();
  try {
    if (!taken.empty()) return take_up(plan, std::move(taken.front()));
    plan.program.emplace();
    plan.program->shapes = std::move(shapes);
    choose_layouts(plan);
    prepare_layers(plan);
    plan.context->save_tuning();
    make_schedule(plan);
    plan_memory(plan);
    bind_memory(plan);
    describe_steps(plan);
    plan.program->memory.parameters = plan.arena.data().bytes() + plan.arena.diff().bytes();
    plan.program->memory.engines = engine_bytes(plan);
  } catch (...) {
    clear_program(plan);
    throw;
  }
}

}  // namespace crema
