// Hands gradients of ReLUs over to the kernels that read what the ReLUs give
// (core/relu_handover.hpp).
#include "core/relu_handover.hpp"

#include "net/plan.hpp"

namespace crema {
namespace {

/// Kernels of nodes whose shapes follow from values are made anew between passes.
bool stays(const ProgramNode& node) {
  return node.needs_backward && node.kernel != nullptr && !node.follows_values &&
         node.layer->top_shapes() == TopShapes::fixed;
}

}  // namespace

void hand_over_relus(const Plan& plan, Program& program) {
  if (!plan.trains || !plan.options.fuse || plan.debug_info) return;
  for (const NodeId id : program.order) {
    ProgramNode& maker = program[id];
    if (!stays(maker) || maker.makes.size() != 1) continue;
    EndsWithReLU* const ends = maker.kernel->ends_with_relu();
    if (ends == nullptr) continue;
    const std::optional<float> slope = ends->relu_of_top();
    const ProgramValue& top = program[maker.makes[0]];
    // Nobody else may look at the diff.
    if (!slope || plan.shows(top) || top.loss_weight != 0) continue;
    const std::optional<Use> use = program.only_reader(maker.makes[0]);
    if (!use) continue;
    ProgramNode& reader = program[use->node];
    if (!stays(reader) || !reader.propagate[use->bottom]) continue;
    UndoesReLU* const undoes = reader.kernel->undoes_relu();
    if (undoes == nullptr) continue;
    if (in_node(reader, [&] { return undoes->undo_relu(use->bottom, *slope); }))
      ends->leave_relu_to_reader();
  }
}

}  // namespace crema
