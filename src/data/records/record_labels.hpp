// The labels of a record: a whole number, as published, or several numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

class Datum;  // proto/datum.proto

struct RecordLabels {
  int32_t label = 0;
  /// Several labels, or one that is no whole number; empty: `label`.
  std::vector<float> floats;

  int64_t count() const { return floats.empty() ? 1 : static_cast<int64_t>(floats.size()); }
};

/// Whether `word` is a number as labels are written: "3", "-0.5", "1e-3".
bool is_number(std::string_view word);

/// Of at least one word. Error for a word that is no finite number; for a whole one that is not of
/// 32 bits, or, where there are several, that f32 does not have. `owner` is for messages.
RecordLabels labels_of(std::span<const std::string_view> words, std::string_view owner);

/// Of at least one value; those that f32 does not have are rounded.
RecordLabels labels_of(std::span<const double> values);

/// The words of a text, without the white space between them.
std::vector<std::string_view> words_of(std::string_view text);

void set_labels(const RecordLabels& labels, Datum& datum);

/// "3", or "0.5 0.25".
std::string text_of(const RecordLabels& labels);

}  // namespace crema
