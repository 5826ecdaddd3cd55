// An Error about one sample of a batch names the record that it came from.
#include <gtest/gtest.h>

#include "crema/registry.hpp"
#include "data/data_source.hpp"
#include "proto/layer.pb.h"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;

/// Gives (4, 3) zeros, or, where its name says "labels", (4) labels that no classifier has.
class RecordsLayer : public Layer, public DataSource {
 public:
  using Layer::Layer;
  Arity arity() const override { return {0, 0, 1, 1}; }
  bool is_source() const override { return true; }
  void reshape(Blobs, Blobs top) override {
    top[0]->reshape(gives_labels() ? Shape{4} : Shape{4, 3});
  }
  void forward_cpu(Blobs, Blobs top) override { top[0]->data.fill(gives_labels() ? 9 : 0); }

  RecordCursor cursor() const override { return {}; }
  void set_cursor(const RecordCursor&) override {}
  void restart() override {}
  int64_t records_per_batch() const override { return 4; }
  double take_wait_seconds() override { return 0; }
  std::string record_key(int64_t index) const override { return concat(name(), "@", index); }

 private:
  bool gives_labels() const { return name().find("labels") != std::string::npos; }
};

std::string error_of(const std::string& text) {
  static const bool registered = (Registry::instance().add<RecordsLayer>("TestRecords"), true);
  EXPECT_TRUE(registered);
  Context context;
  Net net(net_param(text), context, {.phase = Phase::train});
  try {
    net.forward();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string kImages = R"(layer { name: "images" type: "TestRecords" top: "images" })";

TEST(Record, IsThatOfTheLabelsSource) {
  const std::string error = error_of(kImages + R"(
layer { name: "labels" type: "TestRecords" top: "labels" }
layer { name: "copy" type: "Split" bottom: "labels" top: "l" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "images" bottom: "l" top: "loss" })");
  EXPECT_NE(error.find("labels@0"), std::string::npos) << error;
  EXPECT_EQ(error.find("images@"), std::string::npos) << error;
}

TEST(Record, IsNotGuessedWhereTheLabelsHaveNoSource) {
  const std::string error = error_of(kImages + R"(
layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 4 } } }
layer { name: "minus" type: "Concat" bottom: "l" top: "m" concat_param { axis: 0 } }
layer { name: "bad" type: "Scale" bottom: "m" top: "b" param { lr_mult: 0 } param { lr_mult: 0 }
        scale_param { axis: 0 num_axes: 0 filler { value: 0 } bias_term: true bias_filler { value: -1 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "images" bottom: "b" top: "loss" })");
  EXPECT_NE(error.find("label -1"), std::string::npos) << error;
  EXPECT_EQ(error.find("images@"), std::string::npos) << error;
}

TEST(Record, IsNotGuessedWhereBatchesWereJoined) {
  const std::string error = error_of(R"(
layer { name: "labels" type: "TestRecords" top: "a" }
layer { name: "labels2" type: "TestRecords" top: "b" }
layer { name: "join" type: "Concat" bottom: "a" bottom: "b" top: "l" concat_param { axis: 0 } }
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 8 dim: 3 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "l" top: "loss" })");
  EXPECT_NE(error.find("label 9"), std::string::npos) << error;
  EXPECT_EQ(error.find("labels@"), std::string::npos) << error;
}

}  // namespace
}  // namespace crema
