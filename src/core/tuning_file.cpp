#include "core/tuning_file.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <optional>
#include <vector>

#include "core/device.hpp"
#include "core/parse_number.hpp"
#include "core/path_advice.hpp"
#include "core/simd.hpp"
#include "core/split_list.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// How every tuning file begins, whatever machine and version it is of.
constexpr std::string_view kFileMark = "crema tuning ";
constexpr std::string_view kVersion = "3";
constexpr std::string_view kProblem = "problem";
constexpr std::array<std::string_view, 5> kStates = {"settled", "provisional", "doubted",
                                                     "confirmed", "pruned"};

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  }
  return " unknown";
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  size_t at = 0;
  for (size_t tab; (tab = line.find('\t', at)) != std::string::npos; at = tab + 1) {
    fields.push_back(line.substr(at, tab - at));
  }
  fields.push_back(line.substr(at));
  return fields;
}

std::optional<TimeState> state_of(std::string_view name) {
  for (size_t i = 0; i < kStates.size(); ++i) {
    if (kStates[i] == name) return static_cast<TimeState>(i);
  }
  return std::nullopt;
}

void read_problem(const std::vector<std::string>& fields, TuningTimes& times) {
  if (fields.size() != 6) return;
  const auto multiply_adds = parse_number<double>(fields[1]);
  const auto threads = parse_number<int>(fields[2]);
  if (!multiply_adds || !threads || *threads < 1 || !(*multiply_adds >= 0)) return;
  Workload workload{.group = fields[4], .multiply_adds = *multiply_adds, .threads = *threads};
  for (const std::string& size : split_list(fields[3])) {
    const auto number = parse_number<double>(size);
    if (!number || !(*number > 0)) return;
    workload.sizes.push_back(*number);
  }
  times[fields[5]].workload = std::move(workload);
}

void read_time(const std::vector<std::string>& fields, TuningTimes& times) {
  if (fields.size() != 8) return;
  const auto seconds = parse_number<double>(fields[0]);
  const auto runs = parse_number<int>(fields[1]);
  const auto spread = parse_number<double>(fields[2]);
  const auto waiting = parse_number<int>(fields[3]);
  const auto stolen = parse_number<double>(fields[4]);
  const auto switched = parse_number<double>(fields[5]);
  const auto state = state_of(fields[6]);
  const size_t bar = fields[7].find('|');
  if (!seconds || !runs || !spread || !waiting || !stolen || !switched || !state ||
      bar == std::string::npos || !(*seconds > 0) || !std::isfinite(*seconds)) {
    return;
  }
  times[fields[7].substr(0, bar)].times[fields[7].substr(bar + 1)] = {
      *seconds, *runs, *spread, *waiting, *stolen, *switched, *state};
}

}  // namespace

std::string_view to_string(TimeState state) { return kStates[static_cast<size_t>(state)]; }

std::string tuning_file_header() {
  return text(kFileMark, kVersion, ":", processor_name(), ", ", to_string(simd_level()), ", ",
              cpu_library());
}

std::string tuning_file_header(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

TuningTimes read_tuning_file(const std::string& path) {
  TuningTimes times;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != tuning_file_header()) return times;
  while (std::getline(file, line)) {
    // The end of a line that was cut short is a part of a name.
    if (file.eof()) break;
    const std::vector<std::string> fields = fields_of(line);
    fields[0] == kProblem ? read_problem(fields, times) : read_time(fields, times);
  }
  return times;
}

bool write_tuning_file(const std::string& path, const TuningTimes& times) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) {
    fs::create_directories(folder, failed);
  }
  // Contexts of one process may write one file at the same time, too.
  static std::atomic<unsigned> written{0};
  const std::string beside = text(path, ".tmp.", getpid(), ".", written++);
  std::ofstream file(beside);
  // Seventeen digits give the same double again, and so the same choices.
  file << tuning_file_header() << '\n' << std::setprecision(17);
  for (const auto& [name, problem] : times) {
    const Workload& workload = problem.workload;
    if (workload.multiply_adds > 0) {
      file << kProblem << '\t' << workload.multiply_adds << '\t' << workload.threads << '\t';
      for (size_t i = 0; i < workload.sizes.size(); ++i)
        file << (i > 0 ? "," : "") << workload.sizes[i];
      file << '\t' << workload.group << '\t' << name << '\n';
    }
    for (const auto& [candidate, time] : problem.times) {
      file << time.seconds << '\t' << time.runs << '\t' << time.spread << '\t' << time.waiting
           << '\t' << time.stolen << '\t' << time.switched << '\t' << to_string(time.state) << '\t'
           << name << '|' << candidate << '\n';
    }
  }
  file.close();
  if (!file) {
    fs::remove(beside, failed);
    return false;
  }
  fs::rename(beside, path, failed);
  if (!failed) return true;
  std::error_code ignored;
  fs::remove(beside, ignored);
  return false;
}

std::string why_no_tuning_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (fs::exists(path, failed)) {
    if (!fs::is_regular_file(path, failed)) return "is no regular file";
    std::ifstream file(path, std::ios::binary);
    if (!file.is_open()) return "cannot be read";
    std::string mark(kFileMark.size(), '\0');
    file.read(mark.data(), static_cast<std::streamsize>(mark.size()));
    return file.gcount() == 0 || mark == kFileMark ? "" : "holds no measured times";
  }
  if (const std::string advice = path_advice(path); !advice.empty())
    return "cannot be made" + advice;
  // The nearest folder above that exists.
  fs::path folder = fs::absolute(path, failed).parent_path();
  while (!fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, failed)) return text("cannot be below '", folder.string(), "'");
  if (access(folder.c_str(), W_OK | X_OK) == 0) return "";
  return text("cannot be written: no right to write in '", folder.string(), "'");
}

}  // namespace crema
