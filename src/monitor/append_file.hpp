// A file that grows by whole lines or records, so that a program that is killed leaves a file that
// can be read.
#pragma once

#include <string>
#include <string_view>

namespace crema {

class AppendFile {
 public:
  AppendFile() = default;
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Opens the file, which is made where it is missing. `lines`: what is behind the last end of a
  /// line is cut off. Returns 0 or an errno.
  int open(const std::string& path, bool lines) noexcept;
  bool is_open() const { return descriptor_ >= 0; }
  /// Whether no other process holds the file by this. The lock stays until the file is closed or
  /// the process ends. False, too, if another file has taken its name since.
  bool lock() noexcept;
  /// Puts a file of this content in the place of the one that is open, and goes on with it; the
  /// name stands for one of them at any moment. The new one is locked before it has the name. Error
  /// where it cannot be written; the old one stays open then.
  void replace(const std::string& path, std::string_view content);
  /// Adds all bytes by one write where the system takes them at once; where it does not take all,
  /// the file is set back to what it was. Returns 0 or an errno; without a file, EBADF.
  int append(std::string_view bytes) noexcept;
  void close() noexcept;

 private:
  int descriptor_ = -1;
  std::string path_;
};

/// Whether another process holds the lock of the file.
bool is_locked(const std::string& path) noexcept;

}  // namespace crema
