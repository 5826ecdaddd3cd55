// Numbers of things in messages.
#pragma once

#include <string>
#include <string_view>

#include "crema/error.hpp"

namespace crema {

/// "1 layer", "3 layers".
template <class Count>
std::string counted(Count count, std::string_view noun) {
  return text(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace crema
