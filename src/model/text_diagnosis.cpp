#include "model/text_diagnosis.hpp"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "model/field_advice.hpp"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::Tokenizer;
using Token = Tokenizer::Token;

bool is(const Token& token, std::string_view symbol) {
  return token.type == Tokenizer::TYPE_SYMBOL && token.text == symbol;
}

std::string found(const Token& token) {
  if (token.type == Tokenizer::TYPE_END) return "the end of the file";
  constexpr size_t kMost = 40;
  const bool cut = token.text.size() > kMost;
  size_t end = kMost;  // where a character begins
  while (cut && end > 0 && (static_cast<unsigned char>(token.text[end]) & 0xC0) == 0x80) --end;
  const std::string text = cut ? token.text.substr(0, end) + "..." : token.text;
  return token.type == Tokenizer::TYPE_STRING ? text : "'" + text + "'";
}

/// A message that the mistake is inside of, and how far its text was read.
struct Scope {
  const Message* message;
  const TextFormat::ParseInfoTree* places;
  std::string opened_by;                           // the name of its field; "" for the whole text
  Token brace{};                                   // that opened it
  std::map<const FieldDescriptor*, int> opened{};  // how many messages in it, by field
  std::string name{};                              // of the field read last
  Token name_begin{}, name_end{};                  // differ for the [name] of an extension
  bool in_extension = false, in_list = false;

  const Descriptor& type() const { return *message->GetDescriptor(); }
  /// The field read last; null when the message has none of that name.
  const FieldDescriptor* field() const {
    if (!is(name_begin, "[")) return type().FindFieldByName(name);
    const FieldDescriptor* field = type().file()->pool()->FindExtensionByName(name);
    return field != nullptr && field->containing_type() == &type() ? field : nullptr;
  }
  bool name_ends_at(const Token& token) const {
    return !name.empty() && token.line == name_end.line && token.column == name_end.column;
  }
};

// About a character outside of texts in quotes and comments.
std::string strange_character(const std::string& character) {
  for (const char* quote : {"\u201C", "\u201D", "\u201E", "\u2018", "\u2019", "\u00AB", "\u00BB"}) {
    if (character == quote) return text(character, " is a typographic quotation mark; write \"");
  }
  if (character == "\u00A0") return "a no-break space stands here; write a space";
  return text("the character ", character, " can only stand in texts in quotes and in comments");
}

class Diagnosis {
 public:
  Diagnosis(const SourceText& source, const Message& partial,
            const TextFormat::ParseInfoTree& places, const FirstMessage& reported)
      : source_(source),
        reported_(reported),
        stream_(source.text().data(), static_cast<int>(source.text().size())),
        tokens_(&stream_, &complaints_),
        token_(tokens_.current()),
        previous_(tokens_.previous()) {
    // As the parser reads.
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_allow_f_after_float(true);
    scopes_.push_back({.message = &partial, .places = &places, .opened_by = ""});
    while (tokens_.Next() && reported.is_behind(token_.line, token_.column)) take();
  }

  Error error();

 private:
  void take();
  bool is_unknown_word(const FieldDescriptor& field) const;
  Error unknown_field();
  std::string foreign_comment() const;
  std::string backslash_of_path(int line, int column) const;
  Error no_name() const;
  size_t offset_of(int line, int column) const;
  std::string non_ascii_at(int line, int column) const;
  Error wrong_value(const FieldDescriptor& field, const Token& value) const;

  Error at(int line, int column, const std::string& message) const;
  template <class... Args>
  Error at(const Token& place, const Args&... message) const {
    return at(place.line, place.column, text(message...));
  }
  // "'stride' in convolution_param".
  std::string quoted(const FieldDescriptor& field) const {
    const std::string& around = scopes_.back().opened_by;
    return "'" + field.name() + "'" + (around.empty() ? "" : " in " + around);
  }

