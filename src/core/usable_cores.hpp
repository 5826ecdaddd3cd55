// How many processor cores there are to work on.
#pragma once

namespace crema {

/// Cores that the scheduler lets this process run on: fewer than the machine has inside a container
/// or under taskset. At least 1.
int usable_cores();

}  // namespace crema
