// Writes a database of records. A database that exists under its name is complete at any time: see
// database_folder.hpp.
//
//   auto writer = make_database_writer(DatabaseKind::lmdb, "train_lmdb");
//   writer->put("00000000", bytes);
//   writer->finish();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "data/databases/open_database.hpp"

namespace crema {

/// A key that the database cannot take: it comes twice, or has too many bytes or none.
class KeyError : public Error {
 public:
  using Error::Error;
};

class DatabaseWriter {
 public:
  DatabaseWriter() = default;
  /// Without finish(): removes what was written.
  virtual ~DatabaseWriter() = default;
  DatabaseWriter(const DatabaseWriter&) = delete;
  DatabaseWriter& operator=(const DatabaseWriter&) = delete;

  /// Adds a record. Keys may come in any order, ascending being fastest; they are unique and have 1
  /// to max_key_size() bytes, or it is a KeyError. Records reach the file in batches, so an error
  /// may be about an earlier one.
  virtual void put(std::string_view key, std::string_view value) = 0;
  /// The names of the classes in the order of the labels, for class_file.hpp, which may refuse
  /// them. Before sync().
  void name_classes(std::vector<std::string> names);
  /// Writes all records to the disk, not under the database's name yet. No put afterwards. Before
  /// finish() where several outputs have to appear together: a full disk is met here.
  virtual void sync() = 0;
  /// sync(), unless it was called, and makes the database appear under its name. Error when the
  /// name was taken since the writer began, or when it cannot be renamed; a database that was to be
  /// overwritten is under its name then.
  virtual void finish() = 0;
  /// Records that were put.
  virtual int64_t count() const = 0;

  /// LMDB's, so that records can go from any database to any other.
  static constexpr size_t max_key_size() { return 511; }

 protected:
  const std::vector<std::string>& class_names() const { return class_names_; }

 private:
  std::vector<std::string> class_names_;
};

/// Error when `path` exists and `overwrite` is off, or when it is no database; when this build does
/// not have the kind. A link stands for the database that it leads to.
std::unique_ptr<DatabaseWriter> make_database_writer(DatabaseKind kind, const std::string& path,
                                                     bool overwrite = false);

/// Of "lmdb" or "leveldb", as flags and prototxt files name them, in any case. Error for others.
DatabaseKind database_kind(std::string_view name);

/// KeyError, naming the database, for a key that no writer takes.
void check_key(std::string_view key, const std::string& database);

}  // namespace crema
