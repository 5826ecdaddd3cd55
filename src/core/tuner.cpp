#include "core/tuner.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>

#include "core/device.hpp"
#include "core/path_advice.hpp"
#include "core/simd.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

// The first run is slow: caches are cold, pages are new, and `measure` makes its primitive. So the
// fastest of a few runs counts. Small problems run often enough for the resolution of the clock.
constexpr int kMinRuns = 3;
constexpr int kMaxRuns = 20;
constexpr double kEnoughSeconds = 0.03;
/// Runs during which a thread lost its processor do not count towards kEnoughSeconds. A candidate
/// is measured at most this time in all, but kMinRuns times at least.
constexpr double kMostSeconds = 0.12;
/// A candidate whose runs exceed kEnoughSeconds is not measured further after the second one if it
/// is slower than the fastest candidate by this factor.
constexpr double kLost = 1.5;

/// How often the system has taken a processor away from a thread of this process.
int64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

double fastest(const std::function<void()>& measure, double beat) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  double total = 0, undisturbed = 0;
  for (int run = 0;
       run < kMinRuns || (run < kMaxRuns && undisturbed < kEnoughSeconds && total < kMostSeconds);
       ++run) {
    const int64_t before = preemptions();
    const auto start = Clock::now();
    measure();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
    if (preemptions() == before) undisturbed += seconds;
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
  return text(kFileMark, "2:", processor_name(), ", ", to_string(simd_level()), ", ",
              cpu_library());
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
  if (const std::string advice = path_advice(path); !advice.empty())
    return "cannot be made" + advice;
  // The nearest folder above that exists.
  fs::path folder = fs::absolute(path, failed).parent_path();
  while (!fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, failed)) return text("cannot be below '", folder.string(), "'");
  if (access(folder.c_str(), W_OK | X_OK) == 0) return "";
  return text("cannot be written: no right to write in '", folder.string(), "'");
}

double Tuner::seconds(const std::string& problem, const std::string& candidate,
                      const std::function<void()>& measure, double beat) {
  return timed(problem, candidate, [&] { return fastest(measure, beat); });
}

double Tuner::timed(const std::string& problem, const std::string& candidate,
                    const std::function<double()>& clock) {
  {
    const std::lock_guard lock(mutex_);
    const auto& known = problems_[problem].seconds;
    if (const auto found = known.find(candidate); found != known.end()) return found->second;
  }
  const double measured = clock();
  // It could not run now, for instance for want of memory. Another net may have more.
  if (!std::isfinite(measured)) return measured;
  // Another thread may have measured the same pair: all use the first result.
  const std::lock_guard lock(mutex_);
  news_ = true;
  return problems_[problem].seconds.emplace(candidate, measured).first->second;
}

std::vector<Tuner::Time> Tuner::measured(const std::string& prefix) const {
  std::vector<Time> found;
  const std::lock_guard lock(mutex_);
  for (auto at = problems_.lower_bound(prefix); at != problems_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    for (const auto& [candidate, seconds] : at->second.seconds) {
      found.push_back({at->first, candidate, seconds});
    }
  }
  return found;
}

void Tuner::load(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != file_header()) return;
  const std::lock_guard lock(mutex_);
  while (std::getline(file, line)) {
    // "seconds<TAB>problem|candidate"; an incomplete line is skipped.
    const size_t tab = line.find('\t'), bar = line.find('|');
    char* end = nullptr;
    const double seconds = std::strtod(line.c_str(), &end);
    if (tab == std::string::npos || bar == std::string::npos || end != line.c_str() + tab ||
        !(seconds > 0) || !std::isfinite(seconds)) {
      continue;
    }
    problems_[line.substr(tab + 1, bar - tab - 1)].seconds.emplace(line.substr(bar + 1), seconds);
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
  const std::string beside = text(path, ".tmp.", getpid(), ".", saves++);
  {
    const std::lock_guard lock(mutex_);
    std::ofstream file(beside);
    // Seventeen digits give the same double again, and so the same choices.
    file << file_header() << '\n' << std::setprecision(17);
    for (const auto& [name, problem] : problems_) {
      for (const auto& [candidate, seconds] : problem.seconds) {
        file << seconds << '\t' << name << '|' << candidate << '\n';
      }
    }
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

bool Tuner::chosen(const std::string& problem, std::string& candidate) const {
  const std::lock_guard lock(mutex_);
  const auto known = problems_.find(problem);
  if (known == problems_.end() || known->second.chosen.empty()) return false;
  candidate = known->second.chosen;
  return true;
}

void Tuner::choose(const std::string& problem, const std::string& candidate) {
  const std::lock_guard lock(mutex_);
  Problem& record = problems_[problem];
  if (!record.chosen.empty()) order_.erase(record.when);
  record.chosen = candidate;
  record.when = choices_made_++;
  order_.emplace(record.when, problem);
  if (order_.size() <= kMostChoices) return;
  const auto oldest = order_.begin();
  const auto forgotten = problems_.find(oldest->second);
  forgotten->second.chosen.clear();
  if (forgotten->second.seconds.empty()) problems_.erase(forgotten);
  order_.erase(oldest);
}

std::map<std::string, std::string> Tuner::choices() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> all;
  for (const auto& [when, problem] : order_) all.emplace(problem, problems_.at(problem).chosen);
  return all;
}

}  // namespace crema
