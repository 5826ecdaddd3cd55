// Making a program, leaving it while other shapes run, and entering it again.
#include <algorithm>
#include <set>
#include <utility>

#include "core/device_run.hpp"
#include "net/out_of_memory.hpp"
#include "net/plan.hpp"
#include "net/recorded.hpp"

namespace crema {
namespace {

/// The number of programs. Detectors and fully convolutional nets return to a few shapes. Each
/// program holds memory of its kernels, but shares what is derived from weights.
constexpr size_t kMostPrograms = 9;

/// On a device, batches go there without a wait. So do those that other values are views of, where
/// the host writes nothing else of the buffer: each time it does, it gets other memory.
void stage_batches(const Plan& plan, const Program& program) {
  if (!plan.context->on_gpu()) return;
  std::set<const Tensor*> batches, by_host;
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    for (const ValueId top : node.makes) {
      const Tensor* const data = &program[top].blob->data;
      if (node.layer->data_source() != nullptr) batches.insert(data);
      if (node.layer->is_source() || falls_back_to_cpu(plan, node)) by_host.insert(data);
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.reserved || buffer.bytes == 0) continue;
    const auto is_batch = [&](const Buffer::Resident& resident) {
      return batches.count(resident.tensor) != 0 && resident.offset == 0 &&
             resident.tensor->bytes() == buffer.bytes;
    };
    const auto is_by_host = [&](const Buffer::Resident& resident) {
      return by_host.count(resident.tensor) != 0;
    };
    if (std::ranges::none_of(buffer.tensors, is_batch) ||
        std::ranges::count_if(buffer.tensors, is_by_host) > 1)
      continue;
    buffer.tensors.front().tensor->memory()->stage(plan.context->backend(),
                                                   plan.context->device_run().stop());
  }
}

/// Makes a program of other shapes the present one. The layers have its shapes.
void enter(Plan& plan, Program& program) {
  // Tops that the last pass has made larger than this program has memory for.
  for (ProgramValue& value : program.values) {
    if (!value.fused_away) value.blob->reshape(value.planned);
  }
  for (Twin& twin : program.twins) twin.blob.reshape(twin.planned);
  for (const ValueId id : plan.graph->value_ids()) program[id].blob->set_layout(program[id].layout);
  bind_memory(plan, program);
  stage_batches(plan, program);
  for (const NodeId id : program.order) {
    ProgramNode& node = program[id];
    // Shapes are bounds again: a kernel that follows values is made anew.
    node.made_for.clear();
    if (!node.follows_values) node.kernel->enter(node.bottom_blobs, node.top_blobs);
  }
  plan.program = &program;
}

/// Bytes that the kernels hold, and the scratch memory, which they share. Takes that of a device.
size_t engine_bytes(const Plan& plan, const Program& program) {
  size_t held = 0;
  ScratchPlan scratch(plan.context->threads());
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    held += node.kernel->bytes();
    node.kernel->plan_scratch(scratch);
  }
  for (const auto& [id, noises] : plan.noise) {
    for (const ParameterNoise& noise : noises) held += noise.kernel->bytes();
  }
  if (plan.context->on_gpu())
    taking_memory(plan,
                  [&] { plan.context->backend().reserve_scratch(scratch.bytes(kDeviceScratch)); });
  return held + scratch.bytes();
}

}  // namespace

Program begin_program(const Plan& plan, size_t reach) {
  Program program;
  program.reach = reach;
  for (const ValueId id : plan.graph->outer) program.shapes.push_back(plan.blob(id).shape());
  for (const NodeId id : plan.graph->node_ids()) {
    const Node& node = plan.node(id);
    program.nodes.push_back({.layer = &plan.layer(id),
                             .node = &node,
                             .propagate = node.propagate,
                             .needs_backward = node.needs_backward,
                             .follows_values = node.follows_values});
  }
  for (const ValueId id : plan.graph->value_ids()) {
    ProgramValue value{plan.value(id)};
    value.blob = &plan.blob(id);
    if (reach < plan.graph->nodes.size()) {
      // What layers that are left out read is the caller's, as outputs are.
      value.fused_away = value.producer.index() >= reach;
      const auto is_left_out = [&](const Use& use) { return use.node.index() >= reach; };
      value.is_output = value.is_output || std::ranges::any_of(plan.value(id).uses, is_left_out);
    }
    program.values.push_back(std::move(value));
  }
  return program;
}

