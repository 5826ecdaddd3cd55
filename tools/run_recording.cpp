#include "tools/run_recording.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/path_advice.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/net.hpp"
#include "monitor/run_folder.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"
#include "tools/command_line.hpp"
#include "tools/flags.hpp"
#include "tools/run_report.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

DEFINE_string(run_dir, "",
              "The folder of the run, for its curves, log and settings, or none. Default: "
              "runs/NET-N below the working directory, none when called as caffe; the environment "
              "variable CREMA_RUN_DIR sets another one.");
DECLARE_bool(resume);
DECLARE_string(solver);

namespace crema::tools {
namespace fs = std::filesystem;
namespace {

constexpr const char* kBase = "runs";

/// The words that the process was started with.
std::vector<std::string> command_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(as_utf8(word));
  return words;
}

/// Removes what a run wrote, and nothing else.
void clear_run(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_of_run = name == kRunInfoFile || name == kMetricsFile ||
                           name == kHistogramsFile || name == kRunLogFile ||
                           name == kRunSolverFile || name == kRunNetFile ||
                           name == kRunReportFile || name.starts_with(kEventsPrefix) ||
                           (name.starts_with("test_net_") && name.ends_with(".prototxt"));
    if (is_of_run) files.push_back(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(file_of_run(folder, kRunSnapshots), ignored))
    if (entry.is_symlink(ignored)) files.push_back(entry.path());
  for (const fs::path& file : files) fs::remove(file, ignored);
}

/// The solver so that it trains the same again, from its file alone.
SolverParameter with_flags(const SolverParameter& param, const SourceMap& source, uint64_t seed,
                           bool is_continued) {
  SolverParameter solver = param;
  solver.set_snapshot_prefix(snapshot_prefix(param, source.file()));
  if (seed <= static_cast<uint64_t>(INT64_MAX)) solver.set_random_seed(static_cast<int64_t>(seed));
  if (FLAGS_weights.empty() || is_continued) return solver;
  solver.clear_weights();
  for (const std::string& file : split_list(FLAGS_weights)) solver.add_weights(file);
  return solver;
}

}  // namespace

RunRecording::RunRecording() {
  const char* const variable = std::getenv("CREMA_RUN_DIR");
  if (is_given("run_dir")) {
    folder_ = FLAGS_run_dir;
  } else if (called_as_caffe()) {
    folder_ = "none";
  } else if (variable != nullptr && *variable != '\0') {
    folder_ = variable;
  }
  is_asked_for_ = !folder_.empty();
  if (!wanted()) log_.discard();
  if (!is_asked_for_ || !wanted()) return;
  check_new_path(folder_);
  const bool continues = FLAGS_resume || is_given("snapshot");
  if (is_run_folder(folder_) && !continues && !FLAGS_overwrite)
    throw Error("'", folder_,
                "' has a run already; --resume or --snapshot continues it, --overwrite replaces it,"
                " or name another folder with --run_dir");
}

std::string RunRecording::choose_folder(Solver& solver, bool is_continued, bool* resumed) const {
  *resumed = false;
  if (is_asked_for_) {
    if (is_run_folder(folder_)) {
      *resumed = is_continued || FLAGS_resume;
      if (!*resumed && !is_run_alive(folder_)) clear_run(folder_);
      return folder_;
    }
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed)
      throw Error("--run_dir: cannot make the folder '", folder_, "': ", failed.message())
          .about(folder_);
    return folder_;
  }
  if (const std::string before = solver.run_folder(); is_continued && !before.empty()) {
    *resumed = is_run_folder(before);
    if (*resumed) return before;
    say(text("the folder of the run, ", printable(before),
             ", is gone: the run goes on in a new one, without what was recorded before"));
  }
  const std::string name = solver.net().name();
  return make_numbered_run(kBase, name.empty() ? fs::path(FLAGS_solver).stem().string() : name);
}

void RunRecording::start(Solver& solver, Context& context, const SolverParameter& param,
                         const SourceMap& source, bool is_continued) {
  if (!wanted()) return;
  bool resumed = false;
  std::string folder;
  try {
    const SolverParameter run =
        with_flags(param, source, solver.net().run_state().seed, is_continued);
    RunInfo info = describe_run(solver, run);
    info.set_solver_file(as_utf8(FLAGS_solver));
    for (std::string& word : command_words()) info.add_command(std::move(word));
    folder = choose_folder(solver, is_continued, &resumed);
    recorder_ =
        std::make_unique<Recorder>(solver, run, info, folder, RecorderOptions{.resumed = resumed});
  } catch (const std::exception& error) {
    log_.discard();
    if (is_asked_for_ || is_run_alive(folder)) throw;
    say(Severity::warning, text("the run has no folder: ", error.what()));
    return;
  }
  recorder_->attach();
  context_ = &context;
  solver_ = &solver;
  report_net(folder, solver.net());
  recorder_->on_folder_changed = [folder] { report_snapshot(folder); };
  say(text("Run folder: ", printable(folder), resumed ? ", which the run goes on in" : ""));
  log_.open(file_of_run(folder, kRunLogFile));
}

void RunRecording::end(RunRecord::Reason reason, const std::string& text) {
  if (!recorder_) return;
  // Whoever stops a run waits for no evaluation.
  if (reason != RunRecord::FAILED && reason != RunRecord::STOPPED) {
    recorder_->on_folder_changed = [this] {
      report_end(recorder_->folder(), *context_, seconds_of_end(solver_->seconds()));
    };
  }
  recorder_->end(reason, as_utf8(text));
  std::error_code failed;
  if (const std::string report = file_of_run(recorder_->folder(), kRunReportFile);
      fs::exists(report, failed))
    say(crema::text("Report: ", printable(report)));
  log_.check();
}

}  // namespace crema::tools
