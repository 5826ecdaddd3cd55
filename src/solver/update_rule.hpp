// Update rules: from gradients to new parameters, in one pass over the arena.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/update_math.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {

class SolverParameter;

/// What one update needs to know beside the gradients.
struct UpdateStep {
  int iteration = 0;
  double rate = 0;            // of the solver; times lr_mult of each parameter
  double gradient_scale = 1;  // 1 / iter_size, times what clipping asks for
};

class UpdateRule {
 public:
  explicit UpdateRule(Context& context) : context_(context) {}
  virtual ~UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// History arrays, each as large as the arena, that the rule keeps. In snapshots they follow one
  /// another, each with one blob a parameter.
  virtual int history_count() const = 0;
  /// Regularises the gradients and moves the parameters that learn (lr_mult not 0), on the
  /// context's device. `history` holds history_count() tensors of the arena's size and type. False
  /// when some step was not finite, which the loss need not show: a ReLU may hide it.
  virtual bool update(ParameterArena& arena, std::vector<Tensor>& history,
                      const UpdateStep& step) = 0;
  /// The L2 norm of all gradients of parameters that learn, summed in double, likewise there.
  double gradient_norm(ParameterArena& arena);

 protected:
  Context& context() const { return context_; }
  /// What learns, for functions of the CPU or, where the context has one, of the device.
  UpdateRuns runs_of(const ParameterArena& arena);

 private:
  Context& context_;
  std::vector<UpdateRun> runs_;
  std::vector<UpdateRun> found_;             // those of now; kept for its memory
  Tensor device_runs_{Shape{0}, DType::u8};  // their bytes, fetched when they have changed
};

/// The rule that `type` (or the deprecated solver_type) names. Error for an unknown name, a rule
/// that is not there, or an unknown regularization_type.
std::unique_ptr<UpdateRule> make_update_rule(const SolverParameter& param, Context& context);

}  // namespace crema
