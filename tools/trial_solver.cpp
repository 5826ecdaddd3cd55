#include "tools/trial_solver.hpp"

#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/overrides.hpp"
#include "tools/flags.hpp"
#include "tools/required_data.hpp"
#include "tools/terminal.hpp"

DECLARE_string(solver);
DECLARE_string(snapshot);
DECLARE_string(set);
DECLARE_string(freeze);

namespace crema::tools {

void keep_training_alone(SolverParameter& param) {
  param.clear_test_net();
  param.clear_test_net_param();
  param.clear_test_iter();
  param.clear_test_state();
  param.clear_test_interval();
  param.clear_test_every_epochs();
  param.clear_test_compute_loss();
  param.clear_test_initialization();
  param.clear_test_at_end();
  param.clear_eval_type();
  param.clear_ap_version();
  param.clear_show_per_class_result();
  param.clear_ema_test();
  param.clear_early_stop();
  param.clear_max_hours();
  param.clear_snapshot();
  param.set_snapshot_after_train(false);
  param.clear_snapshot_keep();
  param.clear_snapshot_best();
  param.clear_snapshot_best_net();
  param.clear_snapshot_best_is();
  param.clear_snapshot_best_count();
  param.clear_on_nan();
  param.clear_rollback_factor();
  param.clear_rollback_most();
  param.clear_debug_info();
}

TrialSolver make_trial_solver() {
  exclusive_flags("snapshot", !FLAGS_snapshot.empty(), "weights", !FLAGS_weights.empty());
  SolverParameter param;
  SourceMap source;
  read_text_proto(required_flag("solver", FLAGS_solver), param, &source);
  SolverOptions options = solver_options();
  options.set = repeated_flag(FLAGS_set);
  options.freeze = repeated_flag(FLAGS_freeze);
  options.needs_loss = true;
  options.strict_weights = FLAGS_strict;
  Overrides(options.set).apply(param, source);
  // There are no test nets, and the solver's own fields have these values now.
  std::erase_if(options.set, [](const std::string& set) {
    return !set.starts_with("net.") && !set.starts_with("train_net.");
  });
  keep_training_alone(param);
  TrialSolver made;
  made.inputs.push_back(FLAGS_solver);
  if (!FLAGS_weights.empty()) options.weights = split_list(FLAGS_weights);
  if (!FLAGS_snapshot.empty()) options.weights.emplace();  // a snapshot has its own
  const bool wants_gpu = param.has_solver_mode() && param.solver_mode() == SolverParameter::GPU;
  made.context = std::make_unique<Context>(context_options(wants_gpu, param.device_id()));
  log_planning("net");
  made.solver = std::make_unique<Solver>(param, source, *made.context, options);
  warn_of_inputs(made.solver->net());
  if (!FLAGS_snapshot.empty()) made.solver->restore(FLAGS_snapshot);
  return made;
}

}  // namespace crema::tools
