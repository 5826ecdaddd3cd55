// A text file in memory, for messages about it.
//
// Two ways to count columns meet here. Protocol Buffers counts from 0 and lets a tab jump to the
// next multiple of 8; a Position counts characters from 1, as editors do, a tab being one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"

namespace crema {

class SourceText {
 public:
  /// The text is kept without a leading byte order mark.
  SourceText(std::string name, std::string_view text);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  /// The place that Protocol Buffers calls (line, column). A line below 0 gives the file alone.
  Position position(int line, int column) const;

  /// The line of the position and, on a line of its own, a caret under its column; a long line is
  /// cut around the column. Starts with a line break. Empty when the position has no line.
  std::string excerpt(const Position& position) const;

 private:
  std::string_view line(int number) const;  // counting from 0, without its line break

  std::string name_;
  std::string text_;
  std::vector<size_t> line_starts_;
};

}  // namespace crema
