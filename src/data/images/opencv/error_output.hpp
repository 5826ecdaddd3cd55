// What OpenCV prints to std::cerr while it decodes, which is for messages.
#pragma once

#include <string>

namespace crema {

/// Collects what this thread writes to std::cerr while the object lives; other threads' output goes
/// where it always went. One at a time in a thread.
class ErrorOutput {
 public:
  ErrorOutput();
  ~ErrorOutput();
  ErrorOutput(const ErrorOutput&) = delete;
  ErrorOutput& operator=(const ErrorOutput&) = delete;

  /// In one line, without the names of files and functions that OpenCV puts before it.
  std::string text() const;

 private:
  std::string collected_;
};

}  // namespace crema
