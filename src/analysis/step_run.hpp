// One iteration of a net, step by step, with calls around each step: for timers and profilers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "crema/net.hpp"

namespace crema {

enum class Pass : uint8_t { forward, backward };

/// Called before a step runs, and behind it.
struct StepHooks {
  std::function<void(size_t step, Pass pass)> before = {};
  std::function<void(size_t step, Pass pass)> behind = {};
};

/// Runs forward of all steps, and `with_backward` backward of those that have one, from the last to
/// the first. The caller sets the iteration of the run state.
void run_steps(Net& net, bool with_backward, const StepHooks& hooks);

}  // namespace crema
