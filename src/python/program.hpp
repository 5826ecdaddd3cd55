// The program crema as a function of the module.
#pragma once

#include <nanobind/nanobind.h>

namespace crema::python {

namespace nb = nanobind;

void bind_program(nb::module_& module);

}  // namespace crema::python
