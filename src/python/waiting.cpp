#include "python/waiting.hpp"

#include <nanobind/nanobind.h>

#include "python/errors.hpp"

namespace crema::python {
namespace {

constexpr double kSecondsBeforeSignals = 1;

}  // namespace

void look_for_signals(double seconds) {
  if (seconds < kSecondsBeforeSignals) return;
  call_python([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    // The handler of a solver notes Ctrl-C, and the iteration that it waits for may never end.
    nb::module_::import_("crema._solver").attr("end_wait")();
  });
}

}  // namespace crema::python
