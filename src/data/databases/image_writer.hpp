// A folder of image files, which has its name when it is whole.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "data/databases/folder_beside.hpp"

namespace crema {

class ImageWriter {
 public:
  /// Error unless `path` is new, or an empty folder.
  explicit ImageWriter(const std::string& path);
  /// Without finish(): removes what was written.
  ~ImageWriter();
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  /// Adds a file, and the folders that its name has. Error for a name that was written already.
  void write(const std::string& name, std::string_view bytes) const;
  void finish();

 private:
  std::filesystem::path path_;
  FolderBeside folder_;
};

}  // namespace crema
