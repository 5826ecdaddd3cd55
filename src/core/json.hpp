// Texts and numbers of JSON that is written.
#pragma once

#include <string>
#include <string_view>

namespace crema {

/// The text as a JSON string: in quotes, with what may not stand there escaped. A byte that is no
/// UTF-8, as names of files may have, becomes U+FFFD.
std::string json_string(std::string_view text);

/// The number in as many digits as its type needs; NaN and infinities, which JSON has none of, as
/// null.
std::string json_number(double value);
std::string json_number(float value);

}  // namespace crema
