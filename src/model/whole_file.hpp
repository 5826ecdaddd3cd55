// Writes a file so that its name stands for the old contents or for all of the new at any moment,
// through a crash of the program and, where the file system can sync folders, of the machine.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace crema {

/// <path>.tmp.<host>.<process id>: the name of a file that this process has not finished.
std::string unfinished_path(const std::string& path);

/// Removes a file that a WholeFile was writing when its process was killed, on this machine, or a
/// link with such a name. Leaves, and returns false for, every other file: one that is still
/// written, one of another machine that shares the folder, one with another name.
bool remove_abandoned(const std::string& path);
/// Removes those files that a WholeFile of `path` left: they lie beside the file that links lead
/// to.
void remove_abandoned_of(const std::string& path);

/// Writes all bytes to an open file. Returns 0 or an errno.
int write_all(int descriptor, std::string_view bytes) noexcept;

/// Error unless `path` names a file in a folder that exists and can be written to: before hours of
/// work for it. `what` is the output in words, such as "the mean image".
void check_output_file(const std::string& path, const char* what = "the output");

class WholeFile {
 public:
  /// Makes an empty file beside `path`, under the name of unfinished_path(), and locks it until
  /// this object ends, so that remove_abandoned() leaves it. Where `path` is a symbolic link, the
  /// file that it leads to is written, and the link stays. Error when the file cannot be made, when
  /// this process is writing it already, and for a device or pipe, which no file may replace.
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
  /// sync(), and renames. The file has the mode of the one that it replaces.
  void finish();
  /// As finish(), without waiting for the disk: for files that are made again where they are lost.
  /// Behind a crash of the machine the name may stand for nothing. A crash of the program leaves
  /// the old contents or the new.
  void finish_unsynced();
  /// As finish_unsynced(). Returns the open file, which whoever calls closes. It is locked from
  /// before it had its name on.
  int finish_open();

  const std::string& path() const { return path_; }
  /// The file beside, for what else writes it, and its descriptor, open for reading and writing.
  const std::string& beside() const { return beside_; }
  int descriptor() const { return descriptor_; }
  /// Writes to the file beside, not through append()'s memory. Returns 0 or an errno.
  int write(std::string_view bytes) const noexcept { return write_all(descriptor_, bytes); }
  /// Error for an errno that is not 0: the file's name, the reason, and what to do about it.
  void check(int reason) const;

 private:
  void flush();
  void set_mode() const noexcept;
  void rename_beside();

  std::string path_;    // as it was named
  std::string target_;  // where links lead
  std::string beside_;
  std::optional<mode_t> mode_;  // of the file that is replaced
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace crema
