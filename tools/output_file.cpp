#include "tools/output_file.hpp"

#include <filesystem>

#include "crema/error.hpp"
#include "model/whole_file.hpp"

namespace crema::tools {
namespace fs = std::filesystem;

void check_output_file(const std::string& path, const char* what) {
  if (path.empty()) throw Error(what, " has no name; name the file to write");
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw Error("cannot write '", path, "': it is a folder; name a file");
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    throw Error("cannot write '", path, "': there is no folder '", folder.string(),
                "'; make it first");
  const WholeFile probe(path);  // an Error where it cannot be made; nothing of it stays
}

}  // namespace crema::tools
