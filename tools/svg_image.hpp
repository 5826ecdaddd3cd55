// SVGs as images and pages.
#pragma once

#include <string>

namespace crema::tools {

/// Why there are no such pictures here; "" if there are. librsvg and cairo make them, which are
/// loaded at the first call: nothing is linked to them.
std::string why_no_svg_images();

enum class SvgImage : uint8_t { png, pdf };

/// The bytes of a file. PNG has two pixels for a unit of the SVG, and fewer where sides or memory
/// would be too large. Error without librsvg, and for what it refuses.
std::string svg_image(const std::string& svg, SvgImage kind);

/// How wide the text is in the fonts here, at a font size of 100. Error as above.
double svg_text_width(const std::string& text, const std::string& font_family);

}  // namespace crema::tools
