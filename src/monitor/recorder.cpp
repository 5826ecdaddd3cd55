#include "monitor/recorder.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/data_source.hpp"
#include "core/less_is_better.hpp"
#include "core/utf8.hpp"
#include "model/text_file.hpp"
#include "model/text_format.hpp"
#include "monitor/append_file.hpp"
#include "monitor/event_file.hpp"
#include "monitor/events.hpp"
#include "monitor/histograms.hpp"
#include "monitor/own_weights.hpp"
#include "monitor/png.hpp"
#include "monitor/resume.hpp"
#include "monitor/run_folder.hpp"
#include "monitor/settings_list.hpp"
#include "monitor/snapshot_links.hpp"
#include "monitor/test_pictures.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

/// Outputs of more values are no curves.
constexpr int64_t kMostValues = 64;
/// Of the time of training, what histograms and pictures may take.
constexpr double kMostCost = 0.001;
/// Events are an addition to metrics.jsonl, and images their largest part: so many a run.
constexpr int kMostPictures = 60;
/// What reports at snapshots may take of the time of training, and what the first one is taken to
/// take, in seconds: who trains for some seconds has that of the end.
constexpr double kMostReportCost = 0.001, kFirstReport = 0.01;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The largest memory of the process so far, in bytes.
double most_memory() {
  rusage used{};
  return ::getrusage(RUSAGE_SELF, &used) == 0 ? 1024.0 * static_cast<double>(used.ru_maxrss) : 0;
}

std::string value_name(const std::string& output, int64_t index) {
  const std::string name = as_utf8(output);
  return index == 0 ? name : text(name, "[", index, "]");
}

/// The name of the link to the best weights.
std::string best_link(const std::string& weights) {
  return weights.ends_with(".h5") ? "best.caffemodel.h5" : "best.caffemodel";
}

/// The solver as it runs, with the nets of the folder: it trains the same again.
SolverParameter resolved_solver(const SolverParameter& param, const std::string& folder,
                                size_t tests) {
  SolverParameter solver = param;
  solver.clear_net();
  solver.clear_net_param();
  solver.clear_train_net_param();
  solver.clear_test_net_param();
  solver.clear_test_net();
  solver.clear_train_state();
  solver.clear_test_state();
  solver.set_train_net(file_of_run(folder, kRunNetFile));
  for (size_t n = 0; n < tests; ++n)
    solver.add_test_net(file_of_run(folder, text("test_net_", n, ".prototxt")));
  return solver;
}

}  // namespace

struct Recorder::State {
  State(Solver& of, const SolverParameter& param, const RunInfo& run, const std::string& path,
        const RecorderOptions& how)
      : solver(of),
        info(run),
        folder(path),
        options(how),
        own_weights(path),
        display(param.display() > 0 ? param.display() : std::max(1, of.max_iterations() / 100)),
        iter_size(param.iter_size()),
        has_best(!param.snapshot_best().empty()) {
    for (const Layer* layer : of.net().layers())
      if (const DataSource* source = layer->data_source()) sources.push_back(source);
  }

  Solver& solver;
  RunInfo info;
  std::string folder;
  RecorderOptions options;
  OwnWeights own_weights;
  int display, iter_size;
  std::vector<const DataSource*> sources;  // of the training net
  bool has_best;                           // the solver says which test is the best

  AppendFile metrics, histograms;
  EventFile events;
  bool warned = false, attached = false;
  Clock::time_point start = Clock::now();
  double time_before = 0;                              // of earlier parts of the run
  double cost = 0;                                     // seconds for histograms and pictures
  double report_cost = 0, last_report = kFirstReport;  // seconds for reports at snapshots
  int pictures = 0;
  int next_pictures = 0;                                       // iteration
  int last_histograms = -1, next_histograms = 0;               // iterations
  double loss_scale = 1;                                       // of the last iteration
  double seconds = 0, waited = 0, images = 0, iterations = 0;  // since the last TRAIN
  std::string last_weights, best_weights, linked_best;
  int last_snapshot = -1;
  std::set<int> recorded_snapshots;  // iterations
  int done = 0;                      // iterations
  std::set<int> tested_nets;         // of this iteration
  std::optional<double> best_value;  // of tests of snapshots, without snapshot_best
  std::function<void(const IterationReport&)> iteration_before;
  std::function<void(const TestReport&)> test_before;
  std::function<void(const std::string&)> snapshot_before, note_before;

