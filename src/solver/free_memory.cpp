#include "solver/free_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "core/device.hpp"

namespace crema {
namespace {

/// The number in a file; the largest one where there is none, as "max".
size_t number_in(const char* file) {
  size_t number = 0;
  return std::ifstream(file) >> number ? number : std::numeric_limits<size_t>::max();
}

size_t free_on_machine() {
  std::ifstream lines("/proc/meminfo");
  for (std::string name; lines >> name;) {
    size_t kibibytes = 0;
    if (name == "MemAvailable:" && lines >> kibibytes) return kibibytes * 1024;
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<size_t>::max();
}

}  // namespace

size_t free_memory(const Context& context) {
  if (context.on_gpu()) return context.backend().free_bytes();
  const size_t limit = number_in("/sys/fs/cgroup/memory.max");
  const size_t used = number_in("/sys/fs/cgroup/memory.current");
  return std::min(free_on_machine(), limit > used ? limit - used : limit);
}

}  // namespace crema
