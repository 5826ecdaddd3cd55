// Tests of what happens when memory runs out.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

namespace crema::test {

/// Whether a program goes on where memory is refused to it. AddressSanitizer ends it, and both
/// sanitizers take more addresses than a limit leaves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kRefusesMemory = false;
#else
inline constexpr bool kRefusesMemory = true;
#endif
inline constexpr const char* kNeedsRefusedMemory =
    "needs a build without AddressSanitizer and ThreadSanitizer, under which the process ends "
    "where "
    "memory is refused: set no CREMA_SANITIZE";

/// A limit of the address space, `more` bytes above what is in use.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t more) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_GT(pages, 0u);
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + more;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_;
};

}  // namespace crema::test
