#include "model/set_field.hpp"

#include <gtest/gtest.h>

#include "model/text_format.hpp"

namespace crema {
namespace {

/// Whether the one field of a layer's pooling_param asks for something.
bool asks(const std::string& text) {
  PoolingParameter message;
  parse_text_proto(text, "pooling", message);
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  EXPECT_EQ(fields.size(), 1u);
  return differs_from_default(message, fields[0]);
}

TEST(DiffersFromDefault, IsFalseForTheDefaultWrittenOut) {
  EXPECT_FALSE(asks("pool: MAX"));
  EXPECT_TRUE(asks("pool: AVE"));
  EXPECT_FALSE(asks("pad: 0"));
  EXPECT_TRUE(asks("pad: 1"));
  EXPECT_FALSE(asks("global_pooling: false"));
  EXPECT_TRUE(asks("global_pooling: true"));
}

TEST(DiffersFromDefault, IsTrueForMessagesAndLists) {
  NetParameter net;
  parse_text_proto("layer {} input: ''", "net", net);
  const auto* type = net.GetDescriptor();
  EXPECT_TRUE(differs_from_default(net, type->FindFieldByName("layer")));
  EXPECT_TRUE(differs_from_default(net, type->FindFieldByName("input")));
  LayerParameter layer;
  layer.mutable_pooling_param();
  EXPECT_TRUE(differs_from_default(layer, layer.GetDescriptor()->FindFieldByName("pooling_param")));
}

}  // namespace
}  // namespace crema
