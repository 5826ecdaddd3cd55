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

/// The letter that stands behind the backslash of a control character in a text ('n' for a line
/// break), or '\0'.
char escape_letter(char control);

/// The text as it can stand within a line: control characters as \n, \t, \xhh and the like, and
/// bytes that are no UTF-8 as \xhh. Backslashes stay as they are, so that a text may pass twice.
std::string printable(std::string_view text);
/// The same for a message, which may have several lines: the line breaks stay that two spaces or
/// more follow, with which messages begin their further lines.
std::string printable_message(std::string_view text);

/// The text as XML 1.0 and Graphviz can hold it: printable(), and U+FFFD in the place of U+FFFE and
/// U+FFFF.
std::string drawable(std::string_view text);

}  // namespace crema
