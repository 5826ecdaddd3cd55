#include "tools/terminal.hpp"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "core/utf8.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// What is on the terminal. Threads that load data have messages, too.
struct Screen {
  std::mutex mutex;
  bool plain = false;
  const ProgressLine* line = nullptr;  // the one that is drawn at present
  std::string text;                    // of it
};

Screen& screen() {
  static Screen screen;
  return screen;
}

/// Makes room for what is printed while it lives, and draws the line below that again. Under the
/// mutex.
class Above {
 public:
  explicit Above(const Screen& screen) : screen_(screen) {
    if (screen_.line != nullptr) std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }
  ~Above() {
    if (screen_.line != nullptr) std::fputs(screen_.text.c_str(), stderr);
    std::fflush(stderr);
  }
  Above(const Above&) = delete;
  Above& operator=(const Above&) = delete;

 private:
  const Screen& screen_;
};

void log(Severity severity, const std::string& message) {
  switch (severity) {
    case Severity::debug:
      VLOG(1) << message;
      break;
    case Severity::info:
      LOG(INFO) << message;
      break;
    case Severity::warning:
      LOG(WARNING) << message;
      break;
    case Severity::error:
      LOG(ERROR) << message;
      break;
  }
}

/// The files of the log get the message, and stderr does not. Under the mutex.
void log_to_files(Severity severity, const std::string& message) {
  const bool also = FLAGS_alsologtostderr;
  const auto threshold = FLAGS_stderrthreshold;
  FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::GLOG_FATAL;
  log(severity, message);
  FLAGS_alsologtostderr = also;
  FLAGS_stderrthreshold = threshold;
}

/// As the log of that level would be shown.
bool is_shown(Severity severity) {
  if (severity == Severity::debug) return false;  // a matter of the log
  const int level = severity == Severity::info      ? google::GLOG_INFO
                    : severity == Severity::warning ? google::GLOG_WARNING
                                                    : google::GLOG_ERROR;
  return level >= FLAGS_minloglevel && (FLAGS_alsologtostderr || level >= FLAGS_stderrthreshold);
}

}  // namespace

bool on_terminal() { return isatty(STDERR_FILENO) != 0; }

size_t terminal_columns() {
  constexpr size_t kLeast = 10, kUsual = 80;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::max<size_t>(size.ws_col, kLeast);
}

void use_plain_lines() { screen().plain = on_terminal() && !FLAGS_logtostderr; }

bool shows_plain_lines() { return screen().plain; }

void say(Severity severity, const std::string& message) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  const Above above(on);
  if (!on.plain || severity == Severity::debug) {
    log(severity, message);
    return;
  }
  if (is_shown(severity)) {
    const char* before = severity == Severity::warning ? "warning: "
                         : severity == Severity::error ? "error: "
                                                       : "";
    std::fprintf(stderr, "%s%s\n", before, printable_message(message).c_str());
  }
  log_to_files(severity, message);
}

void say(const std::string& message) { say(Severity::info, message); }

void show(const std::string& line) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  if (!on.plain || !is_shown(Severity::info)) return;
  const Above above(on);
  std::fprintf(stderr, "%s\n", printable(line).c_str());
}

void log_aside(const std::string& line) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  if (on.plain) {
    log_to_files(Severity::info, line);
  } else {
    const Above above(on);
    log(Severity::info, line);
  }
}

bool ProgressLine::due(bool last) const {
  return last || !was_drawn_ || Clock::now() - drawn_at_ >= std::chrono::milliseconds(100);
}

void ProgressLine::draw(const std::vector<std::string>& fields) {
  const size_t columns = terminal_columns() - 1;
  if (columns != columns_) shown_ = fields.size();
  columns_ = columns;
  shown_ = std::min(shown_, fitting_fields(fields, columns));
  std::string line;
  for (size_t i = 0; i < shown_; ++i) line += (i == 0 ? "" : "  ") + printable(fields[i]);
  // One field alone may be too long.
  while (columns_of(line) > columns) line.pop_back();
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  on.line = this;
  on.text = line;
  was_drawn_ = true;
  drawn_at_ = Clock::now();
}

void ProgressLine::end() {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  if (on.line != this) return;
  std::fputc('\n', stderr);
  on.line = nullptr;
}

}  // namespace crema::tools
