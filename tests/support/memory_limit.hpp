// Tests of what happens when memory runs out.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

namespace crema::test {

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
