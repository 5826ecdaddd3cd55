#include "monitor/run_folder.hpp"

#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "crema/error.hpp"
#include "model/text_file.hpp"
#include "monitor/append_file.hpp"
#include "monitor/run_lines.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

/// The number of a folder BASE/<name>-<n>; 0: it is none.
int64_t number_of(const std::string& folder, const std::string& name) {
  if (!folder.starts_with(name + "-")) return 0;
  const char* const begin = folder.data() + name.size() + 1;
  const char* const end = folder.data() + folder.size();
  int64_t number = 0;
  const auto [rest, failed] = std::from_chars(begin, end, number);
  return failed == std::errc() && rest == end && number > 0 ? number : 0;
}

int64_t greatest_number(const std::string& base, const std::string& name) {
  int64_t greatest = 0;
  std::error_code failed;
  for (fs::directory_iterator entry(base, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    greatest = std::max(greatest, number_of(entry->path().filename().string(), name));
  }
  return greatest;
}

}  // namespace

std::string file_of_run(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

std::string safe_run_name(const std::string& name) {
  constexpr size_t kMost = 60;
  std::string safe;
  for (const char c : name) {
    const bool stays = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    if (stays) {
      safe += c;
    } else if (!safe.empty() && safe.back() != '-') {
      safe += '-';
    }
  }
  safe.resize(std::min(safe.size(), kMost));
  // No hidden folder, and no "-" twice before the number.
  safe.erase(0, std::min(safe.find_first_not_of(".-"), safe.size()));
  while (!safe.empty() && safe.back() == '-') safe.pop_back();
  return safe.empty() ? "net" : safe;
}

std::string make_numbered_run(const std::string& base, const std::string& name) {
  const std::string safe = safe_run_name(name);
  std::error_code failed;
  fs::create_directories(base, failed);
  if (failed)
    throw Error("cannot make the folder of runs '", base, "': ", failed.message()).about(base);
  for (int64_t number = greatest_number(base, safe) + 1;; ++number) {
    const std::string path = file_of_run(base, text(safe, "-", number));
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST)
      throw Error("cannot make the run's folder '", path, "': ", std::strerror(errno)).about(path);
  }
}

bool is_run_folder(const std::string& folder) {
  std::error_code unknown;
  return fs::exists(file_of_run(folder, kRunInfoFile), unknown) ||
         fs::exists(file_of_run(folder, kMetricsFile), unknown);
}

bool is_run_alive(const std::string& folder) {
  return is_locked(file_of_run(folder, kMetricsFile));
}

std::string json_line(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(message, &line, options);
  if (!status.ok())
    throw Error("cannot write ", message.GetTypeName(), " as JSON: ", status.ToString());
  return line;
}

bool parse_json_line(std::string_view line, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  message.Clear();
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return false;
  return google::protobuf::util::JsonStringToMessage(std::string(line), &message, options).ok();
}

RunInfo read_run_info(const std::string& folder) {
  const std::string path = file_of_run(folder, kRunInfoFile);
  const std::optional<std::string> json = text_of_file(path);
  RunInfo info;
  if (!json)
    throw Error("'", folder, "' is no folder of a run: it has no ", kRunInfoFile,
                " that can be read")
        .about(path);
  if (!parse_json_line(*json, info)) throw Error("'", path, "' is damaged").about(path);
  return info;
}

void write_run_info(const std::string& folder, const RunInfo& info) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(info, &json, options);
  if (!status.ok()) throw Error("cannot write ", kRunInfoFile, ": ", status.ToString());
  write_text_unsynced(file_of_run(folder, kRunInfoFile), json);
}

std::vector<RunRecord> read_run_records(const std::string& folder) {
  std::vector<RunRecord> records;
  LinePlace place;
  read_lines(file_of_run(folder, kMetricsFile), place, [&](std::string_view line) {
    RunRecord record;
    if (!parse_json_line(line, record)) return;
    if (goes_back(record)) {
      std::erase_if(records, [&](const RunRecord& one) {
        return makes_void(record, one.kind(), one.iteration());
      });
    }
    records.push_back(std::move(record));
  });
  return records;
}

void add_histogram(std::vector<ValueHistogram>& all, ValueHistogram one) {
  if (!all.empty() && one.iteration() < all.back().iteration()) {
    std::erase_if(
        all, [&](const ValueHistogram& before) { return before.iteration() >= one.iteration(); });
  }
  all.push_back(std::move(one));
}

std::vector<ValueHistogram> read_run_histograms(const std::string& folder) {
  std::vector<ValueHistogram> histograms;
  LinePlace place;
  read_lines(file_of_run(folder, kHistogramsFile), place, [&](std::string_view line) {
    ValueHistogram one;
    if (parse_json_line(line, one)) add_histogram(histograms, std::move(one));
  });
  return histograms;
}

}  // namespace crema
