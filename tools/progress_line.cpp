#include "tools/progress_line.hpp"

#include <unistd.h>

#include <cstdio>

#include "core/utf8.hpp"

namespace crema::tools {

bool on_terminal() { return isatty(STDERR_FILENO) != 0; }

bool ProgressLine::due(bool last) const {
  return last || !drawn_ || Clock::now() - drawn_at_ >= std::chrono::milliseconds(100);
}

void ProgressLine::draw(const std::string& text) {
  std::fprintf(stderr, "\r\033[K%s", printable(text).c_str());
  std::fflush(stderr);
  drawn_ = true;
  drawn_at_ = Clock::now();
}

void ProgressLine::end() {
  if (drawn_) std::fputc('\n', stderr);
  drawn_ = false;
}

}  // namespace crema::tools
