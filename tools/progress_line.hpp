// A line on the terminal that redraws itself.
#pragma once

#include <chrono>
#include <string>

namespace crema::tools {

/// Whether stderr is a terminal that a progress line can be drawn on.
bool on_terminal();

class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { end(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether to draw now: no faster than eyes follow, but the last state always.
  bool due(bool last) const;
  void draw(const std::string& text);
  /// Leaves what is drawn; what is printed next begins a new line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  bool drawn_ = false;
  Clock::time_point drawn_at_;
};

}  // namespace crema::tools
