// Layers in place: the library has a value for each version of a blob, each with memory of its own;
// in pycaffe they are one memory. The blob that is shown is the last version. These functions copy
// between it and the versions where a part of a net begins and ends, so that a script sees one.
#pragma once

#include <cstddef>

#include "crema/net.hpp"

namespace crema::python {

/// Before forward() of all layers: what Input layers give to layers in place is what is shown,
/// since scripts write there.
void before_forward(Net& net);
/// Before forward(first, last): what the part reads of earlier versions is what is shown.
void before_forward(Net& net, size_t first, size_t last);
/// Behind it: the last version that the part wrote is shown.
void after_forward(Net& net, size_t first, size_t last);
/// Before backward(first, last): the gradient of the part's tops is the one that is shown.
void before_backward(Net& net, size_t first, size_t last);
/// Behind it: the gradient of the first version that the part wrote is shown.
void after_backward(Net& net, size_t first, size_t last);

}  // namespace crema::python
