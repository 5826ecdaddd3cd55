// Arrays to and from messages, and messages without their arrays.
#include "model/blob_message.hpp"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "crema/error.hpp"
#include "model/partial_copy.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "support/values.hpp"

namespace crema {
namespace {

TEST(BlobMessage, ComesBack) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor written(Shape{2, 3}, dtype);
    written.fill(0.1);
    BlobProto blob;
    save_values(written, blob);
    save_diff(written, blob);
    EXPECT_EQ(blob_shape(blob), written.shape());
    EXPECT_EQ(blob_count(blob), 6);
    EXPECT_EQ(dtype == DType::f64 ? blob.double_diff_size() : blob.diff_size(), 6);
    Tensor read(written.shape(), dtype);
    load_values(blob, read);
    EXPECT_EQ(test::values_of(read), test::values_of(written));
    // A second time it replaces what is there.
    save_values(written, blob);
    EXPECT_EQ(blob_shape(blob), written.shape());
    EXPECT_EQ(blob_count(blob), 6);
  }
}

TEST(BlobMessage, OldFilesHaveFourSizes) {
  BlobProto blob;
  blob.set_channels(3);
  blob.set_width(5);
  EXPECT_EQ(blob_shape(blob), (Shape{0, 3, 0, 5}));
}

TEST(BlobMessage, ValuesOfEitherTypeAreRead) {
  BlobProto blob;
  blob.add_double_data(0.25);
  float value = 0;
  copy_values(blob, &value);
  EXPECT_EQ(value, 0.25F);
}

// NVIDIA's fork writes the bytes of the values.
TEST(BlobMessage, RawValuesAreRead) {
  const auto raw = [](ValueType::Type type, const std::string& bytes) {
    BlobProto blob;
    blob.set_raw_data_type(type);
    blob.set_raw_data(bytes);
    return blob;
  };
  // 1, -2, 65504 (the greatest), 2^-24 (the least), -0.333252, 0.
  const BlobProto half =
      raw(ValueType::FLOAT16, std::string("\x00\x3c\x00\xc0\xff\x7b\x01\x00\x55\xb5\x00\x00", 12));
  ASSERT_EQ(blob_count(half), 6);
  Tensor values(Shape{6}, DType::f32);
  load_values(half, values);
  EXPECT_EQ(test::values_of(values),
            (std::vector<double>{1, -2, 65504, 0x1p-24, -0.333251953125, 0}));
  EXPECT_EQ(raw_values(raw(ValueType::FLOAT, std::string("\0\0\xc0\x3f", 4))),
            std::vector<double>{1.5});
  EXPECT_EQ(raw_values(raw(ValueType::DOUBLE, std::string("\0\0\0\0\0\0\xf8\x3f", 8))),
            std::vector<double>{1.5});
  EXPECT_THROW(raw_values(raw(ValueType::FLOAT, "abcde")), Error);
  EXPECT_THROW(blob_count(raw(ValueType::INT, "abcd")), Error);
}

TEST(PartialCopy, LeavesOutTheFieldsThatItNames) {
  LayerParameter layer;
  parse_text_proto(R"(name: "ip" type: "InnerProduct" bottom: "a" bottom: "b" phase: TEST
    loss_weight: 1 loss_weight: 0.5 propagate_down: true propagate_down: false
    param { lr_mult: 2 } param { decay_mult: 3 } include { min_level: 1 stage: "s" }
    inner_product_param { num_output: 3 } blobs { data: 1 data: 2 })",
                   "layer.prototxt", layer);
  layer.GetReflection()->MutableUnknownFields(&layer)->AddVarint(20000, 42);
  LayerParameter copy, expected = layer;
  copy_without(layer, {LayerParameter::kBlobsFieldNumber}, copy);
  expected.clear_blobs();
  EXPECT_EQ(copy.SerializeAsString(), expected.SerializeAsString());
  LayerParameter whole;
  copy_without(layer, {}, whole);
  EXPECT_EQ(whole.SerializeAsString(), layer.SerializeAsString());
}

}  // namespace
}  // namespace crema
