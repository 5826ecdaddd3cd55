// Sizes of the processor's caches.
#pragma once

#include <cstdint>

namespace crema {

/// Bytes of a core's second-level cache, between 256 KiB and 4 MiB; 1 MiB where the system does not
/// say.
int64_t second_level_cache_bytes();

}  // namespace crema
