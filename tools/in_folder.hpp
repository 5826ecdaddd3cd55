// Another working directory for a while.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace crema::tools {

/// Paths in a run's nets are those of where it was started. The folder before is the working
/// directory again at the end. A folder that is "" or not there changes nothing. Of the whole
/// process: one at a time.
class InFolder {
 public:
  explicit InFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::error_code failed;
    if (!folder.empty() && std::filesystem::is_directory(folder, failed))
      std::filesystem::current_path(folder, failed);
  }
  ~InFolder() {
    std::error_code failed;
    std::filesystem::current_path(before_, failed);
  }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace crema::tools
