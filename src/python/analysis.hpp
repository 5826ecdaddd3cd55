// What a net is, as text and as pictures.
#pragma once

#include <nanobind/nanobind.h>

namespace crema::python {

namespace nb = nanobind;

void bind_analysis(nb::module_& module);

}  // namespace crema::python
