#include "model/text_diagnosis.hpp"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "model/field_advice.hpp"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;
using Token = Tokenizer::Token;

class Diagnosis {
 public:
  Diagnosis(const SourceText& source, const Descriptor& type)
      : source_(source),
        stream_(source.text().data(), static_cast<int>(source.text().size())),
        tokens_(&stream_, &complaints_),
        token_(&tokens_.current()) {
    // As the parser reads.
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_allow_f_after_float(true);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_multiline_strings(true);
    open_.push_back({&type, "", {}});
  }

  // Throws at the first mistake; returns when it finds none.
  void read() {
    next();
    read_fields("");
  }

  // Adds the place, the layer and the text around to a message.
  Error at(int line, int column, const std::string& message) const {
    const Position position = source_.position(line, column);
    Error error(message, source_.excerpt(position));
    error.at(position);
    if (!layer_.name.empty()) error.in_layer(layer_.name, layer_.type);
    return error;
  }

 private:
  // A message that the text is inside of.
  struct Open {
    const Descriptor* type;
    std::string field;  // by which it was opened; "" for the whole text
    Token brace;
  };
  struct Layer {
    std::string name, type;
  };

  const Token& token() const { return *token_; }
  bool is(Tokenizer::TokenType type) const { return token().type == type; }
  bool is_symbol(std::string_view symbol) const {
    return is(Tokenizer::TYPE_SYMBOL) && token().text == symbol;
  }

  void next() {
    tokens_.Next();
    if (!complaints_.empty()) {
      const ParserMessage& complaint = complaints_.message();
      throw at(complaint.line, complaint.column, complaint.text);
    }
  }
  bool accept(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    next();
    return true;
  }

  template <class... Args>
  [[noreturn]] void fail(const Token& place, const Args&... message) const {
    throw at(place.line, place.column, concat(message...));
  }

  // The token as a message shows it.
  std::string found() const {
    if (is(Tokenizer::TYPE_END)) return "the end of the file";
    constexpr size_t kMost = 40;
    const std::string text =
        token().text.size() > kMost ? token().text.substr(0, kMost) + "..." : token().text;
    return is(Tokenizer::TYPE_STRING) ? text : "'" + text + "'";
  }

  // "'stride' in convolution_param".
  std::string quoted(const FieldDescriptor& field) const {
    const std::string& around = open_.back().field;
    return "'" + field.name() + "'" + (around.empty() ? "" : " in " + around);
  }

  void read_fields(std::string_view closing);
  void read_field(std::map<std::string, int>& first_lines);
  const FieldDescriptor* read_name();
  void read_message(const FieldDescriptor& field);
  void read_value(const FieldDescriptor& field);
  void read_string(const FieldDescriptor& field);
  void read_number(const FieldDescriptor& field);
  void read_enum(const FieldDescriptor& field);
  void read_bool(const FieldDescriptor& field);
  [[noreturn]] void fail_unknown(const Token& name);

  const SourceText& source_;
  FirstMessage complaints_;
  ArrayInputStream stream_;
  Tokenizer tokens_;
  const Token* token_;  // the current one, always the same object
  std::vector<Open> open_;
  Layer layer_;  // the innermost layer that the text is inside of
};

bool is_layer(const Descriptor& type) { return type.name().ends_with("LayerParameter"); }

// Reads fields up to the symbol that closes the message, or to the end of the text for "".
void Diagnosis::read_fields(std::string_view closing) {
  std::map<std::string, int> first_lines;
  while (true) {
    if (is(Tokenizer::TYPE_END)) {
      if (closing.empty()) return;
      const Open& open = open_.back();
      fail(open.brace, "'", open.field, " ", open.brace.text, "' is never closed; a '", closing,
           "' is missing below");
    }
    if (!closing.empty() && is_symbol(closing)) return;
    read_field(first_lines);
  }
}

