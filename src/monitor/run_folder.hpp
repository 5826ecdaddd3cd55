// The folder of a training run: its name, what lies in it, and the files as messages
// (proto/run.proto).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/run.pb.h"

namespace crema {

// Files of a run's folder. Beside them: test_net_<k>.prototxt,
// events.out.tfevents.<secs>.<host>..., and the folder `snapshots` with links.
inline constexpr std::string_view kRunInfoFile = "run.json";
inline constexpr std::string_view kMetricsFile = "metrics.jsonl";
inline constexpr std::string_view kHistogramsFile = "histograms.jsonl";
inline constexpr std::string_view kRunLogFile = "log.txt";
inline constexpr std::string_view kRunSolverFile = "solver.prototxt";
inline constexpr std::string_view kRunNetFile = "net.prototxt";
inline constexpr std::string_view kRunReportFile = "report.html";
inline constexpr std::string_view kRunSnapshots = "snapshots";
inline constexpr std::string_view kEventsPrefix = "events.out.tfevents.";

/// "FOLDER/NAME".
std::string file_of_run(const std::string& folder, std::string_view name);
/// The net's name as that of a folder: letters, digits, '-', '_' and '.' stay, each run of other
/// characters becomes one '-'; "net" where nothing is left. At most 60 bytes.
std::string safe_run_name(const std::string& name);
/// Makes BASE/<name>-<n>, and BASE where it is missing; n is one more than the greatest number that
/// the name has there. Of processes that do this at the same time, each gets another number.
/// Returns the path. Error if it cannot be made.
std::string make_numbered_run(const std::string& base, const std::string& name);
/// Whether the folder holds a run: it has run.json or metrics.jsonl.
bool is_run_folder(const std::string& folder);
/// Whether a process on this machine is writing the run.
bool is_run_alive(const std::string& folder);

/// A message as one line of JSON without its end, by the names of the fields. NaN and infinities
/// are texts, "NaN" and "Infinity".
std::string json_line(const google::protobuf::Message& message);
/// Reads such a line. False for one that is none, as the last one of a killed run may be. Fields
/// that the message does not have are passed over.
bool parse_json_line(std::string_view line, google::protobuf::Message& message);

/// Reads run.json. Error if there is none, or if it is damaged.
RunInfo read_run_info(const std::string& folder);
/// Writes run.json; the name stands for a whole file at any moment.
void write_run_info(const std::string& folder, const RunInfo& info);

/// The records of metrics.jsonl that hold, in order: without those that a later one makes void
/// (monitor/run_lines.hpp), and without lines that are cut or damaged. None where there is no such
/// file. Error if it cannot be read.
std::vector<RunRecord> read_run_records(const std::string& folder);
/// The same of histograms.jsonl.
std::vector<ValueHistogram> read_run_histograms(const std::string& folder);
/// Adds a line of histograms.jsonl: one that goes back in iterations makes void what is before it
/// from its iteration on.
void add_histogram(std::vector<ValueHistogram>& all, ValueHistogram one);

}  // namespace crema
