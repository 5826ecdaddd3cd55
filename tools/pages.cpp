#include "tools/pages.hpp"

#include <algorithm>
#include <sstream>

#include "tools/columns.hpp"

namespace crema::tools {
namespace {

/// Whether the line is a paragraph's, which may be wrapped anew.
bool is_prose(const std::string& line, bool code) {
  return !code && !line.empty() && !is_row(line) && line[0] != '#' && line[0] != ' ' &&
         !line.starts_with("- ") && !line.starts_with("```");
}

/// Up to a full stop or a colon, of which those in parentheses and quotes, and that of "et al.",
/// are none.
std::string first_sentence(const std::string& text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == '"') quoted = !quoted;
    const bool ends = (text[i] == '.' || text[i] == ':') && text[i + 1] == ' ';
    if (ends && depth <= 0 && !quoted && !text.substr(0, i).ends_with("et al"))
      return text.substr(0, i);
  }
  return text;
}

/// Without parentheses that hold the title of a paper.
std::string without_titles(std::string text) {
  for (size_t begin = 0; (begin = text.find(" (", begin)) != std::string::npos;) {
    const size_t end = text.find(')', begin), quote = text.find('"', begin);
    if (end == std::string::npos) break;
    if (quote < end) {
      text.erase(begin, end + 1 - begin);
    } else {
      begin = end;
    }
  }
  return text;
}

/// X of a page that says "a fork's name for [X](...)", or "`X` is another fork's name for it".
std::string other_name(const std::string& paragraph) {
  for (const std::string_view before : {"name for [", "name of ["}) {
    const size_t at = paragraph.find(before);
    if (at == std::string::npos) continue;
    const size_t begin = at + before.size();
    return paragraph.substr(begin, paragraph.find(']', begin) - begin);
  }
  const size_t at = paragraph.find("` is another fork's name for it");
  if (at == std::string::npos || at == 0) return "";
  const size_t begin = paragraph.rfind('`', at - 1) + 1;
  return paragraph.substr(begin, at - begin);
}

Page page_of(std::string_view text) {
  Page page{.text = text};
  bool code = false;
  std::string paragraph;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("```")) code = !code;
    if (page.type.empty() && line.starts_with("# ")) page.type = line.substr(2);
    if (is_prose(line, code)) {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    } else if (!paragraph.empty()) {
      break;
    }
  }
  page.same_as = other_name(paragraph);
  page.summary = without_titles(first_sentence(without_marks(paragraph)));
  if (page.summary.ends_with('.') || page.summary.ends_with(':')) page.summary.pop_back();
  return page;
}

}  // namespace

std::vector<Table> Page::tables() const { return tables_of(text); }

std::string Page::for_terminal(size_t width) const {
  std::ostringstream out;
  const std::vector<std::string> lines = lines_of(text);
  bool code = false;
  for (size_t i = 0; i < lines.size();) {
    const std::string& line = lines[i];
    if (line.starts_with("```")) {
      code = !code;
      ++i;
    } else if (code || line.starts_with("    ")) {
      out << (code ? "    " : "") << line << "\n";
      ++i;
    } else if (is_row(line)) {
      Table rows;
      for (; i < lines.size() && is_row(lines[i]); ++i) {
        if (is_rule(lines[i])) continue;
        rows.push_back(cells_of(lines[i]));
        for (std::string& cell : rows.back()) cell = without_marks(cell);
      }
      print_table(rows, out, width);
    } else if (is_prose(line, code)) {
      std::string paragraph;
      for (; i < lines.size() && is_prose(lines[i], code); ++i) paragraph += lines[i] + " ";
      for (const std::string& wrapped_line : wrapped(without_marks(paragraph), width)) {
        out << wrapped_line << "\n";
      }
    } else {
      out << without_marks(line.substr(std::min(line.find_first_not_of("# "), line.size())))
          << "\n";
      ++i;
    }
  }
  return out.str();
}

const std::vector<Page>& pages() {
  static const std::vector<Page> all = [] {
    std::vector<Page> found;
    for (const std::string_view text : page_texts()) found.push_back(page_of(text));
    std::ranges::sort(found, {}, &Page::type);
    return found;
  }();
  return all;
}

const Page* find_page(std::string_view type) {
  const auto found = std::ranges::find(pages(), type, &Page::type);
  return found == pages().end() ? nullptr : &*found;
}

}  // namespace crema::tools
