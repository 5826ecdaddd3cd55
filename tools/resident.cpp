#include "tools/resident.hpp"

#include <malloc.h>

#include <fstream>
#include <sstream>
#include <string>

#include "core/parse_number.hpp"

namespace crema::tools {

// RssAnon in /proc/self/status counts machine code too: oneDNN makes 3.4 MB of it for the first
// matrix product of a process, which is no memory of that net.
int64_t resident_bytes() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ifstream file("/proc/self/smaps");
  int64_t kilobytes = 0;
  bool data = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first.find('-') != std::string::npos) {  // a mapping: its addresses, and its rights
      data = second.find('x') == std::string::npos;
    } else if (data && first == "Anonymous:") {
      kilobytes += parse_number<int64_t>(second).value_or(0);
    }
  }
  return kilobytes * 1024;
}

}  // namespace crema::tools