  const SourceText& source_;
  const FirstMessage& reported_;
  FirstMessage complaints_;  // of the tokenizer
  google::protobuf::io::ArrayInputStream stream_;
  Tokenizer tokens_;
  const Token& token_;  // where the parser stopped
  const Token& previous_;
  bool negative_ = false;  // a '-' stands before previous_
  std::vector<Scope> scopes_;
};

// Goes past a token that the parser has accepted.
void Diagnosis::take() {
  Scope& in = scopes_.back();
  negative_ = is(previous_, "-");
  if (in.in_extension) {
    in.in_extension = !is(token_, "]");
    if (in.in_extension) in.name += token_.text;
    in.name_end = token_;
  } else if (is(token_, "{") || is(token_, "<")) {
    const FieldDescriptor* field = in.field();
    const int index = field->is_repeated() ? in.opened[field]++ : -1;
    const auto& reflection = *in.message->GetReflection();
    const Message& message = index < 0 ? reflection.GetMessage(*in.message, field)
                                       : reflection.GetRepeatedMessage(*in.message, field, index);
    const auto* places = in.places->GetTreeForNested(field, index);
    scopes_.push_back({&message, places, field->name(), token_});
  } else if (is(token_, "}") || is(token_, ">")) {
    scopes_.pop_back();
  } else if (is(token_, "[")) {
    in.in_list = is(previous_, ":") || in.name_ends_at(previous_);
    in.in_extension = !in.in_list;
    if (in.in_extension) in.name_begin = token_;
    if (in.in_extension) in.name.clear();
  } else if (is(token_, "]")) {
    in.in_list = false;
  } else if (token_.type == Tokenizer::TYPE_IDENTIFIER && !in.in_list && !negative_ &&
             !is(previous_, ":")) {
    in.name = token_.text;
    in.name_begin = in.name_end = token_;
  }
}

Error Diagnosis::error() {
  const Scope& in = scopes_.back();
  const bool after_name = in.name_ends_at(previous_);
  const bool begins_value = after_name || is(previous_, ":") || is(previous_, "-");
  const FieldDescriptor* field = in.field();
  if (const std::string comment = foreign_comment(); !comment.empty()) return at(token_, comment);
  if (const std::string path = backslash_of_path(reported_.line(), reported_.column());
      !complaints_.empty() && !path.empty()) {
    std::string text = reported_.text();
    if (text.ends_with('.')) text.pop_back();
    return at(reported_.line(), reported_.column(), text + path);
  }
  if (after_name && field == nullptr) return unknown_field();
  if (const std::string strange = non_ascii_at(reported_.line(), reported_.column());
      !complaints_.empty() && !strange.empty()) {
    return at(reported_.line(), reported_.column(), strange_character(strange));
  }
  if (!complaints_.empty() || (field == nullptr && begins_value)) {
    return at(reported_.line(), reported_.column(), reported_.text());
  }
  if (after_name && !field->is_repeated() && in.places->GetLocation(field, -1).line >= 0) {
    return at(in.name_begin, quoted(*field), " is given twice, first in line ",
              in.places->GetLocation(field, -1).line + 1,
              "; it takes one value, so keep one of them");
  }
  // The parser looks a word up after it has read it.
  if (field != nullptr && !after_name && is_unknown_word(*field)) {
    return wrong_value(*field, previous_);
  }
  if (!begins_value && !in.in_list) return no_name();
  const bool is_message = field->message_type() != nullptr;
  if (after_name && !is_message && !is(token_, ":")) {
    return at(token_, "expected ':' after ", quoted(*field), ", found ", found(token_));
  }
  if (is(token_, "[") && !field->is_repeated()) {
    return at(token_, quoted(*field), " takes one value, not a list; write it without brackets");
  }
  if (!begins_value && !is(previous_, "[") && !is(previous_, ",")) {
    return at(token_, "expected ',' or ']', found ", found(token_));
  }
  if (!is_message) return wrong_value(*field, token_);
  return at(token_, "expected '{' after ", quoted(*field), ", found ", found(token_),
            "; it holds fields of ", message_name(*field->message_type()));
}

