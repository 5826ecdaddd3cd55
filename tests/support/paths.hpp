// Where tests find files: the sources, and real data that is not part of them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace crema::test {

/// A file or folder below the environment variable, or below `standard` where that is not set.
inline std::filesystem::path path_below(const char* variable, const char* standard,
                                        std::string_view path) {
  const char* set = std::getenv(variable);
  return std::filesystem::path(set != nullptr && *set != '\0' ? set : standard) / path;
}

/// A file of the repository, as in source_path("models/lenet/deploy.prototxt").
inline std::filesystem::path source_path(std::string_view path) {
  return path_below("CREMA_SOURCE_DIR", CREMA_SOURCE_DIR, path);
}

/// Real data that some tests read, as in shared_path("data/mnist"). A test that misses it has to
/// skip and name it.
inline std::filesystem::path shared_path(std::string_view path) {
  return path_below("CREMA_SHARED_DIR", CREMA_SHARED_DIR, path);
}

}  // namespace crema::test
