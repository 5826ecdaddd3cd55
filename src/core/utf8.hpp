// Text whose bytes may be no UTF-8, as names of files and keys of records.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crema {

/// The bytes of the character with which `text` begins; 0 where it begins with no UTF-8, or is
/// empty.
size_t utf8_length(std::string_view text);

/// The text with bytes that are no UTF-8 as \xhh.
std::string as_utf8(std::string_view text);

/// \xhh.
std::string escaped_byte(char byte);

}  // namespace crema
