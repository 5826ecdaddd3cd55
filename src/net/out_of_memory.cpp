#include "net/out_of_memory.hpp"

#include <string>
#include <vector>

#include "net/plan.hpp"

namespace crema {
namespace {

constexpr int kMiBShift = 20;
/// A limit of scratch memory below which there is little to win.
constexpr size_t kSmallWorkspace = size_t{256} << kMiBShift;

/// Rounded up.
size_t mebibytes(size_t bytes) { return (bytes + (size_t{1} << kMiBShift) - 1) >> kMiBShift; }

std::vector<std::string> ways_to_take_less(const Plan& plan) {
  std::vector<std::string> ways = {"a smaller batch"};
  const size_t budget = plan.options.memory_budget;
  if (plan.trains) {
    ways.push_back(budget == 0 ? "a memory budget (--memory-budget), by which tops are computed "
                                 "again in backward"
                               : text("a memory budget below ", mebibytes(budget), " MiB"));
  }
  if (plan.activations == DType::f32) ways.emplace_back("precision: BF16");
  if (plan.arithmetic.workspace_limit > kSmallWorkspace) {
    ways.push_back(
        text("a workspace_limit below ", mebibytes(plan.arithmetic.workspace_limit), " MiB"));
  }
  return ways;
}

}  // namespace

void throw_out_of_memory(const Plan& plan, const MemoryError& error) {
  if (!plan.context->on_gpu()) throw error;
  std::string planned;
  if (plan.program != nullptr) {
    const MemoryPlan& memory = plan.program->memory;
    const size_t copies =
        plan.arena.data().bytes() * static_cast<size_t>(plan.options.parameter_copies);
    planned = text("the net plans ",
                   mebibytes(memory.activations + memory.parameters + memory.engines + copies),
                   " MiB in all: ", mebibytes(memory.activations), " of activations, ",
                   mebibytes(memory.parameters), " of parameters and gradients, ",
                   mebibytes(copies), " of the solver's histories, ", mebibytes(memory.engines),
                   " of kernels and their scratch memory; ");
  }
  throw MemoryError(error.message(), " (", planned, mebibytes(plan.context->backend().free_bytes()),
                    " MiB of the device are free now). Take less by ",
                    joined(ways_to_take_less(plan), ", or "));
}

}  // namespace crema
