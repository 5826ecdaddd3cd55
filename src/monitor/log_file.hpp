// log.txt of a run, in lines that parsers of published logs know.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "monitor/append_file.hpp"

namespace crema {

/// Any number of threads.
class LogFile {
 public:
  LogFile() = default;
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Adds the lines so far, and all that follow, to the file.
  void open(const std::string& path);
  /// Keeps no lines, neither those so far nor those that follow.
  void discard();
  /// Adds "I0131 12:59:59.999999 12345 train.cpp:140] message". `letter`: I, W, E or F.
  void add(char letter, const char* source, int line, std::string_view message);
  /// The errno of the first line that could not be written; 0 without one, and behind the first
  /// call that gave it.
  int take_failure();
  const std::string& path() const { return path_; }

 private:
  std::mutex mutex_;
  std::string waiting_;  // lines until the file is open
  bool discards_ = false, told_ = false;
  int failure_ = 0;
  std::string path_;
  AppendFile file_;
};

}  // namespace crema
