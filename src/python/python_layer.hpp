// The layer type Python: a layer whose methods are those of a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include "crema/layer.hpp"

namespace crema::python {

/// The object of a layer of that type; None for other layers. With the GIL.
nanobind::object object_of(const Layer& layer);

/// Registers the type.
void bind_python_layer(nanobind::module_& module);

}  // namespace crema::python
