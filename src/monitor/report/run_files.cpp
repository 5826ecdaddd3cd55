#include "monitor/report/run_files.hpp"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <tuple>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "monitor/report/display_line.hpp"
#include "monitor/run_folder.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

/// A text of lines that are objects of JSON. Calls read(line, number) for each; what it throws is a
/// warning, but for an unfinished last line.
template <class Read>
void read_lines(const std::string& folder, const char* name, std::vector<std::string>& warnings,
                const Read& read) {
  std::error_code unknown;
  if (!fs::is_regular_file(fs::path(folder) / name, unknown)) return;  // a device has no end
  std::ifstream in(fs::path(folder) / name, std::ios::binary);
  constexpr int kMostNamed = 5;
  int line_number = 0, damaged = 0;
  for (std::string line; std::getline(in, line);) {
    const bool is_unfinished = in.eof();
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      read(line);
    } catch (const Error& error) {
      if (is_unfinished) break;  // the run was killed while it wrote
      if (++damaged <= kMostNamed)
        warnings.push_back(text(name, ", line ", line_number,
                                " is damaged and left out: ", printable(error.what())));
    }
  }
  if (damaged > kMostNamed)
    warnings.push_back(text(name, ": ", damaged - kMostNamed, " more lines are damaged"));
}

void cut_behind(Curve& curve, int iteration) {
  while (!curve.empty() && curve.back().iteration > iteration) curve.pop_back();
}

template <class Curves>
void for_all_curves(RunFiles& run, const Curves& each) {
  for (Curve* curve :
       {&run.loss, &run.smoothed_loss, &run.rate, &run.images_per_second, &run.data_wait,
        &run.gradient_norm, &run.memory, &run.seconds, &run.epoch, &run.time})
    each(*curve);
  for (auto& [name, curve] : run.outputs) each(curve);
  for (auto& [net, test] : run.tests) {
    each(test.loss);
    for (auto& [name, curve] : test.outputs) each(curve);
  }
}

/// Makes void what was said of iterations behind this one.
void go_back(RunFiles& run, int iteration) {
  for_all_curves(run, [&](Curve& curve) { cut_behind(curve, iteration); });
  std::erase_if(run.events, [&](const RunRecord& event) {
    return event.kind() == RunRecord::END ||
           (event.kind() != RunRecord::RESUME && event.kind() != RunRecord::START &&
            event.kind() != RunRecord::NOTE && event.iteration() > iteration);
  });
}

void start_anew(RunFiles& run) {
  for_all_curves(run, [](Curve& curve) { curve.clear(); });
  run.outputs.clear();
  run.tests.clear();
  run.events.clear();
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
  if (record.kind() == RunRecord::START) start_anew(run);
  if (record.kind() == RunRecord::RESUME) go_back(run, record.iteration());
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

void read_metrics(RunFiles& run) {
  DisplayLine display;
  read_lines(run.folder, "metrics.jsonl", run.warnings, [&](std::string_view line) {
    if (read_display(line, display)) {
      add_display(run, display);
      return;
    }
    RunRecord record;
    parse_json(std::string(line), record);
    if (!record.has_kind()) throw Error("the record has no kind");
    if (record.iteration() < 0) throw Error("iteration ", record.iteration(), " is negative");
    add_record(run, std::move(record));
  });
  for_all_curves(run, [&](Curve& curve) {
    if (!curve.empty()) run.iterations = std::max(run.iterations, curve.back().iteration);
  });
  for (const RunRecord& event : run.events)
    run.iterations = std::max(run.iterations, event.iteration());
}

/// Whether the counts fit the edges, which drawings rely on.
void check_histogram(const ValueHistogram& histogram) {
  if (histogram.edges_size() != histogram.counts_size() + 1 &&
      !(histogram.edges_size() == 0 && histogram.counts_size() == 0))
    throw Error("a histogram has ", histogram.counts_size(), " counts and ", histogram.edges_size(),
                " edges; it needs one edge more than counts");
}

void read_histograms(RunFiles& run) {
  std::map<std::tuple<std::string, int, bool>, std::vector<ValueHistogram>> by_parameter;
  std::vector<std::vector<ValueHistogram>*> order;
  read_lines(run.folder, "histograms.jsonl", run.warnings, [&](std::string_view line) {
    ValueHistogram histogram;
    parse_json(std::string(line), histogram);
    check_histogram(histogram);
    std::vector<ValueHistogram>& all =
        by_parameter[{histogram.layer(), histogram.parameter(), histogram.gradient()}];
    if (all.empty()) order.push_back(&all);
    // Those of a part that was done again come again.
    while (!all.empty() && all.back().iteration() >= histogram.iteration()) all.pop_back();
    all.push_back(std::move(histogram));
  });
  for (std::vector<ValueHistogram>* all : order) {
    for (ValueHistogram& one : *all) {
      if (one.iteration() <= run.iterations) run.histograms.push_back(std::move(one));
    }
  }
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

std::optional<std::string> text_of_file(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return std::nullopt;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  std::string all(static_cast<size_t>(std::max<std::streamoff>(in.tellg(), 0)), '\0');
  in.seekg(0);
  in.read(all.data(), static_cast<std::streamsize>(all.size()));
  if (in.bad()) return std::nullopt;
  all.resize(static_cast<size_t>(in.gcount()));
  return all;
}

RunFiles read_run(const std::string& folder) {
  RunFiles run;
  run.folder = folder;
  std::error_code failed;
  if (!fs::is_directory(folder, failed))
    throw Error(printable(folder),
                ": there is no such folder; name the folder of a run, as runs/lenet-1");
  const std::optional<std::string> info = text_of_file((fs::path(folder) / "run.json").string());
  if (!info)
    throw Error(printable(folder),
                " is no folder of a run: it has no run.json that can be read; `crema train` makes "
                "such folders in runs/");
  try {
    parse_json(*info, run.info);
  } catch (const Error& error) {
    throw Error((fs::path(folder) / "run.json").string(), " is damaged: ", error.what());
  }
  if (run.info.name().empty()) {
    const fs::path path = fs::absolute(folder).lexically_normal();
    run.info.set_name((path.has_filename() ? path : path.parent_path()).filename().string());
  }
  run.is_alive = is_run_alive(folder);
  read_metrics(run);
  read_histograms(run);
  run.evaluation = read_json_file<Evaluation>(run, "evaluation.json");
  run.layers = read_json_file<LayerTable>(run, "layers.json");
  const auto file = [&](const std::string& name) {
    return text_of_file((fs::path(folder) / name).string());
  };
  run.solver_text = file("solver.prototxt").value_or("");
  run.net_text = file("net.prototxt").value_or("");
  for (int k = 0;; ++k) {
    const auto net = file(text("test_net_", k, ".prototxt"));
    if (!net) break;
    run.test_net_texts.push_back(*net);
  }
  return run;
}

}  // namespace crema
