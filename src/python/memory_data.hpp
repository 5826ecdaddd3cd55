// Samples that Python gives a layer of type MemoryData while its net runs.
#pragma once

#include <nanobind/nanobind.h>

namespace crema::python {

void bind_memory_data(nanobind::module_& module);

}  // namespace crema::python
