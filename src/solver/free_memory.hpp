#pragma once

#include <cstddef>

#include "crema/context.hpp"

namespace crema {

/// Bytes that the context's device has free, or the machine and the group of processes that this
/// one is in.
size_t free_memory(const Context& context);

}  // namespace crema
