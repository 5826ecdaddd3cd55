#include "tools/run_start.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

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

bool takes_snapshots(const SolverParameter& param) {
  return param.snapshot() > 0 || (param.max_iter() > 0 && param.snapshot_after_train()) ||
         !param.snapshot_best().empty();
}

bool is_one_of(const std::string& file, const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [&](const std::string& one) {
    std::error_code unknown;
    return fs::equivalent(file, one, unknown);
  });
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
    const int64_t batch = source->records_per_batch() * param.iter_size();
    std::string said =
        text(grouped(source->records()), " records, ", grouped(batch), " in an iteration");
    if (source->takes_each_once()) {
      char epochs[32];
      std::snprintf(
          epochs, sizeof epochs, "%.3g",
          static_cast<double>(batch) * param.max_iter() / static_cast<double>(source->records()));
      said += text(": ", grouped(param.max_iter()), " iterations are ", epochs, " epochs");
    }
    say(said);
  }
  for (size_t n = 0; n < solver.test_nets().size(); ++n) {
    const DataSource* source = counted_source(*solver.test_nets()[n]);
    if (source == nullptr) continue;
    const int64_t taken = source->records_per_batch() * param.test_iter(static_cast<int>(n));
    say(text("a test", n > 0 ? text(" of net #", n) : "", " takes ", grouped(taken), " of ",
             grouped(source->records()), " records"));
  }
}

}  // namespace

void check_other_runs(const SolverParameter& param, const SourceMap& source,
                      const std::string& state) {
  if (!takes_snapshots(param)) return;
  const std::string prefix = snapshot_prefix(param, source.file());
  const std::vector<std::string> files = files_of_snapshots(prefix);
  if (files.empty() || (!state.empty() && is_one_of(state, files))) return;
  const std::string are = text("this run would write over ",
                               files.size() == 1 ? text("'", files[0], "'")
                                                 : text("the ", files.size(), " files '", prefix,
                                                        "_*' such as '", files[0], "'"),
                               " of another run");
  if (FLAGS_overwrite || called_as_caffe()) return say(Severity::warning, are);
  const bool has_states = std::ranges::any_of(files, [](const std::string& file) {
    return file.find(".solverstate") != std::string::npos;
  });
  throw Error(are, "; ", has_states ? "--resume continues that run, " : "",
              "--overwrite replaces its files, --set snapshot_prefix=", free_prefix(prefix),
              " keeps both");
}

void remove_other_states(const SolverParameter& param, const SourceMap& source) {
  if (!FLAGS_overwrite || !takes_snapshots(param)) return;
  for (const std::string& file : files_of_snapshots(snapshot_prefix(param, source.file()))) {
    std::error_code failed;
    if (file.find(".solverstate") != std::string::npos) fs::remove(file, failed);
    if (failed)
      throw Error("--overwrite: cannot remove '", file, "': ", failed.message(),
                  "; remove it, or set another snapshot_prefix");
  }
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
