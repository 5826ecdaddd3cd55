#include "solver/finite.hpp"

#include <cmath>

#include "crema/parameter_arena.hpp"

namespace crema {
namespace {

bool all_finite(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (!std::isfinite(tensor.at(i))) return false;
  }
  return true;
}

constexpr const char* kWayOut =
    "; lower base_lr, set clip_gradients, or check the data; the last snapshot is untouched";

bool is_source(const Net& net, const NetStep& step) {
  return step.layer >= 0 && net.layers()[static_cast<size_t>(step.layer)]->is_source();
}

/// Throws where a top of step `i` has a value that is not finite.
void check_tops(Net& net, size_t i, const std::string& what) {
  for (const Blob* top : net.step_tops(i)) {
    if (!all_finite(top->data)) {
      throw Error(what, "the first blob with a value that is not finite is '", top->name,
                  "' of layer '", net.steps()[i].name, "'", kWayOut);
    }
  }
}

}  // namespace

void throw_not_finite(Net& net, int iteration, double loss) {
  const std::string what = concat("the loss is ", loss, " at iteration ", iteration, ": ");
  for (const auto& segment : net.params().segments()) {
    if (!all_finite(segment.parameter->data)) {
      throw Error(what, "parameter ", segment.index, " of layer '", segment.layer,
                  "' has values that are not finite", kWayOut);
    }
  }
  for (size_t i = 0; i < net.steps().size(); ++i) {
    // A source would fetch another batch; the one that did it is still in its tops.
    if (!is_source(net, net.steps()[i])) net.forward_step(i);
    check_tops(net, i, what);
  }
  throw Error(what, "no blob has such a value by itself, their weighted sum does", kWayOut);
}

void throw_not_finite_gradient(Net& net, int iteration) {
  const std::string what = concat("the update is not finite at iteration ", iteration, ": ");
  // Some kernels' ReLU makes 0 of a NaN in the batch, so that it never reaches the loss. Parameters
  // and what they gave are no longer those of this iteration.
  for (size_t i = 0; i < net.steps().size(); ++i) {
    if (is_source(net, net.steps()[i])) check_tops(net, i, what);
  }
  for (const auto& segment : net.params().segments()) {
    if (segment.parameter->needs_gradient && !all_finite(segment.parameter->diff)) {
      throw Error(what, "the gradient of parameter ", segment.index, " of layer '", segment.layer,
                  "' is not", kWayOut);
    }
  }
  throw Error(what, "each gradient is, but the steps are too large", kWayOut);
}

}  // namespace crema
