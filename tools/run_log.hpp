// log.txt of a run: the lines of the log, from before its folder is there on.
#pragma once

#include <glog/logging.h>

#include <mutex>
#include <string>

#include "monitor/append_file.hpp"

namespace crema::tools {

/// While it lives, takes each line that the program logs, of any thread.
class RunLog : public google::LogSink {
 public:
  RunLog();
  ~RunLog() override;
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Adds the lines so far, and all that follow, to the file.
  void open(const std::string& path);
  /// Keeps none.
  void discard();
  /// Warns, once, if lines could not be written.
  void check();

  void send(google::LogSeverity severity, const char* path, const char* name, int line,
            const google::LogMessageTime& time, const char* message, size_t length) override;
  using google::LogSink::send;

 private:
  std::mutex mutex_;
  std::string waiting_;  // lines until the file is open
  bool discards_ = false, warned_ = false;
  int failure_ = 0;  // an errno
  std::string path_;
  AppendFile file_;
};

}  // namespace crema::tools
