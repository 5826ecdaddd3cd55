// Writes a file piece by piece, so that its name stands for the old contents or for all of the new.
#pragma once

#include <string>
#include <string_view>

namespace crema {

class WholeFile {
 public:
  /// Writes beside `path`, under the name of unfinished_path(). Error when that cannot be made.
  explicit WholeFile(const std::string& path);
  /// Without finish(): removes what was written.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void append(std::string_view bytes);
  /// Adds a file's contents, and writes all to the file beside.
  void append_file(const std::string& path);
  /// Puts `bytes` in the place of those at the beginning of the file.
  void replace_head(std::string_view bytes);
  /// Writes all to the disk, not under the file's name yet. Neither append nor replace_head
  /// afterwards.
  void sync();
  /// sync(), and renames.
  void finish();

  /// The file beside, for what changes it in place, and its descriptor.
  const std::string& beside() const { return beside_; }
  int descriptor() const { return descriptor_; }
  /// Error for an errno that is not 0.
  void check(int reason) const {
    if (reason != 0) fail(reason);
  }

 private:
  void flush();
  void write(std::string_view bytes);
  [[noreturn]] void fail(int reason) const;

  std::string path_, beside_;
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace crema