void make_kernels(Plan& plan, Program& program) {
  int computing = 0, on_cpu = 0;
  for (const NodeId id : program.order) {
    ProgramNode& node = program[id];
    node.bottom_blobs = program.blobs(node.reads);
    node.top_blobs = program.blobs(node.makes);
    if (node.is_conversion()) {
      node.option = options_of(*node.layer, node.bottom_blobs, node.top_blobs).front();
    }
    node.stood_in = !node.is_conversion() && plan.stand_ins.contains(id);
    program.outgrown = program.outgrown || node.stood_in;
    const std::vector<Blob*> bottoms = node.stood_in ? plan.planned_bottoms(id) : node.bottom_blobs;
    if (node.stood_in) {
      for (size_t i = 0; i < bottoms.size(); ++i) bottoms[i]->set_layout(node.option.bottoms[i]);
    }
    in_node(node,
            [&] { node.kernel = make_kernel(*node.layer, node.option, bottoms, node.top_blobs); });
    for (const Blob* blob : bottoms) node.made_for.push_back(blob->shape());
    // Data sources always run on the host.
    if (node.is_conversion() || node.reads.empty()) continue;
    ++computing;
    if (!falls_back_to_cpu(plan, node)) continue;
    ++on_cpu;
    plan.note(text(named(*node.node), " runs on the CPU"), Severity::warning);
  }
  if (on_cpu != 0) {
    plan.note(text(on_cpu, " of ", computing, " layers run on the CPU"), Severity::warning);
  }
}

void leave_program(Plan& plan) {
  if (plan.program != nullptr) {
    // Pieces would keep the arena of this program alive beside that of the next one.
    for (const Buffer& buffer : plan.program->buffers) {
      if (buffer.reserved) continue;
      for (const Buffer::Resident& resident : buffer.tensors) resident.tensor->unbind();
    }
  }
  plan.program = nullptr;
  plan.done = 0;
  plan.has_run.clear();
}

void drop_program(Plan& plan) {
  const bool has_one = plan.program != nullptr;
  leave_program(plan);
  if (has_one) plan.programs.pop_front();
}

std::vector<Blob*> Program::blobs(const std::vector<ValueId>& ids) const {
  std::vector<Blob*> found;
  for (const ValueId id : ids) found.push_back(values[id].blob);
  return found;
}

std::optional<Use> Program::only_reader(ValueId value) const {
  std::optional<Use> only;
  for (const NodeId id : order) {
    const std::vector<ValueId>& reads = nodes[id].reads;
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i] != value) continue;
      if (only) return std::nullopt;
      only = Use{id, i};
    }
  }
  return only;
}

bool Plan::current(size_t needed) const {
  // A bound holds smaller shapes too.
  const auto fits = [&](ValueId id, const Shape& planned) {
    const Shape& shape = blob(id).shape();
    return shape == planned || (shape.count() <= planned.count() && graph->has_late_shape(id));
  };
  return program && program->reach >= std::min(needed, graph->nodes.size()) &&
         std::ranges::equal(graph->outer, program->shapes, fits);
}

void take_program(Plan& plan) { take_program(plan, plan.graph->nodes.size()); }

void take_program(Plan& plan, size_t needed) {
  if (!plan.options.keep_all) needed = plan.graph->nodes.size();
  needed = std::min(needed, plan.graph->nodes.size());
  std::vector<Shape> shapes;
  for (const ValueId id : plan.graph->outer) shapes.push_back(plan.blob(id).shape());
  leave_program(plan);
  // If this throws, there is no program, and the next pass calls take_program again.
  const size_t reach = infer_shapes(plan, needed);
  const auto known = std::ranges::find_if(plan.programs, [&](const Program& program) {
    return program.shapes == shapes && program.reach == reach;
  });
  if (known != plan.programs.end()) {
    plan.programs.splice(plan.programs.begin(), plan.programs, known);
    return enter(plan, plan.programs.front());
  }
  // Before another one takes memory.
  if (plan.programs.size() == kMostPrograms) plan.programs.pop_back();
  std::list<Program> made;
  Program& program = made.emplace_front(begin_program(plan, reach));
  choose_layouts(plan, program);
  make_kernels(plan, program);
  chain_layers(plan, program);
  hand_over_relus(plan, program);
  offer_ranges(plan, program);
  plan.context->save_tuning();
  program.memory.parameters =
      plan.arena.data().bytes() + plan.arena.diff().bytes() + noisy_bytes(plan);
  program.memory.engines = engine_bytes(plan, program);
  choose_dropped(plan, program);
  make_schedule(plan, program);
  plan_memory(plan, program);
  bind_memory(plan, program);
  stage_batches(plan, program);
  describe_steps(plan, program);
  note_unrecorded(plan, program);
  plan.programs.splice(plan.programs.begin(), made);
  plan.program = &program;
}

}  // namespace crema
