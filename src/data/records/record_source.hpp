// RecordSource: a collection of records (key, bytes), numbered from 0 in the order of their keys.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

struct Record {
  std::string_view key;
  std::string_view value;
};

/// Reads records of one source. Each thread takes a reader of its own.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// Record `index`, in [0, count). The views hold until the next read or the reader's end. Error,
  /// naming the source, when it is damaged.
  virtual Record read(int64_t index) = 0;
  /// The key of record `index`, which reads the record where that is how it is found.
  virtual std::string key(int64_t index) { return std::string(read(index).key); }
};

/// The expected order of reads; any order works with both. `forward`: small steps forward are fast,
/// and there is no work at the start. `random`: every step is fast.
enum class ReadOrder : uint8_t { forward, random };

/// Several threads may use a source at the same time.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual int64_t count() const = 0;
  /// For messages: kind and path.
  virtual std::string name() const = 0;
  /// Whether records are files, or parts of files, each of its own: one that cannot be read says
  /// nothing of the others. Keys are then in no order, and end with the file's path, behind ": "
  /// where something is before it.
  virtual bool is_files() const { return false; }
  /// Paths of the files that lists, patterns and folders name.
  virtual std::vector<std::string> files() const { return {}; }
  /// The names of the classes by their labels: of folders, and of a database that has them
  /// (class_file.hpp); else none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// The reader may outlive the source.
  virtual std::unique_ptr<RecordReader> reader(ReadOrder order) = 0;
};

}  // namespace crema
