// crema sweep: trainings that differ in settings, and which was best.
#include <gflags/gflags.h>

#include <filesystem>
#include <iostream>
#include <set>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "monitor/run_folder.hpp"
#include "monitor/sweep/sweep_run.hpp"
#include "tools/columns.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/signals.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

DEFINE_string(runs, "runs", "The folder in which the folder of the sweep is made.");
DEFINE_bool(retry_failed, false, "With --resume, run trials again that have failed.");
DECLARE_bool(resume);

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// The folder of the newest sweep of this name.
std::string newest_folder(const std::string& base, const std::string& name) {
  const std::string begin = safe_run_name(name) + "-";
  std::string newest;
  int64_t greatest = 0;
  std::error_code failed;
  for (fs::directory_iterator entry(base, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string folder = entry->path().filename().string();
    std::error_code unknown;
    if (!folder.starts_with(begin) || !fs::exists(entry->path() / "sweep.prototxt", unknown))
      continue;
    const std::string digits = folder.substr(begin.size());
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      continue;
    if (const int64_t number = std::stoll(digits); number > greatest) {
      greatest = number;
      newest = entry->path().string();
    }
  }
  return newest;
}

std::string best_words(const TrialState& state) {
  if (!state.best) return "";
  return text(printable(state.output), " ", human_value(*state.best), " at iteration ",
              state.best_iteration);
}

/// The log has errors whole.
constexpr size_t kStateColumns = 60;

void print_trials(const SweepRun& sweep) {
  std::set<std::string> outputs;
  for (const TrialState& state : sweep.states()) {
    if (state.best) outputs.insert(state.output);
  }
  const std::string best =
      outputs.size() == 1 ? "best " + printable(*outputs.begin()) : std::string("best");
  TableRow head = {"trial"};
  for (const std::string& set : sweep.plan().trials[0].vary)
    head.push_back(printable(set.substr(0, set.find('='))));
  for (const std::string& word : {best, std::string("at"), std::string("iterations"),
                                  std::string("time"), std::string("state")})
    head.push_back(word);
  Table rows = {head};
  for (const size_t trial : sweep.ranked()) {
    const TrialState& state = sweep.states()[trial];
    const PlannedTrial& planned = sweep.plan().trials[trial];
    TableRow row = {planned.name};
    for (const std::string& set : planned.vary)
      row.push_back(printable(set.substr(set.find('=') + 1)));
    row.push_back(!state.best           ? "-"
                  : outputs.size() == 1 ? human_value(*state.best)
                                        : printable(state.output) + " " + human_value(*state.best));
    row.push_back(state.best ? grouped(state.best_iteration) : "-");
    row.push_back(grouped(state.iterations));
    row.push_back(state.seconds > 0 ? human_seconds(state.seconds) : "-");
    const std::string words = printable(words_of(state)), cut = cut_to(words, kStateColumns);
    row.push_back(cut + (cut == words ? "" : " ..."));
    rows.push_back(std::move(row));
  }
  print_table(rows, std::cout, terminal_width(), 0);
  std::cout.flush();
}

int sweep(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1)
    throw Error(
        "sweep needs one file, as in: crema sweep sweep.prototxt; `crema help sweep` shows "
        "one");
  if (FLAGS_retry_failed && !FLAGS_resume)
    throw Error("--retry_failed has no effect without --resume, which goes on with a sweep");
  SweepPlan plan = plan_sweep(arguments[0]);
  const std::string name = plan.param.name();
  std::string folder = FLAGS_resume ? newest_folder(FLAGS_runs, name) : "";
  if (FLAGS_resume && folder.empty())
    say(text("No sweep ", printable(name), " to resume in ", printable(FLAGS_runs),
             ": starting one"));
  if (folder.empty()) folder = make_numbered_run(FLAGS_runs, name);
  const SignalActions signals("stop", "none");
  bool is_stopped = false;
  std::mutex mutex;
  SweepRunOptions options;
  const bool wants_gpu =
      plan.solver.has_solver_mode() && plan.solver.solver_mode() == SolverParameter::GPU;
  options.context = context_options(wants_gpu, plan.solver.device_id());
  options.retries_failed = FLAGS_retry_failed;
  options.stops = [&] {
    const std::scoped_lock lock(mutex);
    is_stopped = is_stopped || signals.take() == SolverAction::stop;
    return is_stopped;
  };
  const size_t count = plan.trials.size();
  size_t ended = 0;
  options.on_change = [&](const PlannedTrial& trial, const TrialState& state) {
    if (state.kind == TrialState::Kind::running) {
      say(text(trial.name, " of ", count, ": ", printable(joined(trial.vary, " "))));
      return;
    }
    ++ended;
    const std::string best = best_words(state);
    say(state.kind == TrialState::Kind::failed ? Severity::warning : Severity::info,
        text(trial.name, " ", words_of(state), best.empty() ? "" : ", best ", best));
  };
  options.on_log = [](const PlannedTrial& trial, Severity severity, const std::string& message) {
    say(severity, text(trial.name, ": ", message));
  };
  const std::string seed = plan.solver.random_seed() >= 0
                               ? text("random_seed ", plan.solver.random_seed(), " of the solver")
                               : text("random_seed ", plan.param.seed());
  SweepRun run(std::move(plan), folder, std::move(options));
  const auto done = std::ranges::count(run.states(), true, &TrialState::was_done);
  say(text("Sweep ", printable(folder), ": ", count, count == 1 ? " trial" : " trials",
           done > 0 ? text(", ", done, " of them done before") : "", ", ",
           run.plan().param.parallel() > 1 ? text(run.plan().param.parallel(), " at once, ") : "",
           seed));
  const bool finished = run.run();
  print_trials(run);
  std::error_code unknown;
  if (const std::string report = file_of_run(folder, kRunReportFile); fs::exists(report, unknown))
    say("Comparison: " + printable(report));
  if (!finished) say("Sweep stopped early; the same command with --resume goes on.");
  const auto failed = std::ranges::count(run.states(), TrialState::Kind::failed, &TrialState::kind);
  const int signal = signals.stopped_by();
  if (!finished && signal != 0) return 128 + signal;
  return std::cmp_equal(failed, count) ? 1 : 0;
}

}  // namespace

extern const Command kSweep = {
    "sweep",
    "trains with several settings, and shows which is best",
    "  crema sweep sweep.prototxt\n"
    "  crema sweep sweep.prototxt --resume\n"
    "\n"
    "The file names a solver and what differs between the trials:\n"
    "\n"
    "  solver: \"solver.prototxt\"\n"
    "  set: \"max_iter=2000\"\n"
    "  vary { field: \"base_lr\" range { least: 0.001 greatest: 0.1 log: true steps: 3 } }\n"
    "  vary { field: \"net.ip1.num_output\" value: \"100\" value: \"500\" }\n"
    "  parallel: 2\n"
    "\n"
    "Each value of each setting is tried with each one of the others, or, with search: RANDOM and\n"
    "trials: 20, values that are drawn of all. Fields are those of --set of crema train.\n"
    "\n"
    "The folder runs/NAME-N has a folder for each trial, which is that of a run, and report.html,\n"
    "which compares them. A trial that fails does not stop the others. Ctrl-C ends the trials\n"
    "after a snapshot, and --resume goes on with the newest sweep of the name: trials that have\n"
    "ended are not run again. The exit status is 1 if all trials failed, and 130 after Ctrl-C.",
    {"runs", "resume", "retry_failed", "gpu", "threads", "engine", "tune", "tuning_file", "plugin"},
    sweep,
    1,
    NetUse::runs};

}  // namespace crema::tools
