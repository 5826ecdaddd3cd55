#include "data/records/text_list.hpp"

#include <filesystem>

#include "core/path_advice.hpp"
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

TextLines::TextLines(const std::string& path, std::string_view what, std::string_view entries)
    : path_(path), what_(what), entries_(entries), file_(path) {
  if (!file_.good())
    throw Error("cannot open the ", what, " '", path, "'",
                path_advice(path, text("give a text file with ", entries)))
        .about(path);
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  const FileKind kind = kind_of_file(path);
  if (kind == FileKind::wide_text)
    throw Error("'", path, "' is ", describe(kind), "; save it as UTF-8");
  if (const std::string way_out = way_out_of(kind); !way_out.empty())
    throw Error("'", path, "' is ", describe(kind), ", and no ", what, way_out);
  if (kind == FileKind::hdf5 || kind == FileKind::image || kind == FileKind::compressed ||
      is_foreign(kind))
    throw Error("'", path, "' is ", describe(kind), "; give a text file with ", entries);
}

std::optional<std::string_view> TextLines::next() {
  while (std::getline(file_, text_)) {
    std::string_view content = text_;
    if (++line_ == 1 && content.starts_with(kByteOrderMark))
      content.remove_prefix(kByteOrderMark.size());
    content = trimmed(content);
    if (!content.empty()) return content;
  }
  // A folder opens, and fails at the first read.
  if (file_.bad())
    throw Error("cannot read the ", what_, " '", path_, "'; give a text file with ", entries_)
        .about(path_);
  return std::nullopt;
}

void read_text_list(const std::string& path, std::string_view entries,
                    const std::function<void(std::string_view text, int64_t line)>& body) {
  TextLines lines(path, "list", entries);
  bool empty = true;
  while (const auto text = lines.next()) {
    empty = false;
    try {
      body(*text, lines.line());
    } catch (Error& error) {
      error.at({path, static_cast<int>(lines.line()), 0});
      throw;
    }
  }
  if (empty) throw Error("the list '", path, "' is empty; give ", entries);
}

}  // namespace crema
