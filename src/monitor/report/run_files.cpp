#include "monitor/report/run_files.hpp"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "monitor/report/display_line.hpp"
#include "monitor/run_folder.hpp"
#include "monitor/run_lines.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

/// The curves of displays; epoch and time are of tests, too.
std::array<Curve*, 10> display_curves(RunFiles& run) {
  return {&run.loss,      &run.smoothed_loss, &run.rate,   &run.images_per_second,
          &run.data_wait, &run.gradient_norm, &run.memory, &run.seconds,
          &run.epoch,     &run.time};
}

/// The greatest iteration that a record speaks of.
int last_iteration(RunFiles& run) {
  int last = 0;
  const auto look = [&](const Curve& curve) {
    if (!curve.empty()) last = std::max(last, curve.back().iteration);
  };
  for (const Curve* curve : display_curves(run)) look(*curve);
  for (const auto& [name, curve] : run.outputs) look(curve);
  for (const auto& [net, test] : run.tests) {
    look(test.loss);
    for (const auto& [name, curve] : test.outputs) look(curve);
  }
  for (const RunRecord& event : run.events)
    if (event.kind() != RunRecord::NOTE) last = std::max(last, event.iteration());
  return last;
}

/// Takes out what the record makes void.
void go_back(RunFiles& run, const RunRecord& later) {
  const auto cut = [&](Curve& curve, RunRecord::Kind kind) {
    while (!curve.empty() && makes_void(later, kind, curve.back().iteration)) curve.pop_back();
  };
  for (Curve* curve : display_curves(run)) cut(*curve, RunRecord::TRAIN);
  for (auto& [name, curve] : run.outputs) cut(curve, RunRecord::TRAIN);
  for (auto& [net, test] : run.tests) {
    cut(test.loss, RunRecord::TEST);
    for (auto& [name, curve] : test.outputs) cut(curve, RunRecord::TEST);
    std::erase_if(test.outputs, [](const auto& output) { return output.second.empty(); });
  }
  std::erase_if(run.outputs, [](const auto& output) { return output.second.empty(); });
  std::erase_if(run.tests, [](const auto& test) {
    return test.second.loss.empty() && test.second.outputs.empty();
  });
  std::erase_if(run.events, [&](const RunRecord& event) {
    return makes_void(later, event.kind(), event.iteration());
  });
}

/// A later value of an iteration takes the place of the one before. Iterations never fall: what
/// lies behind a point that comes later is of a part of the run that was done again.
void add_point(Curve& curve, int iteration, double value) {
  while (!curve.empty() && curve.back().iteration >= iteration) curve.pop_back();
  curve.push_back({iteration, value});
}

void add_clock(RunFiles& run, int iteration, const std::optional<double>& epoch,
               const std::optional<double>& time, const std::optional<double>& wall) {
  if (epoch) add_point(run.epoch, iteration, *epoch);
  if (time) add_point(run.time, iteration, *time);
  if (wall) run.last_wall = *wall;
}

void add_display(RunFiles& run, const DisplayLine& line) {
  const std::pair<const std::optional<double>*, Curve*> fields[] = {
      {&line.loss, &run.loss},           {&line.smoothed_loss, &run.smoothed_loss},
      {&line.rate, &run.rate},           {&line.images_per_second, &run.images_per_second},
      {&line.data_wait, &run.data_wait}, {&line.gradient_norm, &run.gradient_norm},
      {&line.memory, &run.memory},       {&line.seconds, &run.seconds}};
  for (const auto& [value, curve] : fields) {
    if (*value) add_point(*curve, line.iteration, **value);
  }
  for (const auto& [name, value] : line.outputs)
    add_point(run.outputs[name], line.iteration, value);
  add_clock(run, line.iteration, line.epoch, line.time, line.wall);
}

template <class Value>
std::optional<double> given(bool has, Value value) {
  return has ? std::optional<double>(static_cast<double>(value)) : std::nullopt;
}

