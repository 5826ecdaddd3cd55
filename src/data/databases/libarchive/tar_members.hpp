// The members of a tar file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace crema {

struct TarMember {
  std::string path;    // without "./" in front
  int64_t offset = 0;  // of its bytes in the tar file
  int64_t size = 0;
  bool has_holes = false;         // its bytes are not all stored
  bool is_symbolic_link = false;  // without bytes
  std::string hard_link;          // path of the member that has its bytes, if it has none
};

/// What a tar file was when its members were listed.
struct TarFile {
  std::string path;
  int64_t bytes = 0;
  int64_t changed = 0;  // nanoseconds since 1970
};

/// Calls body(member) for each file and link in the order of the tar file.
/// Error, naming the tar file, if it is none, is compressed, damaged or cut off.
TarFile list_tar(const std::string& path, const std::function<void(const TarMember&)>& body);

/// A tar file, open for reading its members at their places.
class TarBytes {
 public:
  /// Error if the file is another one than when it was listed.
  explicit TarBytes(const TarFile& file);
  ~TarBytes();
  TarBytes(const TarBytes&) = delete;
  TarBytes& operator=(const TarBytes&) = delete;

  void read(int64_t offset, int64_t size, std::string& bytes) const;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace crema
