// Why a text does not parse, in words for the person who wrote it.
//
// The parser of Protocol Buffers knows that a text is wrong and about where, not what was meant.
// This reads the text again, token by token along the message's type, and stops at the first
// mistake with its surroundings at hand: the layer, the message, the fields around.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <string>

#include "crema/error.hpp"
#include "model/source_text.hpp"

namespace crema {

/// What Protocol Buffers says about a text; its lines and columns count from 0.
struct ParserMessage {
  int line = -1;
  int column = 0;
  std::string text;
};

/// Keeps the first message of a parser or a tokenizer; what follows it is a consequence.
class FirstMessage : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& text) override {
    if (message_.text.empty()) message_ = {line, column, text};
  }
  bool empty() const { return message_.text.empty(); }
  const ParserMessage& message() const { return message_; }

 private:
  ParserMessage message_;
};

/// The first mistake of a text that does not parse as `type`. `reported` is used where the second
/// reading finds nothing wrong.
Error diagnose(const SourceText& source, const google::protobuf::Descriptor& type,
               const ParserMessage& reported);

}  // namespace crema
