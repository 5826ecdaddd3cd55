// Solver in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace crema::python {

namespace nb = nanobind;

void bind_solver(nb::module_& module);

}  // namespace crema::python
