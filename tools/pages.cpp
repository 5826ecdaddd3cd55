#include "tools/pages.hpp"

#include <algorithm>
#include <sstream>

namespace crema::tools {
namespace {

constexpr size_t kWidth = 100;       // of a terminal
constexpr size_t kColumnLimit = 40;  // of all columns of a table but the last

/// Letters, not bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

/// Lines of at most `width` letters, where words allow it.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (width_of(line) + 1 + width_of(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

void print_table(const Table& rows, std::ostream& out) {
  const size_t columns = rows[0].size();
  std::vector<size_t> widths(columns, 1);
  for (const TableRow& row : rows) {
    for (size_t k = 0; k + 1 < std::min(columns, row.size()); ++k) {
      widths[k] = std::max(widths[k], std::min(width_of(without_marks(row[k])), kColumnLimit));
    }
  }
  size_t before = 2;
  for (size_t k = 0; k + 1 < columns; ++k) before += widths[k] + 2;
  widths.back() = before + 20 < kWidth ? kWidth - before : 20;
  for (const TableRow& row : rows) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (size_t k = 0; k < columns; ++k) {
      cells.push_back(wrapped(k < row.size() ? without_marks(row[k]) : "", widths[k]));
      height = std::max(height, cells.back().size());
    }
    for (size_t i = 0; i < height; ++i) {
      std::string line = "  ";
      for (size_t k = 0; k < columns; ++k) {
        const std::string cell = i < cells[k].size() ? cells[k][i] : "";
        line += cell;
        if (k + 1 < columns) line.append(widths[k] + 2 - std::min(widths[k], width_of(cell)), ' ');
      }
      out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
    }
  }
}

/// Whether the line is a paragraph's, which may be wrapped anew.
bool is_prose(const std::string& line, bool code) {
  return !code && !line.empty() && !is_row(line) && line[0] != '#' && line[0] != ' ' &&
         !line.starts_with("- ") && !line.starts_with("```");
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
  const std::string sentence = without_marks(paragraph);
  const size_t end = std::min(sentence.find(". "), sentence.find(": "));
  page.summary = sentence.substr(0, end);
  if (page.summary.ends_with('.') || page.summary.ends_with(':')) page.summary.pop_back();
  return page;
}

}  // namespace

std::vector<Table> Page::tables() const { return tables_of(text); }

std::string Page::for_terminal() const {
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
        if (!is_rule(lines[i])) rows.push_back(cells_of(lines[i]));
      }
      print_table(rows, out);
    } else if (is_prose(line, code)) {
      std::string paragraph;
      for (; i < lines.size() && is_prose(lines[i], code); ++i) paragraph += lines[i] + " ";
      for (const std::string& wrapped_line : wrapped(without_marks(paragraph), kWidth)) {
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