  double time() const { return time_before + seconds_since(start); }
  bool may_spend() const { return cost <= kMostCost * time(); }
  /// Of a run of many records a report takes seconds.
  bool may_report() const { return report_cost + last_report <= kMostReportCost * time(); }

  void warn(const std::string& what) {
    if (std::exchange(warned, true)) return;
    solver.net().context().log(Severity::warning,
                               text("the folder of the run '", folder,
                                    "' lacks something from now on: ", what, "; training goes on"));
  }
  void check(std::string_view file, int reason) {
    if (reason != 0) warn(text("cannot write to ", file, ": ", std::strerror(reason)));
  }
  /// What fails in `body` is said once.
  template <class Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  void put(int64_t step, tensorboard::Event event) {
    check(kEventsPrefix, events.append(step, event));
  }
  void put(RunRecord& record) {
    record.set_time(time());
    record.set_wall(wall_time());
    if (!record.has_epoch() && info.iterations_of_epoch() > 0)
      record.set_epoch(record.iteration() / info.iterations_of_epoch());
    check(kMetricsFile, metrics.append(json_line(record) + '\n'));
    if (record.kind() == RunRecord::TRAIN || record.kind() == RunRecord::TEST)
      put(record.iteration(), scalar_event(record));
  }
  RunRecord record_of(RunRecord::Kind kind) const {
    RunRecord record;
    record.set_kind(kind);
    record.set_iteration(solver.iteration());
    return record;
  }

  void open();
  /// Removes what is void behind the iteration. Returns the time of training until there.
  double go_on_from(int iteration);
  /// Where the solver went back to that many iterations by itself, as with on_nan: ROLLBACK.
  void look_back(int iteration);
  void write_settings(const SolverParameter& param);
  void begin();
  /// Batches of the iteration.
  double passes_of(const IterationReport& report);
  void iterated(const IterationReport& report);
  void record_histograms(int iteration);
  void tested(const TestReport& report);
  void record_pictures(const TestReport& report);
  void remember_snapshot(int iteration, const std::string& weights);
  void remember(const KeptRecords& kept);
  void compare_snapshot(const RunRecord& test);
  void saved(const std::string& state);
  void record_weights(bool at_end) {
    for (RunRecord& record : own_weights.written(solver, at_end)) put(record);
  }
  void link_best();
};

void Recorder::State::open() {
  const std::string path = file_of_run(folder, kMetricsFile);
  if (const int reason = metrics.open(path, true); reason != 0)
    throw Error("cannot write '", path, "': ", std::strerror(reason)).about(path);
  if (!metrics.lock())
    throw Error("another process is writing the run '", folder,
                "'; wait for its end, or name another folder")
        .about(folder);
  check(kHistogramsFile, histograms.open(file_of_run(folder, kHistogramsFile), true));
  check(kEventsPrefix, events.open(folder));
  done = solver.iteration();
  own_weights.begin(done);
  if (options.resumed) time_before = go_on_from(done);
}

double Recorder::State::go_on_from(int iteration) {
  KeptRecords kept;
  guarded([&] { kept = drop_void(folder, iteration, metrics, histograms); });
  put(iteration, start_event());
  for (const RunRecord& record : kept.at_once) put(record.iteration(), scalar_event(record));
  recorded_snapshots.clear();
  for (const RunRecord& record : kept.milestones)
    if (record.kind() == RunRecord::SNAPSHOT) recorded_snapshots.insert(record.iteration());
  if (!has_best) guarded([&] { remember(kept); });
  return kept.time;
}

void Recorder::State::look_back(int iteration) {
  if (iteration >= done) return;
  done = iteration;
  tested_nets.clear();
  last_histograms = std::min(last_histograms, iteration);
  next_histograms = iteration;
  seconds = waited = images = iterations = 0;
  go_on_from(iteration);
  RunRecord record = record_of(RunRecord::RESUME);
  record.set_iteration(iteration);
  put(record);
}

void Recorder::State::write_settings(const SolverParameter& param) {
  guarded([&] { write_run_info(folder, info); });
  guarded([&] {
    const auto& tests = solver.test_nets();
    write_text_unsynced(file_of_run(folder, kRunSolverFile),
                        prototxt_of(resolved_solver(param, folder, tests.size())));
    write_text_unsynced(file_of_run(folder, kRunNetFile), prototxt_of(resolved_net(solver.net())));
    for (size_t n = 0; n < tests.size(); ++n)
      write_text_unsynced(file_of_run(folder, text("test_net_", n, ".prototxt")),
                          prototxt_of(resolved_net(*tests[n])));
  });
}

