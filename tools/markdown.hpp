// The tables of pages in Markdown, and their text without its marks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

/// The cells of a row, without the spaces around them.
using TableRow = std::vector<std::string>;
/// The first row is the header.
using Table = std::vector<TableRow>;

std::vector<std::string> lines_of(std::string_view text);

/// Whether a line outside of code is a row of a table, and whether such a row is the rule below the
/// header, or says nothing.
bool is_row(std::string_view line);
bool is_rule(std::string_view line);

/// The cells of a row. A `|` in code does not end one.
TableRow cells_of(std::string_view row);
/// The row with these cells.
std::string row_of(const TableRow& cells);

/// All tables of a page.
std::vector<Table> tables_of(std::string_view page);

/// Without the marks for code, bold text and links.
std::string without_marks(const std::string& text);

}  // namespace crema::tools
