#include "model/foreign_fields.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>

#include "model/text_diagnosis.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

template <class Message = NetParameter>
std::string complaint(const std::string& text) {
  Message message;
  try {
    parse_text_proto(text, "net.prototxt", message);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What is advised is there, and what it replaces is not.
TEST(ForeignFields, AreAnsweredWithFieldsOfTheMessage) {
  for (const ForeignField& field : foreign_fields()) {
    const auto* type = NetParameter::descriptor()->file()->pool()->FindMessageTypeByName(
        NetParameter::descriptor()->file()->package() + "." + std::string(field.message));
    ASSERT_NE(type, nullptr) << field.message;
    EXPECT_EQ(type->FindFieldByName(std::string(field.name)), nullptr)
        << field.message << " has " << field.name;
    bool parses = false;
    for (const char* value : {"1", "\"text\"", "true"}) {
      std::string text(field.write);
      for (size_t at = 0; (at = text.find(": V", at)) != std::string::npos;)
        text.replace(at + 2, 1, value);
      const std::unique_ptr<google::protobuf::Message> message(
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
      FirstMessage wrong;  // instead of standard error
      google::protobuf::TextFormat::Parser parser;
      parser.RecordErrorsTo(&wrong);
      parser.AllowPartialMessage(true);
      parses |= parser.ParseFromString(text, message.get());
    }
    EXPECT_TRUE(parses) << field.message << "." << field.name << ": " << field.write;
  }
}

TEST(ForeignFields, AreNamedInTheMessage) {
  EXPECT_NE(complaint("layer { type: 'Data' data_param { cursor: SHUFFLING } }")
                .find("unknown field 'cursor' in data_param (DataParameter); write `shuffle: true` "
                      "here"),
            std::string::npos);
  EXPECT_NE(complaint("layer { convolution_param { hole: 2 } }").find("write `dilation: 2` here"),
            std::string::npos);
  EXPECT_NE(complaint("layer { transform_param { min_side: 256 } }")
                .find("write `resize_param { resize_mode: FIT_SMALL_SIZE height: 256 width: 256 }` "
                      "here"),
            std::string::npos);
  EXPECT_NE(
      complaint("layer { batch_norm_param { epsilon: 1e-4 } }").find("write `eps: 1e-4` here"),
      std::string::npos);
  EXPECT_NE(complaint<SolverParameter>("update_interval: 4").find("write `iter_size: 4` here"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
