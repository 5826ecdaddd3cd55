// Why a text does not parse, in words for the person who wrote it.
//
// The parser of Protocol Buffers gives the place of a mistake, the message as far as it was read
// and where its fields stand. What is added here is the message's name for the mistake: the tokens
// up to the place tell which field and which messages the mistake is inside of.
#pragma once

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "crema/error.hpp"
#include "model/source_text.hpp"

namespace crema {

/// Keeps the first message of a parser or a tokenizer, since later ones follow from it. Lines and
/// columns count from 0.
class FirstMessage : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& text) override {
    if (!empty()) return;
    line_ = line;
    column_ = column;
    text_ = text;
  }
  bool empty() const { return text_.empty(); }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& text() const { return text_; }
  bool is_behind(int line, int column) const {
    return line < line_ || (line == line_ && column < column_);
  }

 private:
  int line_ = -1, column_ = 0;
  std::string text_;
};

/// The mistake that a parser `reported` in a text, with its place, its line and the layer around.
/// `partial` and `places` are what the parser left when it stopped.
Error diagnose(const SourceText& source, const google::protobuf::Message& partial,
               const google::protobuf::TextFormat::ParseInfoTree& places,
               const FirstMessage& reported);

}  // namespace crema
