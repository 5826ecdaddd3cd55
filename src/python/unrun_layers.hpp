// Layers that are to run backward and have not run forward.
#pragma once

#include <cstddef>

#include "crema/net.hpp"

namespace crema::python {

/// Before backward(first, last): runs forward those of its layers that have not run in the present
/// shapes. In pycaffe, a script may write the diff of a blob and go back from there at once. Data
/// layers among them take no batch.
void run_unrun_layers(Net& net, size_t first, size_t last);

}  // namespace crema::python
