#include "monitor/resume.hpp"

#include <charconv>
#include <string_view>

#include "monitor/histograms.hpp"
#include "monitor/run_folder.hpp"
#include "monitor/run_lines.hpp"

namespace crema {
namespace {

/// Kind and iteration of a line as json_line() writes them, without reading the rest; false for
/// other lines.
bool read_place(std::string_view line, RunRecord& record) {
  constexpr std::string_view kBegin = "{\"kind\":\"", kNext = "\",\"iteration\":";
  if (!line.starts_with(kBegin) || !line.ends_with('}')) return false;
  line.remove_prefix(kBegin.size());
  const size_t end = line.find('"');
  RunRecord::Kind kind{};
  if (end == std::string_view::npos ||
      !RunRecord::Kind_Parse(std::string(line.substr(0, end)), &kind))
    return false;
  line.remove_prefix(end);
  if (!line.starts_with(kNext)) return false;
  line.remove_prefix(kNext.size());
  int iteration = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), iteration).ec != std::errc())
    return false;
  record.Clear();
  record.set_kind(kind);
  record.set_iteration(iteration);
  return true;
}

struct Line {
  std::string text;
  RunRecord::Kind kind;
  int iteration;
};

}  // namespace

KeptRecords drop_void(const std::string& folder, int iteration, AppendFile& metrics,
                      AppendFile& histograms) {
  const std::string path = file_of_run(folder, kMetricsFile);
  std::vector<Line> lines;
  std::string before;
  RunRecord record;
  const auto drop_before = [&](const RunRecord& later) {
    std::erase_if(lines,
                  [&](const Line& line) { return makes_void(later, line.kind, line.iteration); });
  };
  LinePlace place;
  read_lines(path, place, [&](std::string_view line) {
    before.append(line) += '\n';
    if (!read_place(line, record) && !parse_json_line(line, record)) return;
    if (goes_back(record)) drop_before(record);
    lines.push_back({std::string(line), record.kind(), record.iteration()});
  });
  RunRecord resume;
  resume.set_kind(RunRecord::RESUME);
  resume.set_iteration(iteration);
  drop_before(resume);
  KeptRecords kept;
  std::string content;
  for (const Line& line : lines) {
    content += line.text;
    content += '\n';
    const bool is_milestone = line.kind == RunRecord::SNAPSHOT || line.kind == RunRecord::TEST;
    const bool is_at_once = line.kind == RunRecord::TRAIN && line.iteration == iteration;
    if ((is_milestone || is_at_once) && parse_json_line(line.text, record))
      (is_milestone ? kept.milestones : kept.at_once).push_back(record);
  }
  if (!lines.empty() && parse_json_line(lines.back().text, record)) kept.time = record.time();
  if (content != before) metrics.replace(path, content);

  const std::string histograms_path = file_of_run(folder, kHistogramsFile);
  std::string all, left;
  LinePlace begin;
  read_lines(histograms_path, begin, [&](std::string_view line) { all.append(line) += '\n'; });
  for (const ValueHistogram& one : read_run_histograms(folder))
    if (one.iteration() <= iteration) left += histogram_line(one) + '\n';
  if (left != all) histograms.replace(histograms_path, left);
  return kept;
}

}  // namespace crema
