#include "core/cache_size.hpp"

#include <unistd.h>

#include <algorithm>

namespace crema {

int64_t second_level_cache_bytes() {
  static const int64_t bytes = [] {
#ifdef _SC_LEVEL2_CACHE_SIZE
    const int64_t told = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (told > 0) return std::clamp<int64_t>(told, int64_t{256} << 10, int64_t{4} << 20);
#endif
    return int64_t{1} << 20;
  }();
  return bytes;
}

}  // namespace crema
