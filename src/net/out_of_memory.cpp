#include "net/out_of_memory.hpp"

#include <string>
#include <vector>

#include "net/plan.hpp"

namespace crema {
namespace {

constexpr int kBitsOfMiB = 20;
/// A limit of scratch memory below which there is little to win.
constexpr size_t kSmallLimit = size_t{256} << kBitsOfMiB;

/// Rounded up.
size_t mib(size_t bytes) { return (bytes + (size_t{1} << kBitsOfMiB) - 1) >> kBitsOfMiB; }

std::vector<std::string> advice(const Plan& plan) {
  std::vector<std::string> ways = {"a smaller batch"};
  const size_t budget = plan.options.memory_budget;
  if (plan.trains) {
    ways.push_back(budget == 0 ? "a memory budget (--memory-budget), by which tops are computed "
                                 "again in backward"
                               : text("a memory budget below ", mib(budget), " MiB"));
  }
  if (plan.activations == DType::f32) ways.emplace_back("precision: BF16");
  if (plan.arithmetic.workspace_limit > kSmallLimit) {
    ways.push_back(text("a workspace_limit below ", mib(plan.arithmetic.workspace_limit), " MiB"));
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
    planned = text(
        "the net plans ", mib(memory.activations + memory.parameters + memory.engines + copies),
        " MiB in all: ", mib(memory.activations), " of activations, ", mib(memory.parameters),
        " of parameters and gradients, ", mib(copies), " of the solver's histories, ",
        mib(memory.engines), " of kernels and their scratch memory; ");
  }
  throw MemoryError(error.message(), " (", planned, mib(plan.context->backend().free_bytes()),
                    " MiB of the device are free now). Take less by ",
                    joined(advice(plan), ", or "));
}

}  // namespace crema