void Recorder::State::begin() {
  RunRecord record = record_of(options.resumed ? RunRecord::RESUME : RunRecord::START);
  put(record);
  const int step = solver.iteration();
  if (!options.resumed) put(step, graph_event(solver.net()));
  std::vector<std::string> outputs;
  for (size_t n = 0; n < solver.test_nets().size(); ++n)
    for (const std::string& output : solver.test_nets()[n]->outputs())
      outputs.push_back(test_tag(static_cast<int>(n)) + "/" + output);
  put(step, experiment_event(info, outputs));
  put(step, session_event(info));
}

double Recorder::State::passes_of(const IterationReport& report) {
  // on_oom: HALVE_BATCH changes iter_size.
  int64_t batch = 0;
  for (const DataSource* source : sources) batch = std::max(batch, source->records_per_batch());
  return batch > 0 ? static_cast<double>(report.images) / static_cast<double>(batch) : iter_size;
}

void Recorder::State::iterated(const IterationReport& report) {
  look_back(report.iteration);
  done = report.iteration + 1;
  tested_nets.clear();
  record_weights(false);
  seconds += report.seconds;
  waited += report.data_wait;
  images += static_cast<double>(report.images);
  ++iterations;
  const double scale = std::exchange(loss_scale, solver.loss_scale()) * passes_of(report);
  const bool is_last = report.iteration + 1 == report.max_iterations;
  if (report.iteration % display != 0 && !is_last) return;
  RunRecord record = record_of(RunRecord::TRAIN);
  record.set_iteration(report.iteration + 1);
  record.set_loss(report.loss);
  record.set_smoothed_loss(report.smoothed_loss);
  record.set_rate(report.rate);
  record.set_seconds(seconds / iterations);
  if (images > 0 && seconds > 0) {
    record.set_images_per_second(images / seconds);
    record.set_data_wait(std::min(waited / seconds, 1.0));
  }
  record.set_memory(most_memory());
  seconds = waited = images = iterations = 0;
  Net& net = solver.net();
  // On a device the next iterations may be under way.
  const bool is_present = solver.iteration() == report.iteration + 1;
  if (is_present) {
    for (const std::string& name : net.outputs()) {
      const Tensor values = net.output(name);
      if (values.count() > kMostValues) continue;
      for (int64_t i = 0; i < values.count(); ++i)
        (*record.mutable_outputs())[value_name(name, i)] = values.at(i);
    }
    if (!net.context().on_gpu() || may_spend()) {
      const auto began = Clock::now();
      record.set_gradient_norm(gradient_norm(net.params(), scale));
      if (net.context().on_gpu()) cost += seconds_since(began);
    }
  }
  put(record);
  const bool has_histograms_due = report.iteration + 1 >= next_histograms && may_spend();
  if (is_present && (last_histograms < 0 || has_histograms_due))
    record_histograms(report.iteration + 1);
  link_best();
}

void Recorder::State::record_histograms(int iteration) {
  if (last_histograms == iteration) return;
  last_histograms = iteration;
  next_histograms = next_of_histograms(iteration);
  const auto began = Clock::now();
  ParameterArena& arena = solver.net().params();
  arena.settle_gradients();
  std::vector<ValueHistogram> all;
  std::string lines;
  for (const auto& segment : arena.segments()) {
    for (const bool gradient : {false, true}) {
      if (gradient && !segment.parameter->needs_gradient) continue;
      ValueHistogram one =
          histogram_of(gradient ? arena.diff() : arena.data(), segment.offset, segment.count);
      one.set_iteration(iteration);
      one.set_layer(as_utf8(segment.layer));
      one.set_parameter(segment.index);
      one.set_gradient(gradient);
      lines += histogram_line(one) + '\n';
      all.push_back(std::move(one));
    }
  }
  check(kHistogramsFile, histograms.append(lines));
  put(iteration, histogram_of_run(all));
  cost += seconds_since(began);
}

