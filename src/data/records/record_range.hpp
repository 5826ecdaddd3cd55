// Some records of a database, by number or by key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/records/record_source.hpp"

namespace crema {

/// The numbers [first, last).
struct RecordRange {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first; }
};

/// What a text says: "7" is record 7, "10:20" records 10 to 19, "10:" all from 10 on, ":20" the
/// first 20; "" all. Numbers below 0 count from the end. Error unless the records are there.
RecordRange numbered_range(const RecordSource& source, std::string_view text);

/// The first record whose key is not below `key`; count() if there is none. Error for sources of
/// files, whose keys are in no order.
int64_t first_from_key(RecordSource& source, std::string_view key);

/// The record with this key; of files also the only one whose path ends with it. Error, with the
/// nearest keys, if there is none.
int64_t find_key(RecordSource& source, std::string_view key);

/// The key that a text says in which \xhh stands for a byte, as printable_key() writes it.
std::string unprintable_key(std::string_view text);

}  // namespace crema
