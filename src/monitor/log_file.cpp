#include "monitor/log_file.hpp"

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace crema {
namespace {

std::string line_head(char letter, const char* source, int line) {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char head[256];
  std::snprintf(head, sizeof head, "%c%02d%02d %02d:%02d:%02d.%06ld %5ld %s:%d] ", letter,
                local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<long>(now.tv_usec), ::syscall(SYS_gettid), source, line);
  return head;
}

}  // namespace

void LogFile::open(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  path_ = path;
  failure_ = file_.open(path, true);
  if (failure_ == 0) failure_ = file_.append(waiting_);
  waiting_.clear();
}

void LogFile::discard() {
  const std::scoped_lock lock(mutex_);
  discards_ = true;
  waiting_.clear();
}

void LogFile::add(char letter, const char* source, int line, std::string_view message) {
  std::string written = line_head(letter, source, line);
  written += message;
  written += '\n';
  const std::scoped_lock lock(mutex_);
  if (discards_) return;
  if (!file_.is_open()) {
    if (path_.empty()) waiting_ += written;
    return;
  }
  if (const int failure = file_.append(written); failure_ == 0) failure_ = failure;
}

int LogFile::take_failure() {
  const std::scoped_lock lock(mutex_);
  if (told_ || failure_ == 0) return 0;
  told_ = true;
  return failure_;
}

}  // namespace crema
