// What the tests of the data subsystem share: scratch folders and small databases.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/databases/open_database.hpp"
#include "proto/datum.pb.h"

namespace crema::test {

/// A fresh folder that is gone at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The path of `name` in it.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file into it and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::string& path);

using Records = std::vector<std::pair<std::string, std::string>>;

/// Writes a database of these records.
void write_database(const std::string& path, const Records& records,
                    DatabaseKind kind = DatabaseKind::lmdb);
/// All records of a database, in its order.
Records read_database(const std::string& path);

/// How many of the records are not those of `expected`, at the same places.
int different_records(RecordReader& reader, const Records& expected);

/// Pixels (C, H, W) as bytes, record-sized counts up from `first`.
Datum byte_datum(int channels, int height, int width, int label, int first = 0);
/// A database of `count` such records with keys "00000000", ...; the label of each is its number,
/// its pixels count up from its number.
Records counting_records(int count, int channels = 1, int height = 2, int width = 3);
void write_counting_database(const std::string& path, int count, int channels = 1, int height = 2,
                             int width = 3);

/// A tar file of these members (path, bytes) as POSIX has it, with its end mark.
std::string tar(const Records& members);
/// A member of it: header and bytes, filled up to blocks.
std::string tar_member(const std::string& path, const std::string& bytes);

/// A colour image as a PPM file; pixels are (H, W, RGB).
std::string ppm(int height, int width, const std::string& pixels);
/// A gray one as a PGM file.
std::string pgm(int height, int width, const std::string& pixels);
/// An image file of another kind with the contents of a PPM or PGM.
std::string encoded(const std::string& file, const std::string& extension);

}  // namespace crema::test
