#include "fuzz/target.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace crema::fuzz {
namespace {

/// Bytes of address space that the process has.
rlim_t mapped_bytes() {
  static const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[32] = "";
  if (::pread(file, text, sizeof text - 1, 0) <= 0) fail("/proc/self/statm cannot be read");
  return std::strtoul(text, nullptr, 10) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void limit_mapped_bytes(rlim_t bytes) {
  struct rlimit limit {};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  if (::setrlimit(RLIMIT_AS, &limit) != 0) fail("the memory of the process cannot be limited");
}

}  // namespace

void fail(std::string_view why) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(why.size()), why.data());
  std::abort();
}

MemoryLimit::MemoryLimit(size_t bytes) { limit_mapped_bytes(mapped_bytes() + bytes); }
MemoryLimit::~MemoryLimit() { limit_mapped_bytes(RLIM_INFINITY); }

Context& quiet_context() {
  static Context context({.threads = 1, .tune = false});
  return context;
}

const TempFolder& working_folder() {
  static const TempFolder folder;
  return folder;
}

std::string write_input(const std::string& name, const uint8_t* bytes, size_t count) {
  const std::string path = working_folder().path(name);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || ::write(file, bytes, count) != static_cast<ssize_t>(count))
    fail("the input cannot be written to " + path);
  ::close(file);
  return path;
}

}  // namespace crema::fuzz

// --- Memory -------------------------------------------------------------
//
// The sanitizers end the program where the standard library throws std::bad_alloc. With these it is
// thrown under them too.
//
// Freed memory is kept back to catch its use: 16 MiB, which is that of hundreds of inputs, and
// which the processor's cache holds longer than the usual 256. Stacks of allocations have 12
// frames.

extern "C" const char* __asan_default_options();
const char* __asan_default_options() {
  return "allocator_may_return_null=1:quarantine_size_mb=16:malloc_context_size=12";
}

namespace {

void* allocated(size_t bytes) {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocated(bytes); }
void* operator new[](size_t bytes) { return allocated(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