void Diagnosis::read_field(std::map<std::string, int>& first_lines) {
  const Token name = token();
  const FieldDescriptor* field = read_name();
  const auto [first, is_first] = first_lines.try_emplace(field->full_name(), name.line + 1);
  if (!is_first && !field->is_repeated()) {
    fail(name, quoted(*field), " is given twice, first in line ", first->second,
         "; it takes one value, so keep one of them");
  }

  const bool is_message = field->message_type() != nullptr;
  if (!accept(":") && !is_message) {
    fail(token(), "expected ':' after ", quoted(*field), ", found ", found());
  }
  if (is_symbol("[")) {
    if (!field->is_repeated()) {
      fail(token(), quoted(*field), " takes one value, not a list; write it without brackets");
    }
    next();
    while (!accept("]")) {
      is_message ? read_message(*field) : read_value(*field);
      if (!is_symbol("]") && !accept(",")) fail(token(), "expected ',' or ']', found ", found());
    }
  } else {
    is_message ? read_message(*field) : read_value(*field);
  }
  if (!accept(";")) accept(",");
}

// Reads a field's name: an identifier, or the full name of an extension in brackets.
const FieldDescriptor* Diagnosis::read_name() {
  const Token name = token();
  const Descriptor& type = *open_.back().type;
  if (accept("[")) {
    std::string extension;
    while (!is_symbol("]") && !is(Tokenizer::TYPE_END)) {
      extension += token().text;
      next();
    }
    const FieldDescriptor* field = type.file()->pool()->FindExtensionByName(extension);
    if (field == nullptr || field->containing_type() != &type) {
      fail(name, "nothing brings [", extension, "] to ", message_name(type),
           "; load the plug-in that declares it");
    }
    next();
    return field;
  }
  if (is_symbol("}") || is_symbol(">")) {
    if (open_.size() > 1) {
      fail(name, "'", open_.back().field, " ", open_.back().brace.text, "' of line ",
           open_.back().brace.line + 1, " is closed by ", found());
    }
    fail(name, "this ", found(), " closes nothing; remove it, or open the message above");
  }
  if (!is(Tokenizer::TYPE_IDENTIFIER)) {
    fail(name, "expected the name of a field of ", message_name(type), ", found ", found());
  }
  const FieldDescriptor* field = type.FindFieldByName(name.text);
  if (field == nullptr) fail_unknown(name);
  next();
  return field;
}

void Diagnosis::read_message(const FieldDescriptor& field) {
  const Token brace = token();
  if (!is_symbol("{") && !is_symbol("<")) {
    fail(brace, "expected '{' after ", quoted(field), ", found ", found(), "; it holds fields of ",
         message_name(*field.message_type()));
  }
  const std::string_view closing = brace.text == "{" ? "}" : ">";
  const Layer outer = layer_;
  if (is_layer(*field.message_type())) layer_ = {};
  next();
  open_.push_back({field.message_type(), field.name(), brace});
  read_fields(closing);
  open_.pop_back();
  layer_ = outer;
  next();
}

