#include "backend/tuner.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>

#include "backend/cpu/gemm_library.hpp"
#include "backend/cpu/simd.hpp"
#include "backend/tuning_file.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

// The first run pays for cold caches, fresh pages and what `measure` makes on its way; the fastest
// of a few is what counts. Small problems are repeated until the clock can tell them apart.
constexpr int kMinRuns = 3;
constexpr int kMaxRuns = 20;
constexpr double kEnoughSeconds = 0.03;
/// What after its second run of kEnoughSeconds is so many times slower than its best rival has
/// lost.
constexpr double kLost = 1.5;

double fastest(const std::function<void()>& measure, double beat) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  double total = 0;
  for (int run = 0; run < kMinRuns || (run < kMaxRuns && total < kEnoughSeconds); ++run) {
    const auto start = Clock::now();
    measure();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
    if (run > 0 && best > kEnoughSeconds && best > kLost * beat) break;
  }
  return best;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  }
  return " unknown";
}

/// How every tuning file begins, whatever machine and version it is of.
constexpr std::string_view kFileMark = "crema tuning ";

/// What the times depend on beside the problem.
std::string file_header() {
  return concat(kFileMark, "2:", processor_name(), ", ", to_string(simd_level()), ", ",
                onednn_gemm_name());
}

}  // namespace

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
  // Up to the first folder that is there.
  fs::path folder = fs::absolute(path, failed).parent_path();
  while (!fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, failed)) return concat("cannot be below '", folder.string(), "'");
  if (access(folder.c_str(), W_OK | X_OK) == 0) return "";
  return concat("cannot be written: no right to write in '", folder.string(), "'");
}

double Tuner::seconds(const std::string& problem, const std::string& candidate,
                      const std::function<void()>& measure, double beat) {
  const std::string key = problem + '|' + candidate;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = seconds_.find(key); known != seconds_.end()) return known->second;
  }
  const double measured = fastest(measure, beat);
  // Another thread may have measured the same meanwhile: all go by what was noted first.
  const std::lock_guard lock(mutex_);
  news_ = true;
  return seconds_.emplace(key, measured).first->second;
}

std::vector<Tuner::Time> Tuner::measured(const std::string& prefix) const {
  std::vector<Time> found;
  const std::lock_guard lock(mutex_);
  for (auto at = seconds_.lower_bound(prefix); at != seconds_.end(); ++at) {
    const auto& [key, seconds] = *at;
    if (!key.starts_with(prefix)) break;
    const size_t end = key.find('|', prefix.size());
    found.push_back({key.substr(0, end), key.substr(end + 1), seconds});
  }
  return found;
}

void Tuner::load(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != file_header()) return;
  const std::lock_guard lock(mutex_);
  while (std::getline(file, line)) {
    // "seconds<TAB>problem|candidate"; a line that was cut short is left out.
    const size_t tab = line.find('\t');
    char* end = nullptr;
    const double seconds = std::strtod(line.c_str(), &end);
    if (tab == std::string::npos || end != line.c_str() + tab || !(seconds > 0)) continue;
    seconds_.emplace(line.substr(tab + 1), seconds);
  }
}

bool Tuner::save(const std::string& path) {
  load(path);
  namespace fs = std::filesystem;
  std::error_code failed;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) {
    fs::create_directories(folder, failed);
  }
  // Contexts of one process may save to one file at the same time, too.
  static std::atomic<unsigned> saves{0};
  const std::string beside = concat(path, ".tmp.", getpid(), ".", saves++);
  {
    const std::lock_guard lock(mutex_);
    std::ofstream file(beside);
    // Seventeen digits give the same double again, and so the same choices.
    file << file_header() << '\n' << std::setprecision(17);
    for (const auto& [key, seconds] : seconds_) file << seconds << '\t' << key << '\n';
    file.close();
    if (!file) {
      fs::remove(beside, failed);
      return false;
    }
    news_ = false;
  }
  fs::rename(beside, path, failed);
  return !failed;
}

bool Tuner::has_news() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

bool Tuner::decided(const std::string& problem, std::string& candidate) const {
  const std::lock_guard lock(mutex_);
  const auto known = decisions_.find(problem);
  if (known == decisions_.end()) return false;
  candidate = known->second;
  return true;
}

void Tuner::decide(const std::string& problem, const std::string& candidate) {
  const std::lock_guard lock(mutex_);
  decisions_[problem] = candidate;
}

std::map<std::string, std::string> Tuner::decisions() const {
  const std::lock_guard lock(mutex_);
  return decisions_;
}

}  // namespace crema