DisplayLine display_of(const RunRecord& record) {
  DisplayLine line;
  line.iteration = record.iteration();
  line.epoch = given(record.has_epoch(), record.epoch());
  line.time = given(record.has_time(), record.time());
  line.wall = given(record.has_wall(), record.wall());
  line.loss = given(record.has_loss(), record.loss());
  line.smoothed_loss = given(record.has_smoothed_loss(), record.smoothed_loss());
  line.rate = given(record.has_rate(), record.rate());
  line.images_per_second = given(record.has_images_per_second(), record.images_per_second());
  line.data_wait = given(record.has_data_wait(), record.data_wait());
  line.gradient_norm = given(record.has_gradient_norm(), record.gradient_norm());
  line.memory = given(record.has_memory(), record.memory());
  line.seconds = given(record.has_seconds(), record.seconds());
  line.outputs.assign(record.outputs().begin(), record.outputs().end());
  return line;
}

void add_test(RunFiles& run, const RunRecord& record) {
  TestCurves& test = run.tests[record.net()];
  if (record.has_test_loss()) add_point(test.loss, record.iteration(), record.test_loss());
  for (const auto& [name, value] : record.outputs())
    add_point(test.outputs[name], record.iteration(), value);
}

void add_record(RunFiles& run, RunRecord record) {
  if (record.kind() == RunRecord::TRAIN) {
    add_display(run, display_of(record));
    return;
  }
  if (goes_back(record)) go_back(run, record);
  if (record.kind() == RunRecord::TEST) {
    // A run that goes on tests the iteration of its snapshot again.
    std::erase_if(run.events, [&](const RunRecord& event) {
      return event.kind() == RunRecord::TEST && event.iteration() == record.iteration() &&
             event.net() == record.net();
    });
    add_test(run, record);
    add_clock(run, record.iteration(), given(record.has_epoch(), record.epoch()),
              given(record.has_time(), record.time()), std::nullopt);
  }
  if (record.has_wall()) run.last_wall = record.wall();
  run.events.push_back(std::move(record));
}

/// Whether the counts fit the edges, which drawings rely on.
void check_histogram(const ValueHistogram& histogram) {
  if (histogram.edges_size() != histogram.counts_size() + 1 &&
      !(histogram.edges_size() == 0 && histogram.counts_size() == 0))
    throw Error("a histogram has ", histogram.counts_size(), " counts and ", histogram.edges_size(),
                " edges; it needs one edge more than counts");
}

/// By parameter, in the order of the first ones.
std::vector<ValueHistogram> grouped(const std::vector<ValueHistogram>& all, int last) {
  std::map<std::tuple<std::string, int, bool>, size_t> places;
  std::vector<std::vector<const ValueHistogram*>> groups;
  for (const ValueHistogram& one : all) {
    if (one.iteration() > last) continue;
    const auto [place, is_new] =
        places.try_emplace({one.layer(), one.parameter(), one.gradient()}, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&one);
  }
  std::vector<ValueHistogram> made;
  for (const auto& group : groups) {
    for (const ValueHistogram* one : group) made.push_back(*one);
  }
  return made;
}

template <class Message>
std::optional<Message> read_json_file(RunFiles& run, const char* name) {
  const std::optional<std::string> json = text_of_file((fs::path(run.folder) / name).string());
  if (!json) return std::nullopt;
  try {
    Message message;
    parse_json(*json, message);
    return message;
  } catch (const Error& error) {
    run.warnings.push_back(text(name, " is damaged and left out: ", printable(error.what())));
    return std::nullopt;
  }
}

}  // namespace

RunOutcome RunFiles::state() const {
  const RunRecord* last = end();
  if (last == nullptr) return RunOutcome::unknown;
  switch (last->reason()) {
    case RunRecord::FINISHED:
      return RunOutcome::finished;
    case RunRecord::STOPPED:
      return RunOutcome::stopped;
    case RunRecord::EARLY:
      return RunOutcome::early;
    case RunRecord::TIME_OVER:
      return RunOutcome::time_over;
    case RunRecord::FAILED:
      return RunOutcome::failed;
  }
  return RunOutcome::unknown;
}

const RunRecord* RunFiles::end() const {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->kind() == RunRecord::END) return &*event;
  }
  return nullptr;
}

const RunRecord* RunFiles::best() const {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->kind() == RunRecord::TEST && event->is_best()) return &*event;
  }
  return nullptr;
}

