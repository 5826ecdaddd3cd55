// Lists in text files: an entry a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace crema {

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

/// Calls body(text, line) for each line that is not blank; `text` is trimmed, `line` counts from 1.
/// Adds file and line to Errors of the body. Error if the list cannot be read or has no entry;
/// `entries` says what a line holds, such as "lines 'file label'".
void read_text_list(const std::string& path, std::string_view entries,
                    const std::function<void(std::string_view text, int64_t line)>& body);

}  // namespace crema
