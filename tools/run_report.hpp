// The report of a run as `crema train` and `crema report` write it.
#pragma once

#include <string>

#include "crema/net.hpp"
#include "tools/run_evaluation.hpp"

namespace crema::tools {

/// For `crema train`, in the order of a run:
///
///   report_net(recorder.folder(), solver.net());
///   recorder.on_folder_changed = [&] {
///     has_ended ? report_end(recorder.folder(), context, seconds_of_end(trained_seconds))
///               : report_snapshot(recorder.folder());
///   };
/// None of them throws: what cannot be written is a
/// warning in the log, since training goes on without it.

/// At the start, behind the recorder, which wrote net.prototxt: writes layers.json with a drawing,
/// without times. `net`: the training net.
void report_net(const std::string& folder, Net& net);
/// At a snapshot: report.html with what the files have, without a new evaluation.
void report_snapshot(const std::string& folder);
/// At the end, behind the last record: evaluates the weights and times the layers in about
/// `seconds`, and writes report.html.
void report_end(const std::string& folder, Context& context, double seconds);
/// The seconds that an end takes of a run that trained so long: a twentieth, 2 to 30.
double seconds_of_end(double trained);

/// Evaluates the run's weights and times its layers unless both are up to date, and writes
/// evaluation.json and layers.json. What fails becomes a note in the evaluation, or a warning where
/// there is none.
void evaluate_folder(const std::string& folder, Context& context, const EvaluationBounds& bounds);

}  // namespace crema::tools
