#include "monitor/resume.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "crema/error.hpp"
#include "model/whole_file.hpp"
#include "monitor/histograms.hpp"
#include "monitor/run_folder.hpp"

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
  std::string_view text;
  RunRecord::Kind kind;
  int iteration;
};

std::string text_of_file(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return {};  // a device has no end
  std::ifstream file(path, std::ios::binary);
  std::ostringstream read;
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) read << file.rdbuf();
  return std::move(read).str();
}

template <class Body>
void for_each_line_of(std::string_view all, const Body& body) {
  while (!all.empty()) {
    const size_t end = std::min(all.find('\n'), all.size());
    body(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
}

void replace(const std::string& path, const std::string& content, const std::string& before) {
  if (content == before) return;
  WholeFile file(path);
  file.append(content);
  file.finish();
}

}  // namespace

KeptRecords drop_void(const std::string& folder, int iteration) {
  const std::string metrics = file_of_run(folder, kMetricsFile);
  const std::string all = text_of_file(metrics);
  std::vector<Line> lines;
  const auto drop = [&](int from) {
    std::erase_if(lines, [&](const Line& line) {
      RunRecord record;
      record.set_kind(line.kind);
      record.set_iteration(line.iteration);
      return is_void(record, from);
    });
  };
  RunRecord record;
  for_each_line_of(all, [&](std::string_view line) {
    if (!read_place(line, record) && !parse_json_line(line, record)) return;
    if (record.kind() == RunRecord::RESUME) drop(record.iteration());
    lines.push_back({line, record.kind(), record.iteration()});
  });
  drop(iteration);
  KeptRecords kept;
  std::string content;
  for (const Line& line : lines) {
    content += line.text;
    content += '\n';
    if (line.kind != RunRecord::TRAIN || line.iteration != iteration) continue;
    if (parse_json_line(line.text, record)) kept.at_once.push_back(record);
  }
  if (!lines.empty() && parse_json_line(lines.back().text, record)) kept.time = record.time();

  std::string histograms;
  for (const ValueHistogram& one : read_run_histograms(folder))
    if (one.iteration() <= iteration) histograms += histogram_line(one) + '\n';
  replace(metrics, content, all);
  const std::string path = file_of_run(folder, kHistogramsFile);
  replace(path, histograms, text_of_file(path));
  return kept;
}

}  // namespace crema
