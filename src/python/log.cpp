#include "python/log.hpp"

#include <glog/logging.h>
#include <nanobind/stl/string.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "proto/solver.pb.h"

namespace crema::python {
namespace {

/// glog can be initialised once in a process, and the program does that itself. Nets log from
/// several threads.
void need_log() {
  static auto* const mutex = new std::mutex();  // threads may outlive what is static
  const std::lock_guard lock(*mutex);
  if (google::IsGoogleLoggingInitialized()) return;
  FLAGS_logtostderr = true;
  // Parsers of published logs expect the month first.
  FLAGS_log_year_in_prefix = false;
  google::InitGoogleLogging("crema");
}

/// "    Train net output #0: loss = 0.5 (* 1 = 0.5 loss)"
void log_output(const char* which, int number, const std::string& name, double value,
                float weight) {
  std::string line = text("    ", which, " net output #", number, ": ", name, " = ", value);
  if (weight != 0) line += text(" (* ", weight, " = ", weight * value, " loss)");
  log(Severity::info, line);
}

void set_log_level(int level) { FLAGS_minloglevel = level; }

int log_level() { return FLAGS_minloglevel; }

void write_log(const std::string& message) { log(Severity::info, message); }

}  // namespace

void log(Severity severity, const std::string& message) {
  if (severity == Severity::debug) return;
  const auto level = severity == Severity::info      ? google::GLOG_INFO
                     : severity == Severity::warning ? google::GLOG_WARNING
                                                     : google::GLOG_ERROR;
  if (level < FLAGS_minloglevel) return;
  need_log();
  google::LogMessage("crema", 0, level).stream() << message;
}

void log_iteration(Net& net, const IterationReport& report, double seconds, int iterations) {
  char line[160];
  std::snprintf(line, sizeof line, "Iteration %d (%.4g iter/s, %.3gs/%d iters), loss = %g",
                report.iteration, iterations / seconds, seconds, iterations, report.smoothed_loss);
  log(Severity::info, line);
  int number = 0;
  for (const std::string& name : net.outputs()) {
    const Tensor values = net.output(name);
    for (int64_t i = 0; i < values.count(); ++i, ++number)
      log_output("Train", number, name, values.at(i), net.loss_weight(name));
  }
  log(Severity::info, text("Iteration ", report.iteration, ", lr = ", report.rate));
}

void log_test(const TestReport& report) {
  log(Severity::info, text("Iteration ", report.iteration, ", Testing net (#", report.net, ")"));
  int number = 0;
  for (const TestReport::Output& output : report.outputs)
    log_output("Test", number++, output.name, output.value, output.loss_weight);
}

void log_solve(const std::string& net, const SolverParameter& param) {
  log(Severity::info, text("Solving ", net));
  log(Severity::info, text("Learning Rate Policy: ", param.lr_policy()));
}

void log_snapshot(const std::string& path) {
  constexpr std::string_view kState = ".solverstate";
  std::string weights = path;
  if (const size_t at = path.rfind(kState); at != std::string::npos)
    weights.replace(at, kState.size(), ".caffemodel");
  const char* const kind = path.ends_with(".h5") ? "HDF5" : "binary proto";
  log(Severity::info, text("Snapshotting to ", kind, " file ", weights));
  log(Severity::info, text("Snapshotting solver state to ", kind, " file ", path));
}

void bind_log(nb::module_& module) {
  // Quiet, as libraries are; the package caffe asks for more.
  if (std::getenv("GLOG_minloglevel") == nullptr) FLAGS_minloglevel = google::GLOG_WARNING;
  module.def("set_log_level", set_log_level, nb::arg("level"),
             "Messages below this level are not shown: 0 all, 1 warnings, 2 errors, 3 none.");
  module.def("log_level", log_level,
             "The level from which on messages are shown, as set_log_level() takes it.");
  module.def("log", write_log, nb::arg("message"), "Shows a message of level 0.");
}

}  // namespace crema::python
