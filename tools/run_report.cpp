#include "tools/run_report.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>

#include "core/utf8.hpp"
#include "model/text_file.hpp"
#include "model/text_format.hpp"
#include "monitor/report/report.hpp"
#include "monitor/run_folder.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

std::string file_in(const std::string& folder, const char* name) {
  return (fs::path(folder) / name).string();
}

void warn_of(const char* what, const std::exception& error) {
  say(Severity::warning, text(what, ": ", printable(error.what())));
}

/// Of the run; 0 where nothing tells.
double seconds_of_iteration(const RunFiles& run) {
  if (!run.seconds.empty()) return run.seconds.back().value;
  if (run.time.empty() || run.time.back().iteration == 0) return 0;
  return run.time.back().value / run.time.back().iteration;
}

}  // namespace

void report_net(const std::string& folder, Net& net) {
  try {
    NetParameter param;
    read_text_proto(file_in(folder, "net.prototxt"), param);
    write_text_unsynced(file_in(folder, "layers.json"), json_line(layer_table(net, param)) + "\n");
  } catch (const std::exception& error) {
    warn_of("The layers of the run are not described", error);
  }
}

void report_snapshot(const std::string& folder) {
  try {
    write_report(folder);
  } catch (const std::exception& error) {
    warn_of("The report of the run is not written", error);
  }
}

double seconds_of_end(double trained) { return std::clamp(trained / 20, 2.0, 30.0); }

void report_end(const std::string& folder, Context& context, double seconds) {
  try {
    EvaluationBounds bounds;
    bounds.seconds = seconds;
    bounds.keeps_to_seconds = true;
    evaluate_folder(folder, context, bounds);
  } catch (const std::exception& error) {
    warn_of("The weights of the run are not evaluated", error);
  }
  report_snapshot(folder);
}

void evaluate_folder(const std::string& folder, Context& context, const EvaluationBounds& bounds) {
  const WarningsOnly quiet;
  const RunFiles run = read_run(folder);
  std::vector<std::string> passed_over;
  const std::optional<RunWeights> weights = weights_of_run(run, &passed_over);
  const std::string why = joined(passed_over, "; ");
  if (!why.empty()) say(Severity::warning, printable(why));
  const double iteration = bounds.keeps_to_seconds ? seconds_of_iteration(run) : 0;
  if (weights && !is_up_to_date(run, *weights, bounds)) {
    Evaluation evaluation;
    try {
      if (iteration > bounds.seconds)
        throw Error("an iteration takes ", iteration, " s, and the end of a run has ",
                    bounds.seconds, " s; `crema report` takes its time");
      evaluation = evaluate_run(run, *weights, context, bounds);
    } catch (const std::exception& error) {
      evaluation.Clear();
      evaluation.set_weights(weights->name);
      evaluation.set_is_best(weights->is_best);
      evaluation.add_notes(text("The weights could not be evaluated: ", printable(error.what())));
      warn_of("The weights of the run are not evaluated", error);
    }
    if (!why.empty()) evaluation.add_notes(printable(why));
    write_text_unsynced(file_in(folder, "evaluation.json"), json_line(evaluation) + "\n");
  } else if (!weights && !why.empty()) {
    // What an earlier report measured of the run's own weights stays.
    Evaluation evaluation = run.evaluation.value_or(Evaluation());
    evaluation.clear_notes();
    evaluation.add_notes(
        text("The weights are not evaluated", run.evaluation ? " anew" : "", ": ", printable(why)));
    write_text_unsynced(file_in(folder, "evaluation.json"), json_line(evaluation) + "\n");
  }
  // The first pass is one that does not count.
  if ((run.layers && run.layers->has_passes()) || 3 * iteration > bounds.seconds) return;
  try {
    write_text_unsynced(file_in(folder, "layers.json"),
                        json_line(time_layers(run, weights, context, bounds)) + "\n");
  } catch (const std::exception& error) {
    warn_of("The layers of the run are not timed", error);
  }
}

}  // namespace crema::tools
