// Files that may be compressed by gzip, read from front to back.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace crema {

/// A plain file or one compressed by gzip; its first bytes tell which.
class GzipFile {
 public:
  /// Error if the file cannot be opened.
  explicit GzipFile(const std::string& path);

  const std::string& path() const { return path_; }
  /// Reads until `bytes` is full or the contents end, and returns how many bytes were read. Error
  /// if the file is cut off or damaged.
  size_t read(std::span<uint8_t> bytes);

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

/// NAME or NAME.gz in the folder, whichever is there. Error that ends with `way_out`, such as
/// "; get the file", if there is neither.
std::string plain_or_gzip(const std::string& folder, const std::string& name,
                          std::string_view way_out);

}  // namespace crema
