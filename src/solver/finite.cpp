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
    const NetStep& step = net.steps()[i];
    // A source would fetch another batch; the one that did it is still in its tops.
    const bool source =
        step.layer >= 0 && net.layers()[static_cast<size_t>(step.layer)]->is_source();
    if (!source) net.forward_step(i);
    for (const Blob* top : net.step_tops(i)) {
      if (!all_finite(top->data)) {
        throw Error(what, "the first blob with a value that is not finite is '", top->name,
                    "' of layer '", step.name, "'", kWayOut);
      }
    }
  }
  throw Error(what, "no blob has such a value by itself, their weighted sum does", kWayOut);
}

void throw_not_finite_gradient(Net& net, int iteration) {
  for (const auto& segment : net.params().segments()) {
    if (segment.parameter->learnable && !all_finite(segment.parameter->diff)) {
      throw Error("the gradient of parameter ", segment.index, " of layer '", segment.layer,
                  "' is not finite at iteration ", iteration, kWayOut);
    }
  }
  throw Error("the update is not finite at iteration ", iteration,
              ", though each gradient is: the steps are too large", kWayOut);
}

}  // namespace crema
