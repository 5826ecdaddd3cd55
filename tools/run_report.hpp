// The report of a run as `crema train` and `crema report` write it.
#pragma once

#include <string>

#include "crema/net.hpp"
#include "tools/run_evaluation.hpp"

namespace crema::tools {

/// For `crema train`, in the order of a run. None of them throws: what cannot be written is a
/// warning in the log, since training goes on without it.

/// At the start: writes layers.json with a drawing, without times. `param`: what the net was made
/// from.
void report_net(const std::string& folder, Net& net, const NetParameter& param);
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
