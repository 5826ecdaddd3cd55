#include "data/text_list.hpp"

#include <filesystem>
#include <fstream>

#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

// Editors of Windows put it in front of a text in UTF-8.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

void read_text_list(const std::string& path, std::string_view entries,
                    const std::function<void(std::string_view text, int64_t line)>& body) {
  std::ifstream file(path);
  if (!file.good())
    throw Error("cannot open the list '", path, "'; give a text file with ", entries);
  if (std::filesystem::is_regular_file(path)) {
    const FileKind kind = kind_of_file(path);
    if (kind == FileKind::wide_text)
      throw Error("'", path, "' is ", describe(kind), "; save it as UTF-8");
    if (kind == FileKind::hdf5 || kind == FileKind::image || kind == FileKind::compressed)
      throw Error("'", path, "' is ", describe(kind), "; give a text file with ", entries);
  }
  std::string text;
  bool empty = true;
  for (int64_t line = 1; std::getline(file, text); ++line) {
    std::string_view content = text;
    if (line == 1 && content.starts_with(kByteOrderMark))
      content.remove_prefix(kByteOrderMark.size());
    content = trimmed(content);
    if (content.empty()) continue;
    empty = false;
    try {
      body(content, line);
    } catch (Error& error) {
      error.at({path, static_cast<int>(line), 0});
      throw;
    }
  }
  // A folder opens, and fails at the first read.
  if (file.bad()) throw Error("cannot read the list '", path, "'; give a text file with ", entries);
  if (empty) throw Error("the list '", path, "' is empty; give ", entries);
}

}  // namespace crema
