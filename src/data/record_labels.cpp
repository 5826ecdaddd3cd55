#include "data/record_labels.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/exact.hpp"
#include "crema/error.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

/// False unless the whole word is a number of this type.
template <class T>
bool parse(std::string_view word, T& value) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const char* const end = word.data() + word.size();
  const auto [stopped, code] = std::from_chars(word.data(), end, value);
  return code == std::errc() && stopped == end;
}

bool is_whole(std::string_view word) {
  return word.find_first_not_of("+-0123456789") == std::string_view::npos;
}

float float_of(std::string_view word) {
  int32_t whole = 0;
  float value = 0;
  if (is_whole(word)) {
    if (!parse(word, whole)) throw Error("no whole number of 32 bits");
    value = static_cast<float>(whole);
    if (!is_exactly(value, whole))
      throw Error("one of several, and has no exact value in f32; number them from 0");
    return value;
  }
  if (!parse(word, value) || !std::isfinite(value)) throw Error("no number of f32");
  return value;
}

}  // namespace

bool is_number(std::string_view word) {
  double value = 0;
  return parse(word, value) && std::isfinite(value);
}

RecordLabels labels_of(std::span<const std::string_view> words, std::string_view owner) {
  RecordLabels labels;
  std::string_view word;
  try {
    if (words.size() == 1 && is_whole(words[0])) {
      word = words[0];
      if (!parse(word, labels.label)) throw Error("no whole number of 32 bits");
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
