#include "monitor/sweep/sweep_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/less_is_better.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "model/text_file.hpp"
#include "model/text_format.hpp"
#include "monitor/log_file.hpp"
#include "monitor/recorder.hpp"
#include "monitor/report/report.hpp"
#include "monitor/run_folder.hpp"
#include "solver/overrides.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kSweepFile = "sweep.prototxt";
constexpr size_t kMostCompared = 200;  // runs, of which a page has curves

/// What decides whether a folder is of the same sweep.
std::string identity_of(SweepParameter param) {
  param.clear_parallel();
  if (param.search() == SweepParameter::RANDOM) param.clear_trials();
  return param.SerializeAsString();
}

/// What an earlier try left would stand beside the new curves.
void remove_curves(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> files = {file_of_run(folder, kMetricsFile),
                                 file_of_run(folder, kHistogramsFile)};
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(kEventsPrefix))
      files.push_back(entry->path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::string words_of(const TrialState& state) {
  const std::string why = state.text.empty() ? "" : ": " + state.text;
  const std::string tests = state.has_bad_tests ? ", tests not finite" : "";
  switch (state.kind) {
    case TrialState::Kind::waiting:
      return "not run";
    case TrialState::Kind::running:
      return "running";
    case TrialState::Kind::finished:
      return "finished" + tests + why;
    case TrialState::Kind::early:
      return "ended early" + tests + why;
    case TrialState::Kind::stopped:
      return "stopped" + why;
    case TrialState::Kind::failed:
      return "failed" + why;
  }
  return "";
}

SweepRun::SweepRun(SweepPlan plan, std::string folder, SweepRunOptions options)
    : plan_(std::move(plan)), folder_(std::move(folder)), options_(std::move(options)) {
  if (options_.context.device.type != DeviceType::cpu && plan_.param.parallel() > 1)
    throw Error("parallel: ", plan_.param.parallel(),
                " trials at once need the CPU; set parallel: "
                "1 for a GPU");
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw Error("cannot make the sweep's folder '", folder_, "': ", failed.message());
  const std::string file = (fs::path(folder_) / kSweepFile).string();
  if (fs::exists(file, failed)) {
    SweepParameter there;
    read_text_proto(file, there);
    if (identity_of(there) != identity_of(plan_.param))
      throw Error("'", folder_, "' is the folder of another sweep, as its ", kSweepFile,
                  " shows; only parallel, and trials of a random search, may differ. Leave out "
                  "--resume for a folder of its own")
          .about(file);
  }
  write_text_proto_atomically(file, plan_.param);
  states_.resize(plan_.trials.size());
  bests_.resize(plan_.trials.size());
  for (size_t trial = 0; trial < states_.size(); ++trial) read_state(trial);
}

std::string SweepRun::folder_of(size_t trial) const {
  return (fs::path(folder_) / plan_.trials[trial].name).string();
}

void SweepRun::read_state(size_t trial) {
  if (!is_run_folder(folder_of(trial))) return;
  try {
    const RunFiles run = read_run(folder_of(trial));
    TrialState& state = states_[trial];
    using Kind = TrialState::Kind;
    switch (run.state()) {
      case RunOutcome::finished:
      case RunOutcome::time_over:
        state.kind = Kind::finished;
        break;
      case RunOutcome::early:
        state.kind = Kind::early;
        break;
      case RunOutcome::stopped:
        state.kind = Kind::stopped;
        break;
      case RunOutcome::failed:
        state.kind = Kind::failed;
        break;
      case RunOutcome::unknown:
        state.kind = Kind::waiting;
        break;
    }
    if (run.end() != nullptr) state.text = run.end()->text();
    state.has_bad_tests = ends_with_bad_test(run);
    state.was_done = state.kind == Kind::finished || state.kind == Kind::early ||
                     (state.kind == Kind::failed && !options_.retries_failed);
    state.iterations = run.iterations;
    state.seconds = seconds_of_run(run);
    // As take_test() takes them while it runs.
    for (const RunRecord& event : run.events) {
      if (event.kind() != RunRecord::TEST) continue;
      TestReport report{.iteration = event.iteration(),
                        .net = event.net(),
                        .loss = event.test_loss(),
                        .outputs = {}};
      for (const auto& [name, value] : event.outputs())
        report.outputs.push_back({name, 0, value, less_is_better(name) ? 1.0F : 0.0F});
      std::ranges::sort(report.outputs, {}, &TestReport::Output::name);
      take_test(trial, report);
    }
  } catch (const Error&) {
    states_[trial] = {};  // a folder that cannot be read is that of a trial to run
  }
}

/// The output by which trials are ranked, of the first test net that has it.
void SweepRun::take_test(size_t trial, const TestReport& report) {
  TrialState& state = states_[trial];
  if (report.iteration != state.last_test) state.has_bad_tests = false;
  state.last_test = report.iteration;
  state.has_bad_tests |= !std::isfinite(report.loss) ||
                         std::ranges::any_of(report.outputs, [](const TestReport::Output& output) {
                           return !std::isfinite(output.value);
                         });
  std::string wanted = plan_.param.output();
  if (wanted.empty() && plan_.solver.has_snapshot_best()) wanted = plan_.solver.snapshot_best();
  const TestReport::Output* found = nullptr;
  for (const TestReport::Output& output : report.outputs) {
    const bool is_it =
        wanted.empty() ? output.loss_weight == 0 && found == nullptr : output.name == wanted;
    if (is_it && (state.output.empty() || state.output == output.name)) found = &output;
  }
  const bool is_loss = wanted.empty() && found == nullptr && report.net == 0 &&
                       (state.output.empty() || state.output == "loss");
  if (found == nullptr && !is_loss) return;
  const double value = found != nullptr ? found->value : report.loss;
  state.output = found != nullptr ? found->name : "loss";
  state.least_is_best = is_loss || less_is_better(state.output);
  if (state.output == plan_.solver.snapshot_best() &&
      plan_.solver.snapshot_best_is() != SolverParameter::BY_NAME)
    state.least_is_best = plan_.solver.snapshot_best_is() == SolverParameter::LEAST;
  const bool is_better =
      std::isfinite(value) &&
      (!state.best || (state.least_is_best ? value < *state.best : value > *state.best));
  if (is_better) {
    state.best = value;
    state.best_iteration = report.iteration;
  }
  if (state.best) bests_[trial].push_back({report.iteration, *state.best});
}

bool SweepRun::is_hopeless(size_t trial, std::string& why) const {
  if (!plan_.param.has_hopeless() || bests_[trial].empty()) return false;
  const Best own = bests_[trial].back();
  if (own.iteration < plan_.param.hopeless().from_iteration()) return false;
  std::vector<double> others;
  for (size_t other = 0; other < states_.size(); ++other) {
    if (other == trial || bests_[other].empty() || bests_[other].back().iteration < own.iteration)
      continue;
    std::optional<double> best;
    for (const Best& one : bests_[other]) {
      if (one.iteration <= own.iteration) best = one.value;
    }
    if (best) others.push_back(*best);
  }
  if (std::ssize(others) < plan_.param.hopeless().least_trials()) return false;
  const double middle = median(others);
  const bool is_behind = states_[trial].least_is_best ? own.value > middle : own.value < middle;
  if (is_behind)
    why = text(states_[trial].output, " ", value_words(own.value), " is behind ",
               value_words(middle), ", the median of ", others.size(), " trials");
  return is_behind;
}

void SweepRun::change(size_t trial, const TrialState& state) {
  const std::scoped_lock lock(report_mutex_);
  if (options_.on_change) options_.on_change(plan_.trials[trial], state);
}

/// A trial whose solver could not be made has a folder all the same.
void SweepRun::record_failure(size_t trial, const std::string& why) const {
  const std::string folder = folder_of(trial);
  std::error_code failed;
  fs::create_directories(folder, failed);
  RunInfo info;
  info.set_name(plan_.trials[trial].name);
  info.set_parent(fs::path(folder_).filename().string());
  info.set_solver_file(plan_.param.solver());
  for (const std::string& set : settings_of(plan_, plan_.trials[trial])) {
    RunInfo::Setting& setting = *info.add_settings();
    setting.set_name(set.substr(0, set.find('=')));
    setting.set_value(set.substr(set.find('=') + 1));
  }
  write_run_info(folder, info);
  RunRecord record;
  record.set_kind(RunRecord::END);
  record.set_reason(RunRecord::FAILED);
  record.set_text(why);
  record.set_wall(static_cast<double>(std::time(nullptr)));
  std::ofstream(file_of_run(folder, kMetricsFile), std::ios::app) << json_line(record) << "\n";
}

void SweepRun::train(size_t trial) {
  const PlannedTrial& planned = plan_.trials[trial];
  const std::string folder = folder_of(trial);
  fs::create_directories(fs::path(folder) / "weights");
  LogFile log;
  log.open(file_of_run(folder, kRunLogFile));
  const auto write = [&log](Severity severity, const std::string& message) {
    log.add("DIWE"[static_cast<size_t>(severity)], "libcrema", 0, printable_message(message));
  };
  ContextOptions context_options = options_.context;
  const int all_threads =
      context_options.threads > 0 ? context_options.threads : Context(context_options).threads();
  const int at_once = std::min<int>(plan_.param.parallel(), static_cast<int>(plan_.trials.size()));
  context_options.threads = std::max(1, all_threads / at_once);
  context_options.logger = [&](Severity severity, const std::string& message) {
    if (severity != Severity::debug) write(severity, message);
    if (severity >= Severity::warning && options_.on_log)
      options_.on_log(planned, severity, message);
  };
  SolverParameter param = plan_.solver;
  if (param.random_seed() < 0) param.set_random_seed(static_cast<int64_t>(plan_.param.seed()));
  param.set_snapshot_prefix(
      (fs::absolute(folder) / "weights" / safe_run_name(plan_.param.name())).string());
  SolverOptions solver_options;
  solver_options.set = settings_of(plan_, planned);
  solver_options.needs_loss = true;
  SolverParameter as_set = param;
  SourceMap places = plan_.solver_source;
  Overrides(solver_options.set).apply(as_set, places);
  if (!as_set.has_max_iter() && !as_set.has_max_epochs())
    throw Error(
        "the solver has neither max_iter nor max_epochs; add one, or set: \"max_iter=1000\" to the "
        "sweep");
  const bool resumes = Solver::has_snapshot(as_set, places);
  Context context(context_options);
  if (resumes) solver_options.weights.emplace();
  Solver solver(param, plan_.solver_source, context, solver_options);
  const bool goes_on = resumes && !solver.resume().empty();
  if (!goes_on) {
    remove_curves(folder);
    const std::scoped_lock lock(mutex_);
    states_[trial] = {.kind = TrialState::Kind::running};
    bests_[trial].clear();
  }
  RunInfo info = describe_run(solver, as_set);
  info.set_name(planned.name);
  info.set_parent(fs::path(folder_).filename().string());
  info.set_solver_file(plan_.param.solver());
  Recorder recorder(solver, as_set, info, folder, {.resumed = goes_on});
  std::string hopeless;
  std::atomic<bool> is_over = false, is_stopped = false;
  solver.on_test = [&](const TestReport& report) {
    const std::scoped_lock lock(mutex_);
    take_test(trial, report);
    if (is_hopeless(trial, hopeless)) is_over = true;
  };
  const auto begin = Clock::now();
  const double before = states_[trial].seconds;
  solver.on_iteration = [&](const IterationReport& report) {
    const std::scoped_lock lock(mutex_);
    states_[trial].iterations = report.iteration + 1;
    states_[trial].seconds = before + std::chrono::duration<double>(Clock::now() - begin).count();
  };
  solver.poll = [&] {
    if (options_.stops && options_.stops()) is_stopped = true;
    return is_over || is_stopped ? SolverAction::stop : SolverAction::none;
  };
  recorder.attach();
  bool finished = false;
  try {
    finished = solver.solve();
  } catch (const std::exception& error) {
    write(Severity::error, error.what());
    recorder.end(RunRecord::FAILED, error.what());
    recorder.detach();
    const std::scoped_lock lock(mutex_);
    states_[trial].kind = TrialState::Kind::failed;
    states_[trial].text = error.what();
    return;
  }
  const bool is_hopeless_one = !finished && is_over && !is_stopped;
  const RunRecord::Reason reason = is_hopeless_one ? RunRecord::EARLY : reason_of(solver.end());
  recorder.end(reason, is_hopeless_one ? hopeless : "");
  recorder.detach();
  const std::scoped_lock lock(mutex_);
  // early_stop of the solver ends one, too.
  states_[trial].kind = reason == RunRecord::EARLY ? TrialState::Kind::early
                        : finished                 ? TrialState::Kind::finished
                                                   : TrialState::Kind::stopped;
  states_[trial].text = is_hopeless_one ? hopeless : "";
}

void SweepRun::run_trial(size_t trial) {
  TrialState now;
  {
    const std::scoped_lock lock(mutex_);
    states_[trial].kind = TrialState::Kind::running;
    states_[trial].text.clear();
    now = states_[trial];
  }
  change(trial, now);
  try {
    train(trial);
  } catch (const std::exception& error) {
    const std::string why = error.what();
    {
      const std::scoped_lock lock(mutex_);
      states_[trial].kind = TrialState::Kind::failed;
      states_[trial].text = why;
    }
    try {
      record_failure(trial, why);
    } catch (const std::exception& second) {
      if (options_.on_log) options_.on_log(plan_.trials[trial], Severity::warning, second.what());
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    now = states_[trial];
  }
  change(trial, now);
  try {
    write_comparison(false);
  } catch (const std::exception& error) {
    if (options_.on_log) options_.on_log(plan_.trials[trial], Severity::warning, error.what());
  }
}

bool SweepRun::run() {
  std::atomic<size_t> next = 0;
  std::atomic<bool> is_stopped = false;
  const auto work = [&] {
    for (size_t trial; (trial = next++) < plan_.trials.size();) {
      if (options_.stops && options_.stops()) is_stopped = true;
      if (is_stopped) return;
      if (!states_[trial].was_done) run_trial(trial);
    }
  };
  std::vector<std::thread> threads;
  const auto at_once =
      std::min<size_t>(static_cast<size_t>(plan_.param.parallel()), plan_.trials.size());
  for (size_t k = 1; k < at_once; ++k) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (options_.stops && options_.stops()) is_stopped = true;
  write_comparison(true);
  return !is_stopped;
}

std::vector<size_t> SweepRun::ranked() const {
  std::vector<size_t> order(states_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const TrialState &x = states_[a], &y = states_[b];
    if (!x.best || !y.best) return x.best.has_value() && !y.best;
    return x.least_is_best ? *x.best < *y.best : *x.best > *y.best;
  });
  return order;
}

/// Behind a trial, unless the comparisons take more than a fifth of the time; `last`: in any case.
void SweepRun::write_comparison(bool last) {
  const std::scoped_lock lock(report_mutex_);
  const auto begin = Clock::now();
  if (!last && begin < next_comparison_) return;
  std::vector<size_t> chosen;
  {
    const std::scoped_lock states_lock(mutex_);
    chosen = ranked();
  }
  std::erase_if(chosen, [&](size_t trial) { return !is_run_folder(folder_of(trial)); });
  const size_t all = chosen.size();
  if (all > kMostCompared) chosen.resize(kMostCompared);
  std::ranges::sort(chosen);
  std::vector<RunFiles> runs;
  for (const size_t trial : chosen) {
    try {
      runs.push_back(read_run(folder_of(trial)));
    } catch (const Error&) {
      // The report is of those that can be read; the table names the others.
    }
  }
  if (runs.empty()) return;
  PageContent content = comparison_content(runs);
  if (all > kMostCompared)
    content.head +=
        text("<p class=\"note\">The best ", kMostCompared, " of ", all, " trials</p>\n");
  write_text_atomically(file_of_run(folder_, kRunReportFile), page(content));
  const auto end = Clock::now();
  next_comparison_ = end + 4 * (end - begin);
}

}  // namespace crema
