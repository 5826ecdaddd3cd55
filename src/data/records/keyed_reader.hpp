// Records by number in databases that are ordered by key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/records/key_index.hpp"
#include "data/records/record_source.hpp"

namespace crema {

/// A position among the records of a database, in the order of their keys. Moves return false when
/// there is no such record, and throw where the database cannot be read; after that, only first()
/// and find() may follow.
class KeyCursor {
 public:
  virtual ~KeyCursor() = default;
  virtual bool first(Record& record) = 0;
  virtual bool next(Record& record) = 0;
  virtual bool current(Record& record) = 0;
  virtual bool find(std::string_view key, Record& record) = 0;
};

/// Every KeyIndex::kStride-th key, and the number of all records.
struct CountedKeys {
  KeyIndex index;
  int64_t count = 0;
};
CountedKeys count_keys(KeyCursor& cursor);

class KeyedReader final : public RecordReader {
 public:
  /// `name` of the source, for messages. Without an index every step back begins at the first
  /// record; it has to outlive the reader.
  KeyedReader(std::string name, int64_t count, const KeyIndex* index,
              std::unique_ptr<KeyCursor> cursor);

  Record read(int64_t index) override;

 private:
  bool move_to(int64_t index, Record& record);

  std::string name_;
  int64_t count_;
  const KeyIndex* index_;
  std::unique_ptr<KeyCursor> cursor_;
  int64_t at_ = -1;  // the record that the cursor is on; -1: none
};

}  // namespace crema
