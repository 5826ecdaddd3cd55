#include "model/source_text.hpp"

#include <algorithm>
#include <utility>

#include "core/utf8.hpp"

namespace crema {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr int kTabWidth = 8;          // of Protocol Buffers' columns
constexpr size_t kExcerptWidth = 96;  // characters of a line that are shown
constexpr std::string_view kIndent = "\n    ";

// Whether the byte begins a UTF-8 character, rather than going on with one.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// What is shown of each character of a line, in one column.
std::vector<std::string> characters(std::string_view line) {
  std::vector<std::string> result;
  for (char byte : line) {
    if (begins_character(byte) || result.empty()) result.emplace_back();
    result.back() += byte == '\t' ? ' ' : byte;
  }
  for (std::string& character : result) {
    if (printable(character) != character) character = "\xEF\xBF\xBD";  // U+FFFD
  }
  return result;
}

}  // namespace

SourceText::SourceText(std::string name, std::string_view text) : name_(std::move(name)) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text_ = text;
  line_starts_.push_back(0);
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(i + 1);
  }
}

std::string_view SourceText::line(int number) const {
  const size_t index = static_cast<size_t>(number);
  if (number < 0 || index >= line_starts_.size()) return {};
  const size_t begin = line_starts_[index];
  const size_t end = index + 1 < line_starts_.size() ? line_starts_[index + 1] : text_.size();
  std::string_view line = std::string_view(text_).substr(begin, end - begin);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

Position SourceText::position(int line_number, int column) const {
  if (line_number < 0) return {name_, 0, 0};
  int reached = 0;  // Protocol Buffers' column of the next byte
  int characters_before = 0;
  for (char byte : line(line_number)) {
    if (reached >= column) break;
    reached += byte == '\t' ? kTabWidth - reached % kTabWidth : 1;
    if (begins_character(byte)) ++characters_before;
  }
  return {name_, line_number + 1, characters_before + 1};
}

std::string SourceText::excerpt(const Position& position) const {
  if (position.line <= 0) return {};
  const std::vector<std::string> shown = characters(line(position.line - 1));
  const size_t column =
      std::min(static_cast<size_t>(std::max(position.column - 1, 0)), shown.size());
  const size_t begin = column < kExcerptWidth ? 0 : column - kExcerptWidth / 2;
  const size_t end = std::min(shown.size(), begin + kExcerptWidth);

  std::string text(kIndent);
  std::string caret(kIndent);
  if (begin > 0) {
    text += "...";
    caret += "   ";
  }
  for (size_t i = begin; i < end; ++i) text += shown[i];
  if (end < shown.size()) text += "...";
  return text + caret + std::string(column - begin, ' ') + '^';
}

}  // namespace crema
