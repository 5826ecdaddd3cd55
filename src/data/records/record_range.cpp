#include "data/records/record_range.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "data/records/datum.hpp"

namespace crema {
namespace {

int64_t number_in(std::string_view text, std::string_view range, int64_t count) {
  const auto number = parse_number<int64_t>(text);
  if (!number)
    throw Error("'", range, "' is no range of records: '", text,
                "' is no number; write N, N:M, N: or :M, or give a key with --key");
  // Beyond the end all are the same, and one more is still a number.
  return *number < 0 ? *number + count : std::min(*number, std::numeric_limits<int64_t>::max() - 1);
}

/// The only record whose key is this, or ends with this path.
int64_t find_file(RecordSource& source, std::string_view key) {
  const auto reader = source.reader(ReadOrder::forward);
  int64_t found = -1;
  std::string first;
  for (int64_t i = 0; i < source.count(); ++i) {
    std::string at = reader->key(i);
    if (at == key) return i;
    const bool ends = at.ends_with(text("/", key)) || at.ends_with(text(": ", key));
    if (!ends) continue;
    if (found >= 0)
      throw Error(source.name(), ": the key '", printable_key(key), "' may be '",
                  printable_key(first), "' or '", printable_key(at), "'; give the whole of one");
    found = i;
    first = std::move(at);
  }
  if (found >= 0) return found;
  throw Error(source.name(), " has no record with key '", printable_key(key),
              "'; `crema db list` shows the keys");
}

}  // namespace

RecordRange numbered_range(const RecordSource& source, std::string_view text) {
  const int64_t count = source.count();
  RecordRange range{0, count};
  if (text.empty()) return range;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    range.first = number_in(text, text, count);
    range.last = range.first + 1;
  } else {
    const auto first = text.substr(0, colon), last = text.substr(colon + 1);
    if (!first.empty()) range.first = number_in(first, text, count);
    if (!last.empty()) range.last = std::min(number_in(last, text, count), count);
  }
  if (range.first < 0 || range.last > count || range.first >= range.last)
    throw Error(source.name(), " has no records '", text, "': they are numbered 0 to ", count - 1,
                ", and N:M goes from N up to M, which is excluded");
  return range;
}

int64_t first_from_key(RecordSource& source, std::string_view key) {
  if (source.is_files())
    throw Error(source.name(),
                " has its records in the order of files, not of keys; name them by number, or one "
                "by its key");
  const auto reader = source.reader(ReadOrder::random);
  int64_t low = 0, high = source.count();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (reader->key(middle) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

int64_t find_key(RecordSource& source, std::string_view key) {
  if (source.is_files()) return find_file(source, key);
  const int64_t at = first_from_key(source, key);
  const auto reader = source.reader(ReadOrder::random);
  const bool is_last = at == source.count();
  const std::string next = is_last ? "" : reader->key(at);
  if (!is_last && next == key) return at;
  throw Error(source.name(), " has no record with key '", printable_key(key), "'; its place is ",
              at > 0 ? text("behind '", printable_key(reader->key(at - 1)), "'") : "",
              at > 0 && !is_last ? ", " : "",
              is_last ? "" : text("before '", printable_key(next), "'"));
}

std::string unprintable_key(std::string_view text) {
  std::string key;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const bool is_code = text[i] == '\\' && i + 4 <= text.size() && text[i + 1] == 'x' &&
                         std::from_chars(text.data() + i + 2, text.data() + i + 4, byte, 16).ptr ==
                             text.data() + i + 4;
    key += is_code ? static_cast<char>(byte) : text[i];
    if (is_code) i += 3;
  }
  return key;
}

}  // namespace crema
