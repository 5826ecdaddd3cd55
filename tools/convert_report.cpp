#include "tools/convert_report.hpp"

#include <glog/logging.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "tools/command.hpp"

namespace crema::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// A line that redraws itself on a terminal, though no faster than eyes follow; ended with its last
/// user, also by an error.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() {
    if (drawn_) std::fputc('\n', stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void draw(int64_t done, int64_t total) {
    const auto now = Clock::now();
    if (drawn_ && done < total && now - drawn_at_ < std::chrono::milliseconds(100)) return;
    std::fprintf(stderr, "\r\033[K%lld of %lld records", static_cast<long long>(done),
                 static_cast<long long>(total));
    std::fflush(stderr);
    drawn_ = true;
    drawn_at_ = now;
  }

 private:
  bool drawn_ = false;
  Clock::time_point drawn_at_;
};

void log_progress(int64_t done, int64_t total) {
  if (done % 1000 == 0 || done == total) LOG(INFO) << "Processed " << done << " files.";
}

}  // namespace

ConvertProgress show_progress() {
  if (!on_terminal()) return log_progress;
  return [line = std::make_shared<ProgressLine>()](int64_t done, int64_t total) {
    line->draw(done, total);
  };
}

void report(const ConvertReport& result, const std::string& output) {
  for (const auto& problem : result.problems) LOG(WARNING) << problem;
  if (result.bad > static_cast<int64_t>(result.problems.size())) {
    LOG(WARNING) << "and " << result.bad - static_cast<int64_t>(result.problems.size()) << " more";
  }
  for (const auto& warning : result.warnings) LOG(WARNING) << warning;
  LOG(INFO) << result.written << " records written to " << output
            << (result.bad ? concat(", ", result.bad, " bad ones left out") : "");
}

}  // namespace crema::tools
