// Parameters to and from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::net_param;
using test::params_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string net_text(int outputs, const std::string& second = "ip2") {
  return R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "a"
        inner_product_param { num_output: )" +
         std::to_string(outputs) + R"( weight_filler { type: "xavier" } } }
layer { name: ")" +
         second + R"(" type: "InnerProduct" bottom: "a" top: "b"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } })";
}

class WeightsTest : public ::testing::Test {
 protected:
  Net net(const std::string& text, uint64_t seed = 1) {
    context_.set_seed(seed);
    return Net(net_param(text), context_, {});
  }
  Context context_;
};

TEST_F(WeightsTest, ComeBackBitForBit) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  EXPECT_NE(params_of(from), params_of(to));
  const std::string path = ::testing::TempDir() + "/crema_weights.caffemodel";
  from.save_weights(path);
  const LoadReport report = to.load_weights(path, true);
  EXPECT_EQ(params_of(from), params_of(to));
  EXPECT_THAT(report.loaded, ElementsAre("ip1", "ip2"));
  EXPECT_THAT(report.missing, IsEmpty());
  std::filesystem::remove(path);
}

TEST_F(WeightsTest, SayWhatWasLoadedMissingAndUnused) {
  NetParameter saved;
  net(net_text(3)).save(saved);
  Net other = net(net_text(3, "ip2_new"), 2);
  const LoadReport report = other.load_weights(saved);
  EXPECT_THAT(report.loaded, ElementsAre("ip1"));
  EXPECT_THAT(report.missing, ElementsAre("ip2_new"));
  EXPECT_THAT(report.unused, ElementsAre("ip2"));
  EXPECT_EQ(report.str(), "weights: 1 layers loaded, 1 missing (ip2_new), 1 unused (ip2)");
  expect_error([&] { other.load_weights(saved, true); }, {"strict", "ip2_new"});
}

TEST_F(WeightsTest, RefuseOtherShapes) {
  NetParameter saved;
  net(net_text(3)).save(saved);
  Net other = net(net_text(5));
  expect_error([&] { other.load_weights(saved); }, {"layer 'ip1'", "3x4", "5x4"});
}

TEST_F(WeightsTest, RefuseDamagedFiles) {
  Net target = net(net_text(3));
  NetParameter saved;
  target.save(saved);
  NetParameter short_one = saved;
  short_one.mutable_layer(1)->mutable_blobs(0)->mutable_data()->RemoveLast();
  expect_error([&] { target.load_weights(short_one); }, {"'ip1'", "11 values", "3x4"});
  NetParameter twice = saved;
  *twice.add_layer() = saved.layer(1);
  expect_error([&] { target.load_weights(twice); }, {"'ip1' twice"});
  NetParameter fewer = saved;
  fewer.mutable_layer(1)->mutable_blobs()->RemoveLast();
  expect_error([&] { target.load_weights(fewer); }, {"1 parameters", "2"});
}

TEST_F(WeightsTest, LoadOldFourDimensionalShapes) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  NetParameter saved;
  from.save(saved);
  for (auto& layer : *saved.mutable_layer()) {
    for (auto& blob : *layer.mutable_blobs()) {
      const int rank = blob.shape().dim_size();
      blob.set_num(1);
      blob.set_channels(1);
      blob.set_height(rank == 2 ? static_cast<int>(blob.shape().dim(0)) : 1);
      blob.set_width(static_cast<int>(blob.shape().dim(rank - 1)));
      blob.clear_shape();
    }
  }
  to.load_weights(saved, true);
  EXPECT_EQ(params_of(from), params_of(to));
}

TEST_F(WeightsTest, LoadDoubles) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  NetParameter saved;
  from.save(saved);
  for (auto& layer : *saved.mutable_layer()) {
    for (auto& blob : *layer.mutable_blobs()) {
      for (float value : blob.data()) blob.add_double_data(value);
      blob.clear_data();
    }
  }
  to.load_weights(saved, true);
  EXPECT_EQ(params_of(from), params_of(to));
}

}  // namespace
}  // namespace crema
