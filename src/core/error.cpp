#include "crema/error.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/utf8.hpp"

namespace crema {
namespace {

// A letter in the wrong case only tells equally distant names apart: no name has kEdit letters.
constexpr int kEdit = 1 << 12;
constexpr int kCaseEdit = 1;

int substitution_cost(char a, char b) {
  if (a == b) return 0;
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return lower(a) == lower(b) ? kCaseEdit : kEdit;
}

// Damerau-Levenshtein distance times kEdit: insertions, deletions, substitutions and swaps of
// neighbours.
int edit_distance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table of distances between prefixes.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = kEdit * static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = kEdit * static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + kEdit, row[j - 1] + kEdit,
                         above[j - 1] + substitution_cost(a[i - 1], b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + kEdit);
      }
    }
  }
  return row.back();
}

}  // namespace

std::string Position::str() const {
  std::string text = file;
  for (int number : {line, column}) {
    if (number <= 0) break;
    if (!text.empty()) text += ':';
    text += std::to_string(number);
  }
  return text;
}

Error& Error::at(const Position& position) {
  if (!position_.known() && position.known()) {
    position_ = position;
    compose();
  }
  return *this;
}

Error& Error::in_layer(std::string_view name, std::string_view type) {
  if (layer_.empty()) layer_type_ = type;
  return add(layer_, name);
}

Error& Error::in_net(std::string_view which) { return add(net_, which); }

Error& Error::of_sample(int64_t index) {
  if (sample_ < 0) sample_ = index;
  return *this;
}

Error& Error::in_record(std::string_view key) { return add(record_, key); }

Error& Error::about(std::string_view path) {
  if (path_.empty()) path_ = path;
  return *this;
}

Error& Error::add(std::string& part, std::string_view content) {
  if (part.empty()) {
    part = content;
    compose();
  }
  return *this;
}

void Error::compose() {
  full_.clear();
  if (position_.known()) full_ = position_.str() + ": ";
  if (!net_.empty()) full_ += net_ + ": ";
  if (!layer_.empty()) {
    full_ += "layer '" + layer_ + "'";
    if (!layer_type_.empty()) full_ += " (" + layer_type_ + ")";
    full_ += ": ";
  }
  full_ += message_;
  if (!record_.empty()) full_ += " (record '" + record_ + "')";
  // Names and values come from files: what is printed shall not steer a terminal, nor seem to be
  // another line.
  message_ = printable_message(message_);
  full_ = printable_message(full_);
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  int best_distance = 0;
  for (const std::string& name : known) {
    // A third of the longer word may be wrong, and one letter in any word of two or more.
    const int length = static_cast<int>(std::max(word.size(), name.size()));
    const int allowed_edits = length < 2 ? 0 : std::max(1, length / 3);
    // Each letter that the shorter word lacks is an edit.
    if (length - static_cast<int>(std::min(word.size(), name.size())) > allowed_edits) continue;
    const int distance = edit_distance(word, name);
    if (distance < (allowed_edits + 1) * kEdit && (best.empty() || distance < best_distance)) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view are) {
  const std::string nearest = nearest_name(word, known);
  const std::string hint = nearest.empty() ? "" : text("; did you mean '", nearest, "'?");
  return are.empty() ? hint : text(hint, hint.empty() ? "; " : " ", are, " ", joined(known));
}

}  // namespace crema