// Where a place as the parser counts it, from 0 and in bytes, lies in the text.
size_t Diagnosis::offset_of(int line, int column) const {
  constexpr int kTab = 8;  // of the parser
  const std::string& text = source_.text();
  size_t at = 0;
  for (int l = 0; l < line && at != std::string::npos; ++l) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  for (int c = 0; at < text.size() && c < column; ++at) c += text[at] == '\t' ? kTab - c % kTab : 1;
  return at;
}

// What to write for a comment of another language that the parser stopped at; "" for other places.
std::string Diagnosis::foreign_comment() const {
  if (token_.type != Tokenizer::TYPE_SYMBOL) return "";
  const size_t place = std::min(offset_of(token_.line, token_.column), source_.text().size());
  const std::string_view content = std::string_view(source_.text()).substr(place);
  if (content.starts_with("//")) return "'//' begins no comment here; write '#' in its place";
  if (content.starts_with("/*") || content.starts_with("*/")) {
    return text("'", content.substr(0, 2),
                "' is no mark of a comment here; write '#' before each line of it");
  }
  return "";
}

// What to write where the text in quotes that the parser complains about, at a place, has a
// backslash that no escape sequence begins with; "" for other places.
std::string Diagnosis::backslash_of_path(int line, int column) const {
  const std::string& content = source_.text();
  const size_t place = offset_of(line, column);
  const size_t begin = content.rfind('\n', place == 0 ? 0 : place - 1);
  const size_t from = begin == std::string::npos || place == 0 ? 0 : begin + 1;
  const size_t end = std::min(content.find('\n', from), content.size());
  // The quote that the place is behind.
  char quote = '\0';
  size_t opened = from;
  for (size_t i = from; i < std::min(place, end); ++i) {
    if (quote == '\0' && content[i] == '#') return "";
    if (quote != '\0' && content[i] == '\\') {
      ++i;
    } else if (quote != '\0' ? content[i] == quote : content[i] == '"' || content[i] == '\'') {
      opened = i + 1;
      quote = quote != '\0' ? '\0' : content[i];
    }
  }
  if (quote == '\0' && place < end && (content[place] == '"' || content[place] == '\'')) {
    quote = content[place];
    opened = place + 1;
  }
  if (quote == '\0') return "";
  std::string meant = content.substr(opened, std::min(content.find(quote, opened), end) - opened);
  while (!meant.empty() && meant.back() == '\r') meant.pop_back();
  if (meant.find('\\') == std::string::npos) return "";
  for (size_t at = 0; (at = meant.find("\\\\", at)) != std::string::npos;) meant.erase(at, 1);
  std::ranges::replace(meant, '\\', '/');
  return text("; a backslash begins an escape sequence: for one of a path write / or \\\\, as in ",
              quote, meant, quote);
}

// The character at a place as the parser counts it; "" if it is of ASCII.
std::string Diagnosis::non_ascii_at(int line, int column) const {
  const std::string& text = source_.text();
  const size_t at = offset_of(line, column);
  const auto is_of_character = [&](size_t i) {
    return i < text.size() && static_cast<unsigned char>(text[i]) >= 0x80;
  };
  if (!is_of_character(at)) return "";
  size_t end = at + 1;  // the bytes behind the first one of a character begin with the bits 10
  while (is_of_character(end) && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return text.substr(at, end - at);
}

// Adds the place, the text around and the innermost layer.
Error Diagnosis::at(int line, int column, const std::string& message) const {
  const Position position = source_.position(line, column);
  Error error(message, source_.excerpt(position));
  error.at(position);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (!scope->type().name().ends_with("LayerParameter")) continue;
    const std::string name = text_of(*scope->message, "name");
    if (!name.empty()) error.in_layer(name, text_of(*scope->message, "type"));
    break;
  }
  return error;
}

