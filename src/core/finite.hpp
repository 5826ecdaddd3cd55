// Values that are not finite, for messages.
#pragma once

#include <string>

#include "crema/tensor.hpp"

namespace crema {

/// The first element in logical order that is NaN or infinite; -1 if there is none. Runs on the
/// host.
int64_t first_not_finite(const Tensor& tensor);

/// As text() writes it, but that NaN has no sign: "nan", "-inf", "0.5".
std::string number_word(double value);
/// "nan at (3, 0, 5)", an index for each axis; "nan" for the element of a scalar.
std::string describe_element(const Tensor& tensor, int64_t index);

}  // namespace crema
