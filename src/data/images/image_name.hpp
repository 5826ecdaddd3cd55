// Image files, told by their names or by their first bytes.
#pragma once

#include <string>
#include <string_view>

namespace crema {

/// The kind of file that a name says, in one spelling: "jpg" for "A.JPEG", "tif" for "a.tiff". ""
/// for none.
std::string image_extension(std::string_view name);

/// Whether a file of this name holds an image that can be decoded.
bool is_image_name(std::string_view name);

/// Error unless a file begins as an image of a kind that can be decoded; it names what is there
/// instead.
void check_is_image(std::string_view file);

}  // namespace crema
