#include "tools/terminal.hpp"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// What is on the terminal. Threads that load data have messages, too.
struct Screen {
  std::mutex mutex;
  bool plain = false;
  Loudness loudness = Loudness::usual;
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
  if (screen.loudness == Loudness::silent && level < google::GLOG_ERROR) return false;
  if (screen.loudness == Loudness::quiet && level < google::GLOG_WARNING) return false;
  return level >= FLAGS_minloglevel && (screen.shows_all || level >= screen.least_shown);
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The text in the colour of the tone, where the terminal has colours. Control characters in it are
/// shown as such.
std::string coloured(const std::string& text, Tone tone) {
  if (tone == Tone::plain || !takes_colours()) return printable(text);
  const char* const code = tone == Tone::good ? "32" : tone == Tone::bad ? "33" : "2";
  return crema::text("\033[", code, "m", printable(text), "\033[0m");
}

/// The fields as a line, in colours.
std::string line_of(const std::vector<Field>& fields) {
  std::string line;
  for (const Field& field : fields) {
    if (!line.empty()) line += "  ";
    line += printable(field.text);
    if (!field.note.empty()) line += ' ' + coloured(field.note, field.tone);
  }
  return line;
}

std::vector<std::string> texts_of(const std::vector<Field>& fields) {
  std::vector<std::string> texts;
  for (const Field& field : fields) texts.push_back(printable(field.text));
  return texts;
}

/// Removes the notes that the columns have no room for, from the right. Returns whether there are
/// any.
bool cut_notes(std::vector<Field>& fields, size_t columns) {
  size_t used = 0;
  for (const Field& field : fields) used += (used > 0 ? 2 : 0) + columns_of(printable(field.text));
  bool cut = false;
  for (Field& field : fields) {
    if (field.note.empty()) continue;
    const size_t taken = 1 + columns_of(printable(field.note));
    cut = cut || used + taken > columns;
    if (cut) {
      field.note.clear();
    } else {
      used += taken;
    }
  }
  return cut;
}

}  // namespace

bool takes_colours() {
  static const bool takes =
      on_terminal() && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  return takes;
}

bool takes_utf8() {
  static const bool takes = [] {
    std::string locale;
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
      if (locale.empty()) locale = environment(name);
    }
    for (char& letter : locale)
      letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const bool is_utf8 =
        locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    return on_terminal() && is_utf8 && environment("TERM") != "dumb";
  }();
  return takes;
}

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

void set_loudness(Loudness loudness) {
  screen().loudness = loudness;
  if (loudness == Loudness::verbose) FLAGS_v = std::max(FLAGS_v, 1);
  if (loudness > Loudness::quiet || screen().plain) return;
  const int least = loudness == Loudness::quiet ? google::GLOG_WARNING : google::GLOG_ERROR;
  // The files have all lines, but there are none with --logtostderr.
  if (FLAGS_logtostderr) {
    FLAGS_minloglevel = std::max<int>(FLAGS_minloglevel, least);
  } else if (FLAGS_alsologtostderr) {
    FLAGS_alsologtostderr = false;
    FLAGS_stderrthreshold = least;
  }
}

bool shows_lines() { return screen().plain && screen().loudness > Loudness::quiet; }

void say(Severity severity, const std::string& message, Place place) {
  const std::string line = printable_message(message);
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  const Above above(on);
  if (on.plain && is_shown(on, severity)) {
    const std::string before = severity == Severity::warning ? coloured("warning:", Tone::bad) + " "
                               : severity == Severity::error ? coloured("error:", Tone::bad) + " "
                                                             : "";
    std::fprintf(stderr, "%s%s\n", before.c_str(), line.c_str());
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

void show(const std::vector<Field>& fields) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  if (!on.plain || !is_shown(on, Severity::info)) return;
  // As the line that redraws itself: no terminal begins another line.
  const size_t columns = terminal_columns() - 1;
  const std::vector<std::string> texts = texts_of(fields);
  const std::vector<std::string> fitting = with_sign_of_more(texts, columns);
  std::vector<Field> shown = fields;
  if (fitting.size() < fields.size() || fitting.back() != texts.back()) {
    shown.resize(fitting.size() - 1);
    shown.push_back({fitting.back()});
  }
  cut_notes(shown, columns);
  const Above above(on);
  std::fprintf(stderr, "%s\n", line_of(shown).c_str());
}

void log_aside(const std::string& line, Place place) {
  Screen& on = screen();
  const std::scoped_lock lock(on.mutex);
  if (on.plain && on.loudness == Loudness::verbose) {
    const Above above(on);
    std::fprintf(stderr, "%s\n", printable_message(line).c_str());
  }
  log(Severity::info, line, place);
}

bool ProgressLine::due(bool last) const {
  return last || !was_drawn_ || Clock::now() - drawn_at_ >= std::chrono::milliseconds(100);
}

void ProgressLine::draw(const std::vector<Field>& fields) {
  if (screen().loudness < Loudness::usual) return;
  constexpr size_t kLastAndEcho = 3;
  const size_t columns = terminal_columns() - kLastAndEcho;
  if (columns != columns_) {
    shown_ = fields.size();
    has_notes_ = true;
  }
  columns_ = columns;
  shown_ = std::min(shown_, fitting_fields(texts_of(fields), columns));
  std::vector<Field> shown(fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(shown_));
  if (cut_notes(shown, has_notes_ ? columns : 0)) has_notes_ = false;
  std::string line = line_of(shown);
  // One field alone may be too long.
  if (shown_ == 1 && shown[0].note.empty()) line = cut_to(line, columns);
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
