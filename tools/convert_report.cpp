#include "tools/convert_report.hpp"

#include <glog/logging.h>

#include <cstdio>

#include "tools/command.hpp"

namespace crema::tools {

ConvertProgress show_progress() {
  const bool terminal = on_terminal();
  return [terminal](int64_t done, int64_t total) {
    if (terminal) {
      std::fprintf(stderr, "\r\033[K%lld of %lld records%s", static_cast<long long>(done),
                   static_cast<long long>(total), done == total ? "\n" : "");
      std::fflush(stderr);
    } else if (done % 1000 == 0 || done == total) {
      LOG(INFO) << "Processed " << done << " files.";
    }
  };
}

void report(const ConvertReport& result, const std::string& output) {
  for (const auto& problem : result.problems) LOG(WARNING) << problem;
  if (result.bad > static_cast<int64_t>(result.problems.size())) {
    LOG(WARNING) << "and " << result.bad - static_cast<int64_t>(result.problems.size()) << " more";
  }
  LOG(INFO) << result.written << " records written to " << output
            << (result.bad ? concat(", ", result.bad, " bad ones left out") : "");
}

}  // namespace crema::tools
