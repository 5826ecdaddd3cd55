#include "tools/run_start.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/data_source.hpp"
#include "core/utf8.hpp"
#include "crema/parameter_arena.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"
#include "solver/snapshot_files.hpp"
#include "solver/update_rule.hpp"
#include "tools/command_line.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace fs = std::filesystem;
namespace {

bool is_one_of(const std::string& file, const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [&](const std::string& one) {
    std::error_code unknown;
    return fs::equivalent(file, one, unknown);
  });
}

/// Whether the file of snapshots says how far its run is: a state, the best or the last. Weights of
/// an iteration do not.
bool tells_of_run(const std::string& file, const std::string& prefix) {
  const size_t begin = fs::path(prefix).filename().string().size();
  const std::string rest = fs::path(file).filename().string().substr(begin);
  return !rest.starts_with("_iter_") || rest.find(".solverstate") != std::string::npos;
}

/// "0.333", "12.5", "21,333".
std::string epochs_text(double epochs) {
  if (epochs >= 999.5) return grouped(std::llround(epochs));
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", epochs);
  return text;
}

/// "10 classes: a, b, c, ..." of the names, as many as a line has room for.
std::string named_classes(const std::vector<std::string>& names) {
  std::string said = text(names.size(), names.size() == 1 ? " class: " : " classes: ");
  for (size_t i = 0; i < names.size(); ++i) {
    if (columns_of(said) + columns_of(names[i]) > 72) return said + "...";
    said += printable(names[i]) + (i + 1 < names.size() ? ", " : "");
  }
  return said;
}

/// The classes that the net tells apart: by their names, or by the scores that a loss reads. "" for
/// a net that tells none.
std::string classes_of(Net& net) {
  for (const Layer* layer : net.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr) continue;
    if (const auto names = source->class_names(); !names.empty()) return named_classes(names);
  }
  for (const NetStep& step : net.steps()) {
    if (step.type != "SoftmaxWithLoss" || step.bottoms.empty()) continue;
    const Shape shape = net.values()[static_cast<size_t>(step.bottoms[0])].shape;
    if (shape.rank() >= 2) return text(shape[1], shape[1] == 1 ? " class" : " classes");
  }
  return "";
}

/// The source of a net that counts its records, with the most of them; null without one.
const DataSource* counted_source(Net& net) {
  const DataSource* found = nullptr;
  for (const Layer* layer : net.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr || source->records() <= 0) continue;
    if (found == nullptr || source->records() > found->records()) found = source;
  }
  return found;
}

void say_records(Solver& solver, const SolverParameter& param) {
  if (const DataSource* source = counted_source(solver.net())) {
    // A halved batch has twice the passes (on_oom): what the settings say of these may be old.
    const auto epoch = solver.iterations_of_epoch();
    const auto records = static_cast<double>(source->records());
    const int64_t batch =
        epoch ? std::llround(records / *epoch) : source->records_per_batch() * param.iter_size();
    std::string said =
        text(grouped(source->records()), " records, ", grouped(batch), " in an iteration");
    if (epoch) {
      const int iterations = solver.max_iterations();
      said += text(": ", grouped(iterations), " iterations are ", epochs_text(iterations / *epoch),
                   " epochs");
    }
    say(said);
  }
  for (size_t n = 0; n < solver.test_nets().size(); ++n) {
    const DataSource* source = counted_source(*solver.test_nets()[n]);
    if (source == nullptr) continue;
    const int64_t taken = source->records_per_batch() * param.test_iter(static_cast<int>(n));
    const std::string all = grouped(source->records());
    say(text("a test", n > 0 ? text(" of net #", n) : "", " takes ", grouped(taken),
             taken <= source->records() ? text(" of ", all, " records")
                                        : text(" records, more than the ", all, " that it has")));
  }
}

}  // namespace

void OtherRun::look_for(const SolverParameter& param, const SourceMap& source,
                        const std::string& state, bool at_signals) {
  const bool takes = takes_snapshots(param), replaces = FLAGS_overwrite || called_as_caffe();
  if (!takes && !at_signals) return;
  const std::string prefix = snapshot_prefix(param, source.file());
  const std::vector<std::string> files = files_of_snapshots(prefix);
  if (files.empty() || (!state.empty() && is_one_of(state, files))) return;
  const bool one = files.size() == 1;
  const std::string are = one ? text("'", files[0], "' is of another run")
                              : text("the ", files.size(), " files '", prefix, "_*' such as '",
                                     files[0], "' are of another run");
  if (FLAGS_overwrite) {
    for (const std::string& file : files) {
      struct stat is {};
      if (tells_of_run(file, prefix) && ::lstat(file.c_str(), &is) == 0)
        replaced_.push_back({file, is.st_ino});
    }
  }
  if (replaces && takes)
    say(Severity::warning, text(are, "; this run replaces ", one ? "it" : "them",
                                " or writes beside ", one ? "it" : "them"));
  if (replaces) return;
  const std::string ways = text(
      Solver::has_snapshot(param, source) ? "--resume continues that run. " : "",
      "--overwrite replaces its files. --set snapshot_prefix=", free_prefix(prefix), " keeps both");
  if (takes)
    throw Error(are, ". This run would mix its own files with ", one ? "it" : "them", ". ", ways);
  refused_ = are;
  say(Severity::warning, text(are, ". Signals take no snapshot. ", ways));
}

SolverAction OtherRun::allowed(SolverAction asked) const {
  if (asked != SolverAction::snapshot || refused_.empty()) return asked;
  say(Severity::warning, text("no snapshot at this signal: ", refused_));
  return SolverAction::none;
}

void OtherRun::replace_with(Solver& solver) {
  if (replaced_.empty()) return;
  solver.on_snapshot = [files = std::exchange(replaced_, {}),
                        then = solver.on_snapshot](const std::string& state) mutable {
    for (const File& file : std::exchange(files, {})) remove(file, state);
    if (then) then(state);
  };
}

void OtherRun::remove(const File& file, const std::string& state) {
  struct stat is {};
  if (::lstat(file.path.c_str(), &is) != 0 || is.st_ino != file.number) return;
  // A link of this name stays where the state was written behind it.
  if (fs::path(file.path).lexically_normal() == fs::path(state).lexically_normal()) return;
  std::error_code failed;
  fs::remove(file.path, failed);
  if (failed)
    say(Severity::warning,
        text("--overwrite: cannot remove '", file.path, "' of the other run: ", failed.message(),
             "; remove it, before --resume takes it for this run's"));
}

void say_what_trains(Solver& solver, const SolverParameter& param) {
  Net& net = solver.net();
  int64_t trained = 0, frozen = 0, statistics = 0;
  for (const auto& segment : net.params().segments()) {
    const Parameter& parameter = *segment.parameter;
    (learns(parameter) ? trained : parameter.learnable ? frozen : statistics) += segment.count;
  }
  const std::string classes = classes_of(net);
  say(text(grouped(trained), " parameters train, ", grouped(frozen), " are frozen",
           statistics > 0 ? text("; ", grouped(statistics), " statistics") : ""));
  if (!classes.empty()) say(classes);
  say_records(solver, param);
  const MemoryPlan memory = net.memory();
  say(text("Solving ", printable(net.name()), " on ", net.context().threads(),
           " threads; memory: ", human_bytes(static_cast<double>(memory.activations)),
           " activations, ", human_bytes(static_cast<double>(memory.parameters)), " parameters, ",
           human_bytes(static_cast<double>(memory.engines)), " engines"));
}

}  // namespace crema::tools
