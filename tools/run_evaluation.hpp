// What a run's weights give on test data, and how long its layers take, for the run's report. All
// of it runs on nets of its own: a training that goes on stays as it is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "monitor/report/run_files.hpp"
#include "proto/evaluation.pb.h"

namespace crema::tools {

struct EvaluationBounds {
  int64_t records = 1000;  // but one batch at least
  /// Ends behind the batch, or the pass, with which this time is over.
  double seconds = 120;
  /// Leaves out what would take longer for one batch or pass alone, by the run's own iterations.
  bool keeps_to_seconds = false;
  bool rgb = false;  // raw records have red first
};

/// The weights to evaluate.
struct RunWeights {
  std::string file, name;  // path; relative to the run's folder where it lies in it
  int iteration = -1;      // -1: unknown
  bool is_best = false;
  int64_t bytes = 0;
  double time = 0;  // of the last change
};
/// The best weights of the run's folder, else the last ones. None where there are none. Files that
/// are not those that the run wrote, by its records, are passed over; each is a sentence in
/// `passed_over`.
std::optional<RunWeights> weights_of_run(const RunFiles& run,
                                         std::vector<std::string>* passed_over = nullptr);

/// Whether the run's evaluation is of these weights, and of as many records.
bool is_up_to_date(const RunFiles& run, const RunWeights& weights, const EvaluationBounds& bounds);

/// Paths in the run's nets are relative to the working directory. Error where the run has no test
/// net, or where a net cannot be made or run.
Evaluation evaluate_run(const RunFiles& run, const RunWeights& weights, Context& context,
                        const EvaluationBounds& bounds);

/// The layers of a net as planned, with a drawing. `param` is what the net was made from.
LayerTable layer_table(Net& net, const NetParameter& param);
/// The same of the run's training net with the times of passes, as far as the bounds have time.
LayerTable time_layers(const RunFiles& run, const std::optional<RunWeights>& weights,
                       Context& context, const EvaluationBounds& bounds);

/// Layers that write files in each pass are taken out.
void remove_writers(NetParameter& param);

}  // namespace crema::tools
