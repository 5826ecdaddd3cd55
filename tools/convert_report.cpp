#include "tools/convert_report.hpp"

#include <memory>
#include <utility>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/interruption.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

/// What a command shows of its progress, which it can be stopped at.
struct Shown {
  std::string what;
  Interruption interruption;
  ProgressLine line;

  explicit Shown(std::string of) : what(std::move(of)) {}

  void show(int64_t done, int64_t total) {
    interruption.check();
    if (on_terminal()) {
      if (line.due(done == total)) line.draw(text(done, " of ", total, " records"));
    } else if (done % 1000 == 0 || done == total) {
      say(text("Processed ", done, " ", what, "."));
    }
  }
};

}  // namespace

ConvertProgress show_progress(const std::string& what) {
  return [shown = std::make_shared<Shown>(what)](int64_t done, int64_t total) {
    shown->show(done, total);
  };
}

void report(const ConvertReport& result, const std::string& output) {
  for (const auto& problem : result.problems) say(Severity::warning, problem);
  if (result.bad > static_cast<int64_t>(result.problems.size())) {
    say(Severity::warning,
        text("and ", result.bad - static_cast<int64_t>(result.problems.size()), " more"));
  }
  for (const auto& warning : result.warnings) say(Severity::warning, warning);
  say(text(result.written, " records written to ", printable(output),
           result.bad ? text(", ", result.bad, " bad ones left out") : ""));
}

}  // namespace crema::tools