void Recorder::State::tested(const TestReport& report) {
  // A test of one iteration that comes again takes the place of the one before.
  if (tested_nets.count(report.net) > 0) done = report.iteration + 1;
  look_back(report.iteration);
  tested_nets.insert(report.net);
  RunRecord record = record_of(RunRecord::TEST);
  record.set_iteration(report.iteration);
  record.set_net(report.net);
  record.set_test_loss(report.loss);
  if (has_best) record.set_is_best(report.is_best);
  std::map<std::string, int64_t> values;
  for (const auto& output : report.outputs) ++values[output.name];
  for (const auto& output : report.outputs) {
    if (values[output.name] <= kMostValues)
      (*record.mutable_outputs())[value_name(output.name, output.index)] = output.value;
  }
  for (const auto& one : report.classes) {
    RunRecord::Class& added = *record.add_classes();
    added.set_output(as_utf8(one.output));
    added.set_label(static_cast<int32_t>(one.label));
    if (!one.name.empty()) added.set_name(as_utf8(one.name));
    added.set_average_precision(one.average_precision);
  }
  put(record);
  own_weights.tested();
  compare_snapshot(record);
  record_pictures(report);
}

void Recorder::State::record_pictures(const TestReport& report) {
  if (report.iteration < next_pictures || (pictures > 0 && !may_spend())) return;
  const auto began = Clock::now();
  const auto found = pictures_of_test(*solver.test_nets()[static_cast<size_t>(report.net)],
                                      {info.class_names().begin(), info.class_names().end()});
  if (found) {
    tensorboard::Event event;
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(test_tag(report.net) + "_images");
    value.mutable_image()->set_height(found->height);
    value.mutable_image()->set_width(found->width);
    value.mutable_image()->set_colorspace(3);
    value.mutable_image()->set_encoded_image_string(
        png_of_pixels(found->pixels, found->width, found->height, 3));
    if (!found->table.empty())
      add_text_value(test_tag(report.net) + "_predictions", found->table, event);
    put(report.iteration, std::move(event));
    ++pictures;
    // The first tests one after the other, then less often.
    if (report.net + 1 == static_cast<int>(solver.test_nets().size()) &&
        pictures > kMostPictures / 6)
      next_pictures = report.iteration + 1 + report.iteration / (kMostPictures / 6);
  }
  cost += seconds_since(began);
}

void Recorder::State::remember_snapshot(int iteration, const std::string& weights) {
  last_snapshot = iteration;
  last_weights = weights;
  std::error_code unknown;
  if (has_best || best_weights.empty() || std::filesystem::exists(best_weights, unknown)) return;
  // snapshot_keep has removed it: what is tested from now on takes its place.
  best_value.reset();
  unlink_snapshot(folder, best_link(best_weights));
  best_weights.clear();
  linked_best.clear();
}

/// What the part of the run before was the best by.
void Recorder::State::remember(const KeptRecords& kept) {
  best_value.reset();
  best_weights.clear();
  linked_best.clear();
  last_snapshot = -1;
  for (const RunRecord& record : kept.milestones) {
    if (record.kind() == RunRecord::TEST) {
      compare_snapshot(record);
      continue;
    }
    const std::string within = file_of_run(folder, record.weights());
    std::error_code unknown;
    const bool is_within = std::filesystem::exists(within, unknown);
    remember_snapshot(record.iteration(), is_within ? within : record.weights());
  }
}

/// Without snapshot_best: the best snapshot is the one whose own test was the best, by the first
/// output of test net 0 that is no loss.
void Recorder::State::compare_snapshot(const RunRecord& test) {
  if (has_best || test.net() != 0 || test.iteration() != last_snapshot) return;
  const Net& net = *solver.test_nets().at(0);
  const auto find = [&](bool losses) -> std::optional<std::pair<double, bool>> {
    for (const std::string& name : net.outputs()) {
      const float weight = net.loss_weight(name);
      const auto found = test.outputs().find(value_name(name, 0));
      if ((weight != 0) == losses && found != test.outputs().end())
        return std::pair(found->second, less_is_better(name, weight));
    }
    return {};
  };
  auto watched = find(false);
  if (!watched) watched = find(true);
  if (!watched || !std::isfinite(watched->first)) return;
  const auto [value, is_least] = *watched;
  if (best_value && (is_least ? value >= *best_value : value <= *best_value)) return;
  best_value = value;
  best_weights = last_weights;
  link_best();
}

void Recorder::State::saved(const std::string& path) {
  look_back(solver.iteration());  // to a snapshot that is written anew
  remember_snapshot(solver.iteration(), weights_beside(path));
  const std::string format = path.ends_with(".h5") ? ".h5" : "";
  if (recorded_snapshots.insert(solver.iteration()).second) {
    RunRecord record = record_of(RunRecord::SNAPSHOT);
    record.set_state(as_utf8(path_in_run(folder, path)));
    record.set_weights(as_utf8(path_in_run(folder, last_weights)));
    own_weights.add(last_weights, record);
    put(record);
  }
  link_snapshot(folder, "last.solverstate" + format, path);
  link_snapshot(folder, "last.caffemodel" + format, last_weights);
}