void parse_json(const std::string& json, google::protobuf::Message& out) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a later version
  const auto status = google::protobuf::util::JsonStringToMessage(json, &out, options);
  if (!status.ok()) throw Error(std::string(status.message()));
}

RunReader::RunReader(std::string folder) { run_.folder = std::move(folder); }

/// Adds the lines that have come. What body(line) throws is a warning.
template <class Body>
void RunReader::read_new(Lines& from, std::string_view name, const Body& body) {
  constexpr int kMostNamed = 5;
  read_lines(file_of_run(run_.folder, name), from.place, [&](std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    try {
      body(line);
    } catch (const Error& error) {
      if (++from.damaged <= kMostNamed)
        from.warnings.push_back(text(name, ", line ", from.place.lines,
                                     " is damaged and left out: ", printable(error.what())));
    }
  });
  run_.warnings.insert(run_.warnings.end(), from.warnings.begin(), from.warnings.end());
  if (from.damaged > kMostNamed)
    run_.warnings.push_back(text(name, ": ", from.damaged - kMostNamed, " more lines are damaged"));
}

void RunReader::read_metrics() {
  if (is_another_file(file_of_run(run_.folder, kMetricsFile), metrics_.place)) {
    metrics_ = {};
    RunFiles none;
    none.folder = run_.folder;
    none.warnings = std::move(run_.warnings);
    none.info = std::move(run_.info);
    run_ = std::move(none);
  }
  DisplayLine display;
  read_new(metrics_, kMetricsFile, [&](std::string_view line) {
    if (read_display(line, display)) {
      add_display(run_, display);
      return;
    }
    RunRecord record;
    parse_json(std::string(line), record);
    if (!record.has_kind()) throw Error("the record has no kind");
    if (record.iteration() < 0) throw Error("iteration ", record.iteration(), " is negative");
    add_record(run_, std::move(record));
  });
  run_.iterations = last_iteration(run_);
}

void RunReader::read_histograms() {
  if (is_another_file(file_of_run(run_.folder, kHistogramsFile), histograms_.place)) {
    histograms_ = {};
    recorded_.clear();
  }
  read_new(histograms_, kHistogramsFile, [&](std::string_view line) {
    ValueHistogram histogram;
    parse_json(std::string(line), histogram);
    check_histogram(histogram);
    add_histogram(recorded_, std::move(histogram));
  });
  run_.histograms = grouped(recorded_, run_.iterations);
}

RunFiles& RunReader::read() {
  const std::string folder = run_.folder;
  std::error_code failed;
  if (!fs::is_directory(folder, failed))
    throw Error(printable(folder),
                ": there is no such folder; name the folder of a run, as runs/lenet-1");
  const std::optional<std::string> info = text_of_file((fs::path(folder) / "run.json").string());
  if (!info)
    throw Error(printable(folder),
                " is no folder of a run: it has no run.json that can be read; `crema train` makes "
                "such folders in runs/");
  run_.warnings.clear();
  run_.info.Clear();
  try {
    parse_json(*info, run_.info);
  } catch (const Error& error) {
    throw Error((fs::path(folder) / "run.json").string(), " is damaged: ", error.what());
  }
  if (run_.info.name().empty()) {
    const fs::path path = fs::absolute(folder).lexically_normal();
    run_.info.set_name((path.has_filename() ? path : path.parent_path()).filename().string());
  }
  read_metrics();
  read_histograms();
  run_.is_alive = is_run_alive(folder);
  run_.evaluation = read_json_file<Evaluation>(run_, "evaluation.json");
  run_.layers = read_json_file<LayerTable>(run_, "layers.json");
  const auto file = [&](const std::string& name) {
    return text_of_file((fs::path(folder) / name).string());
  };
  run_.solver_text = file("solver.prototxt").value_or("");
  run_.net_text = file("net.prototxt").value_or("");
  run_.test_net_texts.clear();
  for (int k = 0;; ++k) {
    const auto net = file(text("test_net_", k, ".prototxt"));
    if (!net) break;
    run_.test_net_texts.push_back(*net);
  }
  return run_;
}

RunFiles read_run(const std::string& folder) {
  RunReader reader(folder);
  return std::move(reader.read());
}

}  // namespace crema
