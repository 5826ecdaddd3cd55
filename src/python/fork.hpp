// Processes that were forked from one that has run nets.
#pragma once

namespace crema::python {

/// Call it before anything that runs threads or a GPU. Error in a process that was forked from one
/// that had called it: these threads are not in the copy, so a parallel loop would wait for them
/// for ever.
void need_threads();

/// Whether this process is such a copy.
bool is_forked();

/// Once, when the module is imported.
void watch_forks();

}  // namespace crema::python
