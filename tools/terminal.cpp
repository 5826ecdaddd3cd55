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
  bool shows_all = false;  // of the log: --alsologtostderr and the threshold, as they were given
  int least_shown = google::GLOG_ERROR;
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

google::LogSeverity level_of(Severity severity) {
  return severity <= Severity::info      ? google::GLOG_INFO
         : severity == Severity::warning ? google::GLOG_WARNING
                                         : google::GLOG_ERROR;
}

void log(Severity severity, const std::string& message, Place place) {
  if (severity == Severity::debug && !VLOG_IS_ON(1)) return;
  google::LogMessage(place.file, place.line, level_of(severity)).stream() << message;
}

/// As the log of that level would be shown, where lines are plain.
bool is_shown(const Screen& screen, Severity severity) {
  if (severity == Severity::debug && !VLOG_IS_ON(1)) return false;
  const int level = level_of(severity);
  return level >= FLAGS_minloglevel && (screen.shows_all || level >= screen.least_shown);
}

}  // namespace

bool on_terminal() { return isatty(STDERR_FILENO) != 0; }

size_t terminal_columns() {
  constexpr size_t kLeast = 10, kUsual = 80;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return std::max<size_t>(size.ws_col, kLeast);
}

void use_plain_lines() {
  Screen& on = screen();
  on.plain = on_terminal() && !FLAGS_logtostderr;
  if (!on.plain) return;
  on.shows_all = FLAGS_alsologtostderr;
  on.least_shown = FLAGS_stderrthreshold;
  // Once: glog reads these in all threads.
  FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::GLOG_FATAL;
}

bool shows_plain_lines() { return screen().plain; }

void say(Severity severity, const std::string& message, Place place) {
  const std::string line = printable_message(message);
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  const Above above(on);
  if (on.plain && is_shown(on, severity)) {
    const char* before = severity == Severity::warning ? "warning: "
                         : severity == Severity::error ? "error: "
                                                       : "";
    std::fprintf(stderr, "%s%s\n", before, line.c_str());
  }
  log(severity, line, place);
}

void say(const std::string& message, Place place) { say(Severity::info, message, place); }

void show(const std::string& line) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  if (!on.plain || !is_shown(on, Severity::info)) return;
  const Above above(on);
  std::fprintf(stderr, "%s\n", printable(line).c_str());
}

void log_aside(const std::string& line, Place place) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  log(Severity::info, line, place);
}

bool ProgressLine::due(bool last) const {
  return last || !was_drawn_ || Clock::now() - drawn_at_ >= std::chrono::milliseconds(100);
}

void ProgressLine::draw(const std::vector<std::string>& fields) {
  constexpr size_t kLastAndEcho = 3;
  const size_t columns = terminal_columns() - kLastAndEcho;
  if (columns != columns_) shown_ = fields.size();
  columns_ = columns;
  shown_ = std::min(shown_, fitting_fields(fields, columns));
  std::string line;
  for (size_t i = 0; i < shown_; ++i) line += (i == 0 ? "" : "  ") + printable(fields[i]);
  line = cut_to(line, columns);  // one field alone may be too long
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
