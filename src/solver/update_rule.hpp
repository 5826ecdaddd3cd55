// Computes new parameters from gradients, in one pass over the arena. The rules are functors in
// backend/update_math.hpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/update.hpp"
#include "crema/parameter_arena.hpp"
#include "model/source_map.hpp"
#include "solver/update_copies.hpp"

namespace crema {

class SolverParameter;

/// Whether an update changes the parameter.
bool learns(const Parameter& parameter);
/// One parameter's part of an array of the arena's size, in the same memory.
Tensor part_of(const Tensor& array, const ParameterArena::Segment& segment);
/// Copies what an update needs to the device, unless it is current there: gradients and values of
/// parameters that learn, and the histories. The rest of the arena is not copied. `average` may be
/// null.
UpdateArrays update_arrays(DeviceBackend& backend, const ParameterArena& arena,
                           std::vector<Tensor>& history, Tensor* average = nullptr);

/// The update rule of a solver, on the device of its context.
class UpdateRule {
 public:
  /// The rule of the solver's `type` (or of the deprecated solver_type). Error for an unknown type,
  /// regularization_type or larc_policy, and for settings that the type cannot work with.
  UpdateRule(const SolverParameter& param, Context& context, const SourceMap& source = {});
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  /// The types that keep that many histories, with "amsgrad: true" where it makes that many.
  static std::vector<std::string> names(int histories);
  /// As in the solver's `type`.
  std::string name() const;
  /// As in the solver's settings, or the rule's own.
  double momentum() const { return settings_.momentum; }
  /// Lines for the log: one for each of the solver's settings that has no effect with this type,
  /// and one if the type averages with momentum and the solver sets none.
  std::vector<std::string> notes(const SolverParameter& param) const;
  /// The number of history arrays, each of the size of the arena. A snapshot has them in order,
  /// each as one blob for each parameter.
  int history_count() const;
  /// Adds weight decay to the gradients and updates the parameters that learn (lr_mult not 0).
  /// `history` has history_count() tensors of the arena's size and type. `average`, if not null, is
  /// one more, which follows the parameters by step.average_decay. Returns false if a gradient or a
  /// step was not finite. The loss may still be finite then, because a ReLU can hide NaN. Waits
  /// for the result, and on a device nothing changes where a gradient was not finite.
  bool update(ParameterArena& arena, std::vector<Tensor>& history, const UpdateStep& step,
              Tensor* average = nullptr);
  /// The same of some segments alone, by their numbers, on the CPU. All parts together give what
  /// update() gives.
  bool update_part(const std::vector<size_t>& segments, ParameterArena& arena,
                   std::vector<Tensor>& history, const UpdateStep& step, Tensor* average = nullptr);
  /// The same of all on the device of the context, queued: the report of the device's run
  /// (DeviceRun) says what was not finite, and after a failure nothing changes. If `most_norm` is
  /// not 0, gradients are scaled down to this L2 norm. `loss_scale`, in memory of the device, has
  /// the factor of the gradients, which is not in `most_norm` nor in the step; null: they have
  /// none.
  void queue_update(ParameterArena& arena, std::vector<Tensor>& history, const UpdateStep& step,
                    double most_norm, LossScaleState* loss_scale, Tensor* average = nullptr);
  /// The same in two steps, the second of which a device may record: what the host computes for it
  /// is on its way to the device behind the first.
  void prepare_update(const ParameterArena& arena, const UpdateStep& step, double most_norm);
  void queue_prepared(ParameterArena& arena, std::vector<Tensor>& history,
                      LossScaleState* loss_scale, Tensor* average = nullptr);
  /// The L2 norm of all gradients of parameters that learn, summed in double. On the CPU.
  double gradient_norm(ParameterArena& arena);

 private:
  /// Sets rates_ from the learning rate and, with local rates, the norms of each parameter.
  template <class Rule>
  void find_rates(const UpdateRuns& runs, const Rule& rule, const UpdateSettings& settings,
                  const UpdateStep& step, ParameterArena& arena, std::vector<Tensor>& history);
  /// The rule for an iteration, and its settings then.
  AnyUpdateRule rule_at(const UpdateStep& step, UpdateSettings& settings) const;
  bool update_runs(const UpdateRuns& runs, ParameterArena& arena, std::vector<Tensor>& history,
                   const UpdateStep& step, Tensor* average);
  /// The runs of parameters that learn, for the CPU or for the context's device.
  UpdateRuns runs_of(const ParameterArena& arena);
  /// Those that were found last, on the host.
  UpdateRuns known_runs() const;

  Context& context_;
  size_t kind_;  // index of the rule in AnyUpdateRule
  UpdateSettings settings_;
  std::vector<UpdateRun> runs_;
  std::vector<UpdateRun> found_;            // of the present update; kept for its memory
  std::vector<double> squares_;             // of each chunk; kept for its memory
  std::vector<Squares> of_chunk_, of_run_;  // likewise
  std::vector<double> rates_;               // of each run
  AnyUpdateRule prepared_ = Sgd(UpdateSettings(), 0);
  UpdateNumbers numbers_;
  Tensor device_runs_{Shape{0}, DType::u8};  // bytes of runs_, copied when they have changed
  Tensor device_block_{Shape{kUpdateBlockBytes}, DType::u8};  // an UpdateBlock
  UpdateCopies copies_;                                       // on the device
};

}  // namespace crema
