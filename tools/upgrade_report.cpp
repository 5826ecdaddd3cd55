#include "tools/upgrade_report.hpp"

#include <filesystem>

#include "core/utf8.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {

int upgrade_file(const std::string& command, const std::vector<std::string>& arguments,
                 const std::function<Upgrade(const std::string& path)>& upgrade,
                 const std::function<void(const std::string& path)>& write,
                 const OutputKind& kind) {
  if (arguments.size() != 2)
    throw Error(command, " takes an old file and the file to write; got ", arguments.size(),
                " arguments");
  const std::string &in = arguments[0], &out = arguments[1];
  const Upgrade done = upgrade(in);
  for (const auto& warning : done.warnings) say(Severity::warning, warning);
  for (const auto& change : done.changes) say(change);
  std::error_code unknown;
  const bool same = std::filesystem::equivalent(in, out, unknown);
  if (done.changes.empty()) {
    say(text(printable(in), " is in the current form already", same ? "; it stays as it is" : ""));
    if (same) return 0;
  }
  if (same && !FLAGS_overwrite)
    throw Error("'", out, "' is the old file and the new one; give another name, or --overwrite");
  check_replaced(out, {}, kind);
  write(out);
  say(text("Wrote ", printable(out)));
  return 0;
}

}  // namespace crema::tools
