// log.txt of a run: the lines of the log, from before its folder is there on.
#pragma once

#include <glog/logging.h>

#include <string>

#include "monitor/log_file.hpp"

namespace crema::tools {

/// While it lives, takes each line that the program logs, of any thread.
class RunLog : public google::LogSink {
 public:
  RunLog();
  ~RunLog() override;
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void open(const std::string& path) { file_.open(path); }
  void discard() { file_.discard(); }
  /// Warns, once, if lines could not be written.
  void check();

  void send(google::LogSeverity severity, const char* path, const char* name, int line,
            const google::LogMessageTime& time, const char* message, size_t length) override;
  using google::LogSink::send;

 private:
  LogFile file_;
};

}  // namespace crema::tools