void Diagnosis::read_value(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return read_string(field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return read_enum(field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return read_bool(field);
    default:
      return read_number(field);
  }
}

void Diagnosis::read_string(const FieldDescriptor& field) {
  if (!is(Tokenizer::TYPE_STRING)) {
    fail(token(), quoted(field), " takes a text in quotes, found ", found(),
         advice_for_unquoted(*open_.back().type, field.name(), token().text));
  }
  std::string value;
  while (is(Tokenizer::TYPE_STRING)) {  // neighbouring strings are one
    Tokenizer::ParseStringAppend(token().text, &value);
    next();
  }
  if (!is_layer(*open_.back().type)) return;
  if (field.name() == "name") layer_.name = value;
  if (field.name() == "type") layer_.type = value;
}

void Diagnosis::read_number(const FieldDescriptor& field) {
  const FieldDescriptor::CppType type = field.cpp_type();
  const bool real =
      type == FieldDescriptor::CPPTYPE_FLOAT || type == FieldDescriptor::CPPTYPE_DOUBLE;
  const bool is_unsigned =
      type == FieldDescriptor::CPPTYPE_UINT32 || type == FieldDescriptor::CPPTYPE_UINT64;
  const bool wide =
      type == FieldDescriptor::CPPTYPE_INT64 || type == FieldDescriptor::CPPTYPE_UINT64;
  const Token first = token();
  const bool negative = is_symbol("-");
  if (negative && is_unsigned) fail(first, quoted(field), " takes no negative number");
  if (negative) next();

  if (real) {
    std::string word = token().text;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool special =
        is(Tokenizer::TYPE_IDENTIFIER) && (word == "inf" || word == "infinity" || word == "nan");
    if (!special && !is(Tokenizer::TYPE_INTEGER) && !is(Tokenizer::TYPE_FLOAT)) {
      fail(first, quoted(field), " takes a number, found ", found());
    }
  } else {
    if (!is(Tokenizer::TYPE_INTEGER)) {
      fail(first, quoted(field), " takes a whole number, found ", found());
    }
    const uint64_t most =
        is_unsigned
            ? (wide ? std::numeric_limits<uint64_t>::max() : std::numeric_limits<uint32_t>::max())
            : (wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max()) +
                  uint64_t{negative};
    uint64_t value;
    if (!Tokenizer::ParseInteger(token().text, most, &value)) {
      fail(first, quoted(field), " is out of range: ", negative ? "-" : "", token().text,
           ", at most ", negative ? "-" : "", most);
    }
  }
  next();
}

void Diagnosis::read_enum(const FieldDescriptor& field) {
  const EnumDescriptor& type = *field.enum_type();
  const Token value = token();
  const bool negative = accept("-");
  bool known = false;
  uint64_t number;
  if (is(Tokenizer::TYPE_IDENTIFIER)) {
    known = type.FindValueByName(token().text) != nullptr;
  } else if (is(Tokenizer::TYPE_INTEGER) &&
             Tokenizer::ParseInteger(token().text, std::numeric_limits<int32_t>::max(), &number)) {
    known = type.FindValueByNumber(static_cast<int>(negative ? -number : number)) != nullptr;
  }
  if (!known) {
    fail(value, found(), " is no value of ", quoted(field),
         advice_for_enum(*open_.back().type, field, token().text));
  }
  if (is_layer(*open_.back().type) && field.name() == "type") layer_.type = token().text;
  next();
}

void Diagnosis::read_bool(const FieldDescriptor& field) {
  static constexpr std::string_view kWords[] = {"true", "True", "t", "false", "False", "f"};
  const bool known =
      is(Tokenizer::TYPE_INTEGER)
          ? token().text == "0" || token().text == "1"
          : is(Tokenizer::TYPE_IDENTIFIER) &&
                std::find(std::begin(kWords), std::end(kWords), token().text) != std::end(kWords);
  if (!known) fail(token(), quoted(field), " takes true or false, found ", found());
  next();
}

void Diagnosis::fail_unknown(const Token& name) {
  std::vector<const Descriptor*> around;
  for (const Open& open : open_) around.push_back(open.type);
  // A value that follows may go into the advice.
  std::string value;
  next();
  if (accept(":") && !is(Tokenizer::TYPE_SYMBOL)) value = token().text;
  const std::string& field = open_.back().field;
  fail(name, "unknown field '", name.text, "'",
       field.empty() ? " in a " + message_name(*around.back())
                     : " in " + field + " (" + message_name(*around.back()) + ")",
       advice_for_unknown(around, name.text, value, layer_.type));
}

}  // namespace

Error diagnose(const SourceText& source, const Descriptor& type, const ParserMessage& reported) {
  Diagnosis diagnosis(source, type);
  try {
    diagnosis.read();
  } catch (const Error& error) {
    return error;
  }
  return diagnosis.at(reported.line, reported.column, reported.text);
}

}  // namespace crema
