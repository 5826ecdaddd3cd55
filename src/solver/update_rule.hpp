// From gradients to new parameters, in one pass over the arena. The rules themselves are functors
// in backend/update_math.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/update.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {

class SolverParameter;

/// Whether an update moves the parameter.
bool learns(const Parameter& parameter);
/// Makes what an update reads and writes current on the device: gradients and values of parameters
/// that learn, and the histories. The rest of the arena stays where it is, as it is.
UpdateArrays update_arrays(DeviceBackend& backend, const ParameterArena& arena,
                           std::vector<Tensor>& history);
/// The same for who only reads gradients.
UpdateArrays gradient_arrays(DeviceBackend& backend, const ParameterArena& arena);

/// The update rule of a solver, on the device of its context.
class UpdateRule {
 public:
  /// The rule that `type` (or the deprecated solver_type) names. Error for an unknown name, a rule
  /// that is not there, or an unknown regularization_type.
  UpdateRule(const SolverParameter& param, Context& context);
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// History arrays, each as large as the arena, that the rule keeps. In snapshots they follow one
  /// another, each with one blob a parameter.
  int history_count() const;
  /// Regularises the gradients and moves the parameters that learn (lr_mult not 0). `history` holds
  /// history_count() tensors of the arena's size and type. False when some step was not finite,
  /// which the loss need not show: a ReLU may hide it.
  bool update(ParameterArena& arena, std::vector<Tensor>& history, const UpdateStep& step);
  /// The L2 norm of all gradients of parameters that learn, summed in double.
  double gradient_norm(ParameterArena& arena);

 private:
  /// What learns, for functions of the CPU or, where the context has one, of the device.
  UpdateRuns runs_of(const ParameterArena& arena);

  Context& context_;
  UpdateSettings settings_;
  size_t kind_;  // index of the rule in AnyUpdateRule
  std::vector<UpdateRun> runs_;
  std::vector<UpdateRun> found_;             // those of now; kept for its memory
  std::vector<double> squares_;              // of each chunk; kept for its memory
  Tensor device_runs_{Shape{0}, DType::u8};  // bytes of runs_, fetched when they have changed
};

}  // namespace crema
