#include "core/sync_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace crema {

void sync_folder(const std::filesystem::path& folder) noexcept {
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace crema
