// Parameters to and from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "crema/parameter_arena.hpp"
#include "net/plan.hpp"
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
    return Net(net_param(text), context_, {.run = &states_.emplace_back(RunState{.seed = seed})});
  }
  Context context_;
  std::deque<RunState> states_;  // of nets
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
  expect_error([&] { target.load_weights(twice); }, {"2 layers named 'ip1'", "the net for 1"});
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

TEST_F(WeightsTest, ALoadThatFailsChangesNothing) {
  Net from = net(net_text(3), 1), to = net(net_text(3), 2);
  const auto before = params_of(to);
  NetParameter saved;
  from.save(saved);
  NetParameter other_shape = saved;  // of the last layer: the first would fit
  other_shape.mutable_layer(2)->mutable_blobs(0)->mutable_shape()->set_dim(0, 3);
  expect_error([&] { to.load_weights(other_shape); }, {"layer 'ip2'", "3x3"});
  EXPECT_EQ(params_of(to), before);
  NetParameter renamed = saved;
  renamed.mutable_layer(2)->set_name("ip3");
  expect_error([&] { to.load_weights(renamed, true); }, {"strict"});
  EXPECT_EQ(params_of(to), before);
}

TEST_F(WeightsTest, ThatLayersCarryAreLoaded) {
  Net from = net(net_text(3), 1);
  NetParameter saved;
  from.save(saved);
  RunState state{.seed = 2};
  Net to(saved, context_, {.run = &state});
  EXPECT_EQ(params_of(to), params_of(from));

  NetParameter text = net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "s" type: "Scale" bottom: "x" top: "y" blobs { shape { dim: 2 } data: 3 data: 4 } })");
  Net scale(text, context_);
  scale.input("x").fill(2);
  scale.forward();
  EXPECT_THAT(test::values_of(scale.output("y")), ElementsAre(6, 8));

  text.mutable_layer(1)->mutable_blobs(0)->add_data(5);
  expect_error([&] { Net(text, context_); }, {"layer 's' (Scale)", "3 values"});
}

/// The most memory of the process since `begin_peak()`, in bytes; 0 where the system does not tell.
void begin_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
int64_t peak() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

TEST_F(WeightsTest, ThatLayersCarryAreNotCopiedOnTheWay) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  NetParameter carried = net_param(
      concat(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4096 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y"
        inner_product_param { bias_term: false num_output: )",
             kBytes / 4 / 4096, " } blobs { shape { dim: ", kBytes / 4 / 4096, " dim: 4096 } } }"));
  carried.mutable_layer(1)->mutable_blobs(0)->mutable_data()->Resize(kBytes / 4, 0.5F);
  begin_peak();
  const int64_t before = peak();
  Net to(carried, context_, {.phase = Phase::test});
  EXPECT_LT(peak() - before, kBytes * 3 / 2) << "the net's own and half as much";
  EXPECT_EQ(params_of(to).back(), 0.5);
}

