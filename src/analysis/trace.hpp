// A recorded run as a trace for ui.perfetto.dev, chrome://tracing and TensorBoard.
#pragma once

#include <string>

#include "analysis/profile.hpp"

namespace crema {

/// In the Trace Event Format, JSON. Threads are rows: the one that runs the net, those that load
/// data, and of a device its steps and each of its streams. Spans of steps have shapes, engine,
/// GFLOP and MB of the step as arguments.
std::string trace_json(const Net& net, const ProfileRun& run);

}  // namespace crema
