// The net that crema.Estimator trains, of the net that its caller describes.
#pragma once

#include <nanobind/nanobind.h>

namespace crema::python {

void bind_classifier_net(nanobind::module_& module);

}  // namespace crema::python
