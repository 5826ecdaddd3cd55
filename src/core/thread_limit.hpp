// How many threads a context may have.
#pragma once

namespace crema {

/// More is a mistake, such as a size in bytes.
inline constexpr int kMaxThreads = 4096;

}  // namespace crema
