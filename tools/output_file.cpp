#include "tools/output_file.hpp"

#include <filesystem>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "data/databases/database_folder.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

bool called_by_published_name = false;

fs::path canonical(const std::string& path) {
  std::error_code failed;
  const fs::path whole = fs::weakly_canonical(path, failed);
  if (failed) throw Error("'", path, "' cannot be reached: ", failed.message());
  return whole;
}

}  // namespace

void set_called_by_published_name(bool is_published) { called_by_published_name = is_published; }

bool is_called_by_published_name() { return called_by_published_name; }

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  return canonical(a) == canonical(b) || fs::equivalent(a, b, failed);
}

void check_replaced(const std::string& path, const std::vector<std::string>& inputs,
                    const OutputKind& kind) {
  for (const std::string& input : inputs) {
    if (is_same_file(path, input))
      throw Error("'", path, "' is given twice, and would be written over '", input,
                  "'; give another name");
  }
  std::error_code failed;
  if (!fs::exists(path, failed)) return;
  // It is not read to tell its kind: a pipe would keep the reader waiting for ever.
  if (!fs::is_regular_file(path, failed) && !fs::is_directory(path, failed))
    throw Error("'", path, "' is a device or a pipe, and no file can take its place; name a file");
  if (is_database_file(fs::path(path).filename().string()))
    throw Error("'", path, "' is a file of a database, and is not overwritten; give another name");
  if (FLAGS_overwrite) return;
  const bool is_of_kind = kind.is_of_kind && kind.is_of_kind(path);
  if (is_of_kind && called_by_published_name) {
    say(text(printable(path), " exists already, a ", kind.name, ", and is replaced"));
    return;
  }
  throw Error("'", path, "' exists already",
              kind.is_of_kind && !is_of_kind ? ", and is no " + kind.name : "",
              "; give another name, or --overwrite");
}

}  // namespace crema::tools
