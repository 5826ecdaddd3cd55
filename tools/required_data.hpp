// For commands that run a net on records of its own.
#pragma once

#include "crema/net.hpp"

namespace crema::tools {

/// Error if the net has inputs: a command has no values for them, and they would be zeros.
void require_data(const Net& net);

/// Warns that a net with inputs trains on zeros.
void warn_of_inputs(const Net& net);

/// Warns for each source of data of which so many batches take some records more often than others.
/// `setting` is where the number of batches was given.
void warn_of_repeats(const Net& net, int64_t batches, const char* setting);

}  // namespace crema::tools
