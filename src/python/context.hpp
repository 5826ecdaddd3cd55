// Context in Python. Nets and solvers own a share of theirs.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "crema/context.hpp"

namespace crema::python {

namespace nb = nanobind;

struct SharedContext {
  std::shared_ptr<Context> context;
};

void bind_context(nb::module_& module);

}  // namespace crema::python
