// Text in the width of a terminal.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "tools/markdown.hpp"

namespace crema::tools {

/// Columns of the terminal that standard output is. Where it is none, those that the variable
/// COLUMNS says, or 100. At least 40.
size_t terminal_width();

/// Lines of at most `width` letters, where words allow it; at least one, which may be empty.
std::vector<std::string> wrapped(const std::string& text, size_t width);

/// Prints a table `margin` columns from the left, its cells wrapped to fit `width`. The last
/// column, of sentences, gets the most room.
void print_table(const Table& rows, std::ostream& out, size_t width, size_t margin = 2);

/// Prints the lines of a text to standard output by the C library, which knows at the end why they
/// could not be written.
void print_whole(const std::string& text);

}  // namespace crema::tools
