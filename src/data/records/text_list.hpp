// Lists in text files: an entry a line.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace crema {

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

/// The lines of a text file that are not blank, trimmed, without a byte order mark before them.
class TextLines {
 public:
  /// Error if the file cannot be opened, or is of UTF-16, an image, HDF5 or compressed. In
  /// messages, `what` is what the file is ("list"), and `entries` what it holds, such as "lines
  /// 'file label'".
  TextLines(const std::string& path, std::string_view what, std::string_view entries);

  /// None at the end of the file. Valid until the next call. Error if the file cannot be read.
  std::optional<std::string_view> next();
  /// The number of the last line, from 1.
  int64_t line() const { return line_; }

 private:
  std::string path_, what_, entries_;
  std::ifstream file_;
  std::string text_;
  int64_t line_ = 0;
};

/// Calls body(text, line) for each line that is not blank; `text` is trimmed, `line` counts from 1.
/// Adds file and line to Errors of the body. Error if the list cannot be read or has no entry;
/// `entries` says what a line holds, such as "lines 'file label'".
void read_text_list(const std::string& path, std::string_view entries,
                    const std::function<void(std::string_view text, int64_t line)>& body);

}  // namespace crema
