#include "data/records/record_labels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/exact.hpp"
#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

/// As parse_number(), with a '+' that may be before it.
template <class T>
std::optional<T> parse(std::string_view word) {
  if (word.starts_with("+-")) return {};
  if (word.starts_with('+')) word.remove_prefix(1);
  return parse_number<T>(word);
}

bool is_whole(std::string_view word) {
  return word.find_first_not_of("+-0123456789") == std::string_view::npos;
}

float float_of(std::string_view word) {
  if (is_whole(word)) {
    const auto whole = parse<int32_t>(word);
    if (!whole) throw Error("no whole number of 32 bits");
    const auto value = static_cast<float>(*whole);
    if (!is_exactly(value, *whole))
      throw Error("one of several, and has no exact value in f32; number them from 0");
    return value;
  }
  const auto value = parse<float>(word);
  if (!value || !std::isfinite(*value)) throw Error("no number of f32");
  return *value;
}

}  // namespace

bool is_number(std::string_view word) {
  const auto value = parse<double>(word);
  return value && std::isfinite(*value);
}

RecordLabels labels_of(std::span<const std::string_view> words, std::string_view owner) {
  RecordLabels labels;
  std::string_view word;
  try {
    if (words.size() == 1 && is_whole(words[0])) {
      word = words[0];
      const auto label = parse<int32_t>(word);
      if (!label) throw Error("no whole number of 32 bits");
      labels.label = *label;
      return labels;
    }
    for (const std::string_view each : words) {
      word = each;
      labels.floats.push_back(float_of(word));
    }
    return labels;
  } catch (const Error& error) {
    throw Error("the label '", word, "' of '", owner, "' is ", error.message());
  }
}

RecordLabels labels_of(std::span<const double> values) {
  RecordLabels labels;
  const bool is_whole = values.size() == 1 && std::trunc(values[0]) == values[0] &&
                        std::abs(values[0]) <= std::numeric_limits<int32_t>::max();
  if (is_whole) {
    labels.label = static_cast<int32_t>(values[0]);
  } else {
    for (const double value : values) labels.floats.push_back(static_cast<float>(value));
  }
  return labels;
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kBlank); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlank, end);
  }
  return words;
}

void set_labels(const RecordLabels& labels, Datum& datum) {
  datum.clear_label();
  datum.mutable_float_label()->Assign(labels.floats.begin(), labels.floats.end());
  if (labels.floats.empty()) datum.set_label(labels.label);
}

std::string text_of(const RecordLabels& labels) {
  return labels.floats.empty() ? std::to_string(labels.label) : joined(labels.floats, " ");
}

}  // namespace crema
