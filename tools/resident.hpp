// How much memory this process takes.
#pragma once

#include <cstdint>

namespace crema::tools {

/// Bytes of data in memory now, after freed memory was given back. Not counted: pages of files, as
/// programs and databases are, and machine code that libraries make while they run. 0 where the
/// system does not tell.
int64_t resident_bytes();

}  // namespace crema::tools
