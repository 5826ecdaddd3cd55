// Where the real data lie that some tests read and the repository does not hold.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace crema {

/// The environment variable CREMA_SHARED_DIR, else the folder that CMake was given. A test that
/// needs data skips, and names the path, where it is not there.
inline std::filesystem::path shared_dir() {
  const char* chosen = std::getenv("CREMA_SHARED_DIR");
  return chosen != nullptr ? chosen : CREMA_SHARED_DIR;
}

}  // namespace crema
