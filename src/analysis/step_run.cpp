#include "analysis/step_run.hpp"

namespace crema {

void run_steps(Net& net, bool with_backward, const StepHooks& hooks) {
  const auto around = [&](size_t step, Pass pass, const auto& body) {
    if (hooks.before) hooks.before(step, pass);
    body();
    if (hooks.behind) hooks.behind(step, pass);
  };
  const size_t steps = net.steps().size();
  for (size_t s = 0; s < steps; ++s) around(s, Pass::forward, [&] { net.forward_step(s); });
  if (!with_backward) return;
  net.clear_gradients();
  for (size_t s = steps; s-- > 0;) {
    if (net.steps()[s].backward) around(s, Pass::backward, [&] { net.backward_step(s); });
  }
}

}  // namespace crema
