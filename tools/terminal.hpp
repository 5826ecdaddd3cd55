// What a command shows on a terminal while its log has more: short lines in place of those that
// programs read, and one line that redraws itself.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "crema/context.hpp"

namespace crema::tools {

/// Whether stderr is a terminal that a progress line can be drawn on.
bool on_terminal();
/// The columns of that terminal, at least 10; 80 where it does not say.
size_t terminal_columns();

/// From now on messages are plain lines on a terminal: without the time, the thread and the place
/// in the source that the log has. Not with --logtostderr, which asks for the log itself. To be
/// called before other threads write to the log: from then on, what is not said by the functions
/// below is in the files of the log alone.
void use_plain_lines();
bool shows_plain_lines();

/// How much a command says: errors alone, warnings too, what it does usually, or all of its log.
/// The files of the log have all in any case. To be called once, before other threads write to the
/// log.
enum class Loudness : uint8_t { silent, quiet, usual, verbose };
void set_loudness(Loudness loudness);
/// Whether lines for the user are shown: plain ones on a terminal, from Loudness::usual on.
bool shows_lines();

/// Whether stderr takes colours: a terminal that is not dumb, and no NO_COLOR in the environment.
bool takes_colours();
/// Whether stderr is a terminal whose locale is UTF-8.
bool takes_utf8();

/// What a colour says.
enum class Tone : uint8_t { plain, good, bad, dim };

/// A part of a line, and a note behind it, which has the tone. Where the line has no room for both,
/// notes are left out before texts are.
struct Field {
  std::string text, note = {};
  Tone tone = Tone::plain;
};

/// Where in the source a line of the log was written.
struct Place {
  const char* file;
  int line;
  /// As a default argument: where the function is called.
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// A message for the user: a plain line where use_plain_lines() holds, and in the log.
void say(Severity severity, const std::string& message, Place place = Place::here());
void say(const std::string& message, Place place = Place::here());
/// A line on the terminal alone, where use_plain_lines() holds.
void show(const std::string& line);
/// The same of the fields that the terminal has room for, with "..." in the place of others.
void show(const std::vector<Field>& fields);
/// A line of the log that the terminal shows with Loudness::verbose alone.
void log_aside(const std::string& line, Place place = Place::here());

/// A line of fields on the terminal that redraws itself. It leaves room for ^C, which terminals
/// show where it ends, and never fills the last column, so that no terminal begins another line.
/// What say() and show() print goes above it.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { end(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether to draw now: no faster than eyes follow, but the last state always.
  bool due(bool last) const;
  /// Draws the fields that fit, in the place of what was drawn before. What once did not
  /// fit stays away until the terminal gets another width, so that the line is steady.
  void draw(const std::vector<Field>& fields);
  void draw(const std::string& text) { draw(std::vector{Field{text}}); }
  /// Leaves what is drawn; what is printed next begins a new line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point drawn_at_;
  bool was_drawn_ = false;
  size_t columns_ = 0;
  size_t shown_ = 0;  // fields
  bool has_notes_ = true;
};

}  // namespace crema::tools
