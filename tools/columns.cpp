#include "tools/columns.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "core/parse_number.hpp"

namespace crema::tools {
namespace {

constexpr size_t kBetween = 2;         // columns
constexpr size_t kColumnLimit = 26;    // of all columns but the last, where there is no room
constexpr size_t kSentenceWidth = 34;  // of the last column, while words of others allow it

/// Letters, not bytes.
size_t letters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

/// The parts of a text that stay whole: words, and folders of paths.
std::vector<std::string> whole_parts(const std::string& word) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < word.size();) {
    const size_t slash = word.find('/', at);
    const size_t end = slash == std::string::npos ? word.size() : slash + 1;
    parts.push_back(word.substr(at, end - at));
    at = end;
  }
  return parts;
}

size_t longest_part(const std::string& text) {
  size_t longest = 1;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    for (const std::string& part : whole_parts(word)) longest = std::max(longest, letters(part));
  }
  return longest;
}

std::vector<size_t> column_widths(const Table& rows, size_t columns, size_t width) {
  std::vector<size_t> widths(columns, 1), least(columns, 1);
  for (const TableRow& row : rows) {
    for (size_t k = 0; k < std::min(columns, row.size()); ++k) {
      widths[k] = std::max(widths[k], letters(row[k]));
      least[k] = std::max(least[k], longest_part(row[k]));
    }
  }
  const auto others = [&] {
    size_t sum = 0;
    for (size_t k = 0; k + 1 < columns; ++k) sum += widths[k] + kBetween;
    return sum;
  };
  if (others() + widths.back() <= width) return widths;
  for (size_t k = 0; k + 1 < columns; ++k)
    widths[k] = std::min(widths[k], std::max(least[k], kColumnLimit));
  while (others() + kSentenceWidth > width) {
    size_t widest = columns;
    for (size_t k = 0; k + 1 < columns; ++k) {
      if (widths[k] > least[k] && (widest == columns || widths[k] > widths[widest])) widest = k;
    }
    if (widest == columns) break;
    --widths[widest];
  }
  const size_t before = others();
  widths.back() = before + 12 < width ? width - before : 12;
  return widths;
}

}  // namespace

size_t terminal_width() {
  constexpr size_t kLeast = 40, kUsual = 100;
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0)
    return std::max<size_t>(kLeast, size.ws_col);
  const char* const given = std::getenv("COLUMNS");
  const auto columns = parse_number<int>(given != nullptr ? given : "");
  return columns && *columns > 0 ? std::max(kLeast, static_cast<size_t>(*columns)) : kUsual;
}

std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (!line.empty() && letters(line) + 1 + letters(word) <= width) {
      line += " " + word;
      continue;
    }
    if (!line.empty()) lines.emplace_back();
    // A path that is wider than a line is broken behind a slash.
    for (const std::string& part : whole_parts(word)) {
      const bool fits = letters(lines.back()) + letters(part) <= width;
      if (!fits && !lines.back().empty()) lines.emplace_back();
      lines.back() += part;
    }
  }
  return lines;
}

void print_table(const Table& rows, std::ostream& out, size_t width, size_t margin) {
  size_t columns = 0;
  for (const TableRow& row : rows) columns = std::max(columns, row.size());
  if (columns == 0) return;
  const std::vector<size_t> widths = column_widths(rows, columns, width - margin);
  for (const TableRow& row : rows) {
    std::vector<std::vector<std::string>> cells;
    size_t height = 1;
    for (size_t k = 0; k < columns; ++k) {
      cells.push_back(wrapped(k < row.size() ? row[k] : "", widths[k]));
      height = std::max(height, cells.back().size());
    }
    for (size_t i = 0; i < height; ++i) {
      std::string line(margin, ' ');
      for (size_t k = 0; k < columns; ++k) {
        const std::string cell = i < cells[k].size() ? cells[k][i] : "";
        line += cell;
        if (k + 1 < columns)
          line.append(widths[k] + kBetween - std::min(widths[k], letters(cell)), ' ');
      }
      out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
    }
  }
}

void print_whole(const std::string& text) {
  // What is left in the buffer of the last lines fails again at the end.
  for (const std::string& line : lines_of(text)) std::printf("%s\n", line.c_str());
}

}  // namespace crema::tools
