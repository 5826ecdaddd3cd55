#include "tools/convert_report.hpp"

#include <glog/logging.h>

#include <memory>

#include "crema/error.hpp"
#include "tools/progress_line.hpp"

namespace crema::tools {
namespace {

void log_progress(int64_t done, int64_t total) {
  if (done % 1000 == 0 || done == total) LOG(INFO) << "Processed " << done << " files.";
}

}  // namespace

ConvertProgress show_progress() {
  if (!on_terminal()) return log_progress;
  return [line = std::make_shared<ProgressLine>()](int64_t done, int64_t total) {
    if (line->due(done == total)) line->draw(concat(done, " of ", total, " records"));
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