void Recorder::State::link_best() {
  if (has_best) {
    const auto best = solver.best();
    if (best) best_weights = best->file;
  }
  if (best_weights.empty() || best_weights == linked_best) return;
  linked_best = best_weights;
  link_snapshot(folder, best_link(best_weights), best_weights);
}

Recorder::Recorder(Solver& solver, const SolverParameter& param, const RunInfo& info,
                   const std::string& folder, RecorderOptions options)
    : state_(std::make_unique<State>(solver, param, info, folder, options)) {
  State& state = *state_;
  const auto path = std::filesystem::path(folder).lexically_normal();
  state.info.set_name((path.has_filename() ? path : path.parent_path()).filename().string());
  state.info.set_started(wall_time());
  if (options.resumed) {
    state.guarded([&] {
      const RunInfo before = read_run_info(folder);
      state.info.set_started(before.started());
      if (before.has_parent() && !info.has_parent()) state.info.set_parent(before.parent());
    });
  }
  state.open();
  state.write_settings(param);
  state.loss_scale = solver.loss_scale();
  state.start = Clock::now();
  state.guarded([&] { state.begin(); });
}

Recorder::~Recorder() { detach(); }

const std::string& Recorder::folder() const { return state_->folder; }

void Recorder::attach() {
  State& state = *state_;
  if (std::exchange(state.attached, true)) return;
  Solver& solver = state.solver;
  solver.set_run_folder(state.folder);
  state.iteration_before = solver.on_iteration;
  state.test_before = solver.on_test;
  state.snapshot_before = solver.on_snapshot;
  state.note_before = solver.on_note;
  solver.on_iteration = [&state](const IterationReport& report) {
    if (state.iteration_before) state.iteration_before(report);
    state.guarded([&] { state.iterated(report); });
  };
  solver.on_test = [&state](const TestReport& report) {
    if (state.test_before) state.test_before(report);
    state.guarded([&] { state.tested(report); });
  };
  solver.on_snapshot = [this, &state](const std::string& path) {
    if (state.snapshot_before) state.snapshot_before(path);
    state.guarded([&] { state.saved(path); });
    if (!on_folder_changed || !state.may_report()) return;
    const auto began = Clock::now();
    state.guarded(on_folder_changed);
    state.last_report = seconds_since(began);
    state.report_cost += state.last_report;
  };
  solver.on_note = [this, &state](const std::string& text) {
    if (state.note_before) state.note_before(text);
    note(text);
  };
}

void Recorder::detach() {
  State& state = *state_;
  if (!std::exchange(state.attached, false)) return;
  state.solver.on_iteration = state.iteration_before;
  state.solver.on_test = state.test_before;
  state.solver.on_snapshot = state.snapshot_before;
  state.solver.on_note = state.note_before;
}

void Recorder::note(const std::string& text) {
  state_->guarded([&] {
    RunRecord record = state_->record_of(RunRecord::NOTE);
    record.set_text(as_utf8(text));
    state_->put(record);
  });
}

RunRecord::Reason reason_of(SolverEnd end) {
  switch (end) {
    case SolverEnd::finished:
      return RunRecord::FINISHED;
    case SolverEnd::stopped:
      return RunRecord::STOPPED;
    case SolverEnd::early:
      return RunRecord::EARLY;
    case SolverEnd::time_over:
      return RunRecord::TIME_OVER;
    case SolverEnd::none:
      break;
  }
  return RunRecord::FAILED;
}

void Recorder::end(RunRecord::Reason reason, const std::string& text) {
  State& state = *state_;
  if (reason != RunRecord::FAILED) {
    state.guarded([&] { state.record_histograms(state.solver.iteration()); });
    state.guarded([&] { state.link_best(); });
  }
  state.guarded([&] { state.record_weights(true); });
  state.guarded([&] {
    RunRecord record = state.record_of(RunRecord::END);
    record.set_reason(reason);
    if (!text.empty()) record.set_text(as_utf8(text));
    state.put(record);
    state.put(state.solver.iteration(), session_end_event(reason != RunRecord::FAILED));
  });
  if (on_folder_changed) state.guarded(on_folder_changed);
}

}  // namespace crema
