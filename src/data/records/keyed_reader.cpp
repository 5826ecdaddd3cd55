#include "data/records/keyed_reader.hpp"

#include <utility>

#include "crema/error.hpp"

namespace crema {

CountedKeys count_keys(KeyCursor& cursor) {
  CountedKeys keys;
  Record record;
  for (bool there = cursor.first(record); there; there = cursor.next(record), ++keys.count) {
    if (keys.count % KeyIndex::kStride == 0) keys.index.add(record.key);
  }
  return keys;
}

KeyedReader::KeyedReader(std::string name, int64_t count, const KeyIndex* index,
                         std::unique_ptr<KeyCursor> cursor)
    : name_(std::move(name)), count_(count), index_(index), cursor_(std::move(cursor)) {}

Record KeyedReader::read(int64_t index) {
  if (index < 0 || index >= count_)
    throw Error(name_, " has no record ", index, "; it holds ", count_);
  Record record;
  if (!move_to(index, record))
    throw Error(name_, " has no record ", index, " any more, of ", count_,
                " when it was opened; do not write to it while it is read");
  at_ = index;
  return record;
}

bool KeyedReader::move_to(int64_t index, Record& record) {
  int64_t at = std::exchange(at_, -1);  // where an error leaves the cursor is not known
  if (at >= 0 && index == at) return cursor_->current(record);
  bool there = true;
  if (index_ && (at < 0 || index < at || index - at > KeyIndex::kStride)) {
    const int64_t mark = index / KeyIndex::kStride;
    there = mark < index_->size() && cursor_->find(index_->key(mark), record);
    at = mark * KeyIndex::kStride;
  } else if (at < 0 || index < at) {
    there = cursor_->first(record);
    at = 0;
  }
  for (; there && at < index; ++at) there = cursor_->next(record);
  return there;
}

}  // namespace crema
