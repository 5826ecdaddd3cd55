#include "tools/run_log.hpp"

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// "I0131 12:59:59.999999 12345 train.cpp:140] ", as parsers of published logs know it.
std::string line_head(google::LogSeverity severity, const char* name, int line) {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char head[256];
  std::snprintf(head, sizeof head, "%c%02d%02d %02d:%02d:%02d.%06ld %5ld %s:%d] ", "IWEF"[severity],
                local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<long>(now.tv_usec), ::syscall(SYS_gettid), name, line);
  return head;
}

}  // namespace

RunLog::RunLog() { google::AddLogSink(this); }
RunLog::~RunLog() { google::RemoveLogSink(this); }

void RunLog::open(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  path_ = path;
  failure_ = file_.open(path, true);
  if (failure_ == 0) failure_ = file_.append(waiting_);
  waiting_.clear();
}

void RunLog::discard() {
  const std::scoped_lock lock(mutex_);
  discards_ = true;
  waiting_.clear();
}

void RunLog::check() {
  int failure = 0;
  {
    const std::scoped_lock lock(mutex_);
    failure = warned_ ? 0 : failure_;
    warned_ |= failure != 0;
  }
  if (failure != 0)
    say(Severity::warning,
        text("'", printable(path_), "' lacks lines of the log: ", std::strerror(failure)));
}

void RunLog::send(google::LogSeverity severity, const char* /*path*/, const char* name, int line,
                  const google::LogMessageTime& /*time*/, const char* message, size_t length) {
  std::string written = line_head(severity, name, line);
  written.append(message, length);
  written += '\n';
  const std::scoped_lock lock(mutex_);
  if (discards_) return;
  if (!file_.is_open()) {
    if (path_.empty()) waiting_ += written;
    return;
  }
  if (const int failure = file_.append(written); failure_ == 0) failure_ = failure;
}

}  // namespace crema::tools
