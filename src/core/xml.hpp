// Text within XML, such as SVG.
#pragma once

#include <string>
#include <string_view>

namespace crema {

/// The text with its marks as entities (&lt;). What XML cannot hold, drawable() (core/utf8.hpp)
/// replaces.
std::string xml_escaped(std::string_view text);

}  // namespace crema
