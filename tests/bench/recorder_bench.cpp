// What the folder of a run costs: a training with a Recorder, and the part of its time that the
// Recorder takes, of iterations, tests and snapshots and at its start.
//   build/release/tests/recorder_bench [--solver=FILE] [--threads=N] [--iterations=N]
// The default is models/lenet/quickstart_solver.prototxt, in the root of the repository.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "monitor/recorder.hpp"
#include "monitor/report/report.hpp"
#include "monitor/run_folder.hpp"
#include "proto/solver.pb.h"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Calls of a hook, timed.
template <class... Args>
std::function<void(Args...)> timed(std::function<void(Args...)> hook, double& seconds) {
  return [hook = std::move(hook), &seconds](Args... args) {
    const auto start = Clock::now();
    hook(args...);
    seconds += seconds_since(start);
  };
}

int run(const std::string& file, int threads, int iterations) {
  const TempFolder folder;
  SolverParameter param;
  SourceMap source;
  read_text_proto(file, param, &source);
  param.set_snapshot_prefix(folder.path("s"));
  if (iterations > 0) param.set_max_iter(iterations);
  Context context({.threads = threads, .tuning_file = user_tuning_file()});
  SolverOptions options;
  options.keep_scores = true;
  Solver solver(param, source, context, options);
  double recording = 0;
  const auto begin = Clock::now();
  const RunInfo info = describe_run(solver, param);
  Recorder recorder(solver, param, info, make_numbered_run(folder.path("runs"), info.net()));
  // As `crema train` does behind snapshots.
  recorder.on_folder_changed = [&recorder] { write_report(recorder.folder()); };
  recorder.attach();
  const double starting = seconds_since(begin);
  solver.on_iteration = timed(solver.on_iteration, recording);
  solver.on_test = timed(solver.on_test, recording);
  solver.on_snapshot = timed(solver.on_snapshot, recording);
  const auto start = Clock::now();
  solver.solve();
  const double total = seconds_since(start);
  const auto ending = Clock::now();
  recorder.end(RunRecord::FINISHED);
  std::printf(
      "%s: %.3f s, of them %.4f s for the recorder (%.3f%%); %.4f s at the start, %.4f s at the "
      "end; %zu records, %zu histograms\n",
      file.c_str(), total, recording, 100 * recording / total, starting, seconds_since(ending),
      read_run_records(recorder.folder()).size(), read_run_histograms(recorder.folder()).size());
  return 0;
}

}  // namespace
}  // namespace crema

int main(int argc, char** argv) {
  std::string solver = "models/lenet/quickstart_solver.prototxt";
  int threads = 0, iterations = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(word.find('=') + 1);
    if (word.starts_with("--solver=")) solver = value;
    if (word.starts_with("--threads=")) threads = std::atoi(value.c_str());
    if (word.starts_with("--iterations=")) iterations = std::atoi(value.c_str());
  }
  return crema::run(solver, threads, iterations);
}