TEST_F(WeightsTest, OfLayersThatAreNotInTheStateAreLeftOut) {
  const auto layer = [](const char* phase, int value) {
    return concat("layer { name: 's' type: 'Scale' bottom: 'x' top: 'y' include { phase: ", phase,
                  " } blobs { shape { dim: 2 } data: ", value, " data: ", value, " } }");
  };
  const NetParameter text =
      net_param(concat("input: 'x' input_shape { dim: 1 dim: 2 }", layer("TRAIN", 1),
                       layer("TEST", 2), "layer { name: 't' type: 'Scale' bottom: 'y' top: 'z'",
                       " blobs { shape { dim: 2 } data: 3 data: 3 } }"));
  Net train(text, context_), test(text, context_, {.phase = Phase::test});
  EXPECT_THAT(params_of(train), ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(params_of(test), ElementsAre(2, 2, 3, 3));
}

TEST_F(WeightsTest, ThatLayersCarryDoNotOverwriteATrainedNet) {
  Net from = net(net_text(3), 1), trained = net(net_text(3), 2);
  NetParameter carried;
  from.save(carried);
  const auto before = params_of(trained);
  Net test(carried, context_, {.phase = Phase::test, .share_params_with = &trained});
  EXPECT_EQ(params_of(trained), before);
}

TEST_F(WeightsTest, OfLayersOfOneNameComeBackInOrder) {
  const std::string text = net_text(3, "ip1");
  Net from = net(text, 1), to = net(text, 2);
  NetParameter saved;
  from.save(saved);
  EXPECT_EQ(saved.layer(1).name(), "ip1");
  EXPECT_EQ(saved.layer(2).name(), "ip1");
  to.load_weights(saved, true);
  EXPECT_EQ(params_of(from), params_of(to));
}

// A layer under phase TRAIN is absent from what a TEST net exports.
TEST_F(WeightsTest, OfAnotherPhaseAreNotSaved) {
  const std::string text = net_text(3) + R"(
layer { name: "ip3" type: "InnerProduct" bottom: "b" top: "c" include { phase: TRAIN }
        inner_product_param { num_output: 2 } })";
  NetParameter saved;
  Net(net_param(text), context_, {.phase = Phase::test}).save(saved);
  ASSERT_EQ(saved.layer_size(), 3);
  EXPECT_EQ(saved.layer(2).name(), "ip2");
  Net(net_param(text), context_, {.phase = Phase::train}).save(saved);
  EXPECT_EQ(saved.layer_size(), 4);
}

// Drawing numbers for parameters that a file then overwrites took seconds for large nets.
TEST_F(WeightsTest, GivenAtConstructionAreNotDrawnFirst) {
  Net from = net(net_text(3), 1);
  NetParameter saved;
  from.save(saved);
  RunState state{.seed = 2};
  Net to(saved, context_, {.run = &state});
  const auto versions = [&] {
    std::vector<uint64_t> all;
    for (const auto& segment : to.params().segments()) {
      // Memories count from a multiple of 2^32.
      all.push_back(segment.parameter->data.memory()->version() & 0xffffffffU);
    }
    return all;
  };
  EXPECT_THAT(versions(), ::testing::Each(2)) << "made current on the host, then written once";
  to.forward();
  EXPECT_THAT(versions(), ::testing::Each(2));
  EXPECT_EQ(params_of(to), params_of(from));
}

TEST_F(WeightsTest, ThatAFileLacksAreThoseOfTheSeed) {
  Net whole = net(net_text(3), 2), partly = net(net_text(3), 2);
  NetParameter saved;
  net(net_text(3), 1).save(saved);
  saved.mutable_layer(2)->set_name("other");
  partly.load_weights(saved);
  partly.forward();
  EXPECT_EQ(test::values_of(partly.layer("ip2").params()[0]->data),
            test::values_of(whole.layer("ip2").params()[0]->data));
  EXPECT_NE(test::values_of(partly.layer("ip1").params()[0]->data),
            test::values_of(whole.layer("ip1").params()[0]->data));
}

// A pointer that the caller kept is good for writing at any time.
TEST_F(WeightsTest, WrittenThroughAKeptPointerCount) {
  for (const bool trains : {false, true}) {
    RunState state{.seed = 1};
    Net target(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 16 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: "xavier" } } })"),
               context_,
               {.backward = trains ? NetOptions::Backward::yes : NetOptions::Backward::no,
                .run = &state});
    test::fill_inputs(target);
    Tensor& weights = target.layer("conv").params()[0]->data;
    float* const kept = weights.host_mut<float>();
    target.forward();
    std::vector<double> twice = test::values_of(target.output("y"));
    for (double& value : twice) value *= 2;
    for (int64_t i = 0; i < weights.count(); ++i) kept[i] *= 2;
    target.forward();
    EXPECT_EQ(test::values_of(target.output("y")), twice);
  }
}

TEST_F(WeightsTest, ThatTheCallerWritesStay) {
  Net target = net(net_text(3));
  target.layer("ip1").params()[0]->data.fill(0);
  target.forward();
  for (double value : test::values_of(target.layer("ip1").params()[0]->data)) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace crema
