#include "tools/required_data.hpp"

#include "crema/error.hpp"

namespace crema::tools {

void require_data(const Net& net) {
  if (net.inputs().empty()) return;
  throw Error(
      "input '", net.inputs()[0],
      "' of the net has no values here, and would be zeros; put a data layer in its place "
      "(`crema layers Data`). `crema classify` and `crema detect` give images to an input, and "
      "the C++ API anything else");
}

}  // namespace crema::tools
