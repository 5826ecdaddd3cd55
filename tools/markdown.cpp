#include "tools/markdown.hpp"

#include <sstream>

namespace crema::tools {
namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_row(std::string_view line) { return line.starts_with('|'); }
bool is_rule(std::string_view line) {
  return is_row(line) && line.find_first_not_of("|-: \r") == std::string_view::npos;
}

TableRow cells_of(std::string_view row) {
  TableRow cells;
  std::string cell;
  bool code = false;
  for (const char c : row.substr(1)) {
    if (c == '`') code = !code;
    if (c == '|' && !code) {
      cells.push_back(trimmed(cell));
      cell.clear();
    } else {
      cell += c;
    }
  }
  if (const std::string open = trimmed(cell); !open.empty()) cells.push_back(open);
  return cells;
}

std::string row_of(const TableRow& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += (cell.empty() ? "" : " ") + cell + " |";
  return row;
}

std::vector<Table> tables_of(std::string_view page) {
  std::vector<Table> tables;
  bool code = false, inside = false;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```")) code = !code;
    const bool row = !code && is_row(line);
    if (row && !inside) tables.emplace_back();
    inside = row;
    if (row && !is_rule(line)) tables.back().push_back(cells_of(line));
  }
  // A lone rule is no table.
  std::erase_if(tables, [](const Table& table) { return table.empty(); });
  return tables;
}

std::string without_marks(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '`') continue;
    if (text.compare(i, 2, "**") == 0) {
      ++i;
      continue;
    }
    const size_t link = text[i] == '[' ? text.find("](", i) : std::string::npos;
    const size_t end = link == std::string::npos ? link : text.find(')', link);
    if (end != std::string::npos && text.find(']', i) == link) {
      result += text.substr(i + 1, link - i - 1);
      i = end;
      continue;
    }
    result += text[i];
  }
  return result;
}

}  // namespace crema::tools