Error Diagnosis::unknown_field() {
  const Scope& in = scopes_.back();
  const std::string type = message_name(in.type());
  if (is(in.name_begin, "[")) {
    const std::string near = nearest_extension(in.type(), in.name);
    return at(in.name_begin, "nothing brings [", in.name, "] to ", type,
              near.empty() ? "" : text("; did you mean [", near, "]?"),
              near.empty() ? "; load the plug-in that declares it, with --plugin=FILE or "
                             "crema::load_plugin()"
                           : "");
  }
  std::string value;  // may go into the advice
  if (is(token_, ":") && tokens_.Next() && token_.type != Tokenizer::TYPE_SYMBOL) {
    value = token_.text;
  }
  std::vector<const Message*> around;
  for (const Scope& scope : scopes_) around.push_back(scope.message);
  return at(in.name_begin, "unknown field '", in.name, "'",
            in.opened_by.empty() ? " in a " + type : " in " + in.opened_by + " (" + type + ")",
            advice_for_unknown(around, in.name, value));
}

// What stands where a field's name or the end of the message has to.
Error Diagnosis::no_name() const {
  const Scope& in = scopes_.back();
  const std::string found = crema::found(token_);
  const std::string opened = text("'", in.opened_by, " ", in.brace.text, "'");
  const bool outermost = scopes_.size() == 1;
  if (in.in_extension) {
    return at(token_, "expected the name of an extension and ']', found ", found);
  }
  if (is(token_, "}") || is(token_, ">")) {
    if (!outermost) {
      return at(token_, opened, " of line ", in.brace.line + 1, " is closed by ", found);
    }
    return at(token_, "this ", found, " closes nothing; remove it, or open the message above");
  }
  if (!outermost && token_.type == Tokenizer::TYPE_END) {
    return at(in.brace, opened, " is never closed; a '", is(in.brace, "{") ? "}" : ">",
              "' is missing below");
  }
  return at(token_, "expected the name of a field of ", message_name(in.type()), ", found ", found);
}

// Whether the last token is a word or a number that the field's enum or truth value does not have.
bool Diagnosis::is_unknown_word(const FieldDescriptor& field) const {
  const bool word =
      previous_.type == Tokenizer::TYPE_IDENTIFIER || previous_.type == Tokenizer::TYPE_INTEGER;
  const bool looked_up = field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM ||
                         field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
  if (!word || !looked_up) return false;
  FirstMessage error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  const std::unique_ptr<Message> scratch(scopes_.back().message->New());
  return !parser.ParseFieldValueFromString((negative_ ? "-" : "") + previous_.text, &field,
                                           scratch.get());
}

Error Diagnosis::wrong_value(const FieldDescriptor& field, const Token& value) const {
  const Descriptor& type = scopes_.back().type();
  const std::string name = quoted(field), found = crema::found(value);
  const auto takes = [&](const char* what, const std::string& advice = "") {
    return at(value, name, " takes ", what, ", found ", found, advice);
  };
  const bool whole = value.type == Tokenizer::TYPE_INTEGER;
  bool wide = false, is_unsigned = false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return takes("a text in quotes", advice_for_unquoted(type, field.name(), value.text));
    case FieldDescriptor::CPPTYPE_ENUM:
      return at(value, found, " is no value of ", name, advice_for_enum(type, field, value.text));
    case FieldDescriptor::CPPTYPE_BOOL:
      return takes("true or false");
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return takes(whole ? "a decimal number" : "a number");
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      is_unsigned = true;
      [[fallthrough]];
    default:
      wide = field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
             field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
  }
  if (is(value, "-")) return at(value, name, " takes no negative number");
  if (!whole) return takes("a whole number");
  const bool negative = is(previous_, "-");
  const uint64_t most =
      (~uint64_t{0} >> (wide ? 0 : 32) >> (is_unsigned ? 0 : 1)) + (negative ? 1 : 0);
  return at(value, name, " is out of range: ", negative ? "-" : "", value.text,
            negative ? ", at least -" : ", at most ", most);
}

}  // namespace

Error diagnose(const SourceText& source, const Message& partial,
               const TextFormat::ParseInfoTree& places, const FirstMessage& reported) {
  return Diagnosis(source, partial, places, reported).error();
}

}  // namespace crema
