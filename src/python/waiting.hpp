// Waits for data that Python makes in another thread: Ctrl-C ends them.
#pragma once

namespace crema::python {

/// While a pass waits for data, with the seconds that it has waited; without the GIL. Throws
/// KeyboardInterrupt for a Ctrl-C once the wait is longer than a second. In a shorter one, the
/// solver looks for signals behind the iteration, so that it stops with a snapshot.
void look_for_signals(double seconds);

}  // namespace crema::python
