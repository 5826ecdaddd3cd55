// What the folder of a run holds, read for a report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/text_file.hpp"
#include "monitor/run_lines.hpp"
#include "proto/evaluation.pb.h"
#include "proto/run.pb.h"

namespace crema {

/// A value behind `iteration` iterations. It may be NaN or infinite.
struct CurvePoint {
  int32_t iteration;
  double value;
};
/// By iteration, each once.
using Curve = std::vector<CurvePoint>;

struct TestCurves {
  Curve loss;
  std::map<std::string, Curve> outputs;
};

/// How a run stands, from the last record of its files.
enum class RunOutcome : uint8_t { unknown, finished, stopped, early, time_over, failed };

struct RunFiles {
  std::string folder;
  RunInfo info;

  // Of displays.
  Curve loss, smoothed_loss, rate, images_per_second, data_wait, gradient_norm, memory, seconds;
  std::map<std::string, Curve> outputs;
  std::map<int, TestCurves> tests;  // by test net
  Curve epoch, time;                // of displays and tests; seconds of training
  /// All records but displays, in order.
  std::vector<RunRecord> events;
  int iterations = 0;     // done, as far as the files say
  double last_wall = 0;   // of the last record, seconds since 1970; 0: unknown
  bool is_alive = false;  // a process on this machine is writing it

  std::vector<ValueHistogram> histograms;
  std::optional<Evaluation> evaluation;
  std::optional<LayerTable> layers;
  std::string solver_text, net_text;
  std::vector<std::string> test_net_texts;
  /// What could not be read, and was left out.
  std::vector<std::string> warnings;

  /// `unknown` where no end was written: the run goes on (is_alive), or was killed.
  RunOutcome state() const;
  /// The record of the end; null without one.
  const RunRecord* end() const;
  /// The last test that was the best so far by the solver's snapshot_best; null without one.
  const RunRecord* best() const;
  bool has_records() const { return !loss.empty() || !events.empty(); }
};

/// Reads a run's folder, again and again: of metrics.jsonl and histograms.jsonl what has come since
/// the last time.
class RunReader {
 public:
  explicit RunReader(std::string folder);

  /// What records a later START or RESUME makes void (monitor/run_lines.hpp) is left out. So are
  /// lines of metrics.jsonl and histograms.jsonl that are damaged, and `warnings` names file and
  /// line; an unfinished last line, as a killed run leaves it, is left out in silence.
  /// evaluation.json and layers.json are left out where they are damaged, with a warning. Error for
  /// a folder that is not there or has no run.json, and for a damaged run.json. The next call
  /// changes what was returned; info, layers and evaluation are then those of the files again.
  RunFiles& read();

 private:
  struct Lines {
    LinePlace place;
    std::vector<std::string> warnings;
    int damaged = 0;
  };
  template <class Body>
  void read_new(Lines& from, std::string_view name, const Body& body);
  void read_metrics();
  void read_histograms();

  RunFiles run_;
  Lines metrics_, histograms_;
  std::vector<ValueHistogram> recorded_;  // in the order of the file
};

/// As RunReader::read(), once.
RunFiles read_run(const std::string& folder);

/// The message of a JSON text. Error, as "line 1: ..." without a file, where it is none.
void parse_json(const std::string& json, google::protobuf::Message& out);

}  // namespace crema
