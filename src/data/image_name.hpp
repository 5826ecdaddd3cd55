// Image files, told by their names or by their first bytes.
#pragma once

#include <string>
#include <string_view>

namespace crema {

/// The kind of file that a name says, in one spelling: "jpg" for "A.JPEG". "" for none.
std::string image_extension(std::string_view name);

/// Whether a file of this name holds an image that can be decoded.
bool is_image_name(std::string_view name);

}  // namespace crema
