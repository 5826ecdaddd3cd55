#include "tools/run_log.hpp"

#include <cstring>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

namespace crema::tools {

RunLog::RunLog() { google::AddLogSink(this); }
RunLog::~RunLog() { google::RemoveLogSink(this); }

void RunLog::check() {
  if (const int failure = file_.take_failure(); failure != 0)
    say(Severity::warning,
        text("'", printable(file_.path()), "' lacks lines of the log: ", std::strerror(failure)));
}

void RunLog::send(google::LogSeverity severity, const char* /*path*/, const char* name, int line,
                  const google::LogMessageTime& /*time*/, const char* message, size_t length) {
  file_.add("IWEF" [severity], name, line, { message, length });
}

}  // namespace crema::tools
