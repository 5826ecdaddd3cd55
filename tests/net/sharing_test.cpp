// Nets that use the parameters of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::gradients_of;
using test::net_param;
using test::values_of;

std::string net_text(const std::string& name, const std::string& param = "") {
  return R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: ")" +
         name + R"(" type: "InnerProduct" bottom: "x" top: "ip" )" + param + R"(
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
}

class SharingTest : public ::testing::Test {
 protected:
  SharingTest() { fill_inputs(owner_); }
  Net share(const std::string& text, bool all = false) {
    return Net(net_param(text), context_, {.share_params_with = &owner_, .share_all = all});
  }

  std::vector<std::string> warnings_;
  Context context_{{.logger = [this](Severity severity, const std::string& message) {
    if (severity == Severity::warning) warnings_.push_back(message);
  }}};
  Net owner_{net_param(net_text("fc8")), context_, {}};
};

TEST_F(SharingTest, ALayerThatTheOtherNetLacksIsTold) {
  Net other = share(net_text("fc8_test"));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], ::testing::HasSubstr("'fc8_test'"));
  expect_error([&] { share(net_text("fc88"), true); },
               {"layer 'fc88' (InnerProduct)", "did you mean 'fc8'?"});
  // What never learns may be a test net's own, such as a fixed filter.
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 0 }";
  share(net_text("blur", frozen), true);
  EXPECT_EQ(warnings_.size(), 2U);
  share(net_text("fc8"), true);
  EXPECT_EQ(warnings_.size(), 2U);
}

TEST_F(SharingTest, ClearsTheGradientsThatItAddsTo) {
  Net other = share(net_text("fc8"));
  fill_inputs(other);
  std::vector<double> once;
  for (int pass = 0; pass < 2; ++pass) {
    other.clear_gradients();
    other.forward();
    other.backward();
    const auto gradient = gradients_of(owner_);
    if (pass == 0) once = gradient;
    EXPECT_EQ(gradient, once);
  }
  EXPECT_NE(once, std::vector<double>(once.size(), 0.0));
}

TEST_F(SharingTest, CountsWhatItUses) {
  Net other = share(net_text("fc8"));
  EXPECT_TRUE(other.params().segments().empty());
  EXPECT_EQ(other.memory().parameters, 0U);
  EXPECT_EQ(other.summary()[2].params, 4 * 3 + 3);
}

// The first of the nets to run draws the owner's numbers for all.
TEST_F(SharingTest, NetsMayStartBeforeTheOwner) {
  constexpr int kThreads = 4;
  std::vector<double> losses(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Context own({.threads = 1});
      Net net(net_param(net_text("fc8")), own, {.share_params_with = &owner_});
      fill_inputs(net);
      losses[static_cast<size_t>(t)] = net.forward();
    });
  }
  for (auto& thread : threads) thread.join();
  const double expected = owner_.forward();
  for (double loss : losses) EXPECT_NEAR(loss, expected, 1e-6);
}

/// The loss of a net with the owner's parameters, where the owner ends before anybody ran.
double loss_without_owner(Context& context, const NetParameter* weights) {
  auto owner = std::make_unique<Net>(net_param(net_text("fc8")), context, NetOptions{});
  Net heir(net_param(net_text("fc8")), context, {.share_params_with = owner.get()});
  if (weights) owner->load_weights(*weights);
  owner.reset();
  fill_inputs(heir);
  return heir.forward();
}

TEST_F(SharingTest, AnOwnerThatEndsLeavesItsValues) {
  EXPECT_EQ(loss_without_owner(context_, nullptr), owner_.forward());
  owner_.layer("fc8").params()[0]->data.fill(0.25);
  owner_.layer("fc8").params()[0]->data.change<float>()[0] = -3;
  NetParameter weights;
  owner_.save(weights);
  EXPECT_EQ(loss_without_owner(context_, &weights), owner_.forward());
}

// What is loaded for a net after its owner ended is not filled over.
TEST_F(SharingTest, WeightsAreLoadedAfterTheOwnerEnded) {
  auto owner = std::make_unique<Net>(net_param(net_text("fc8")), context_, NetOptions{});
  Net heir(net_param(net_text("fc8")), context_, {.share_params_with = owner.get()});
  Net other(net_param(net_text("fc8")), context_, {.share_params_with = owner.get()});
  owner.reset();
  owner_.layer("fc8").params()[0]->data.fill(2);
  NetParameter weights;
  owner_.save(weights);
  heir.load_weights(weights);
  EXPECT_EQ(values_of(other.layer("fc8").params()[0]->data), std::vector<double>(12, 2.0));
}

TEST_F(SharingTest, TheOwnerMayEndWhileOthersStart) {
  const double expected = owner_.forward();
  for (int round = 0; round < 20; ++round) {
    constexpr int kThreads = 3;
    auto owner = std::make_unique<Net>(net_param(net_text("fc8")), context_, NetOptions{});
    std::vector<Net> nets;
    for (int t = 0; t < kThreads; ++t) {
      nets.emplace_back(net_param(net_text("fc8")), context_,
                        NetOptions{.share_params_with = owner.get()});
      fill_inputs(nets.back());
    }
    std::vector<double> losses(kThreads);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { losses[t] = nets[t].forward(); });
    }
    owner.reset();
    for (auto& thread : threads) thread.join();
    for (const double loss : losses) EXPECT_EQ(loss, expected);
  }
}

TEST_F(SharingTest, LayersOfOneNameShareInOrder) {
  const std::string twice = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "a"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "a" top: "b"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } })";
  Net first(net_param(twice), context_, {});
  Net second(net_param(twice), context_, {.share_params_with = &first});
  EXPECT_TRUE(
      second.layer("ip#2").params()[0]->data.same_memory(first.layer("ip#2").params()[0]->data));
  EXPECT_FALSE(
      second.layer("ip#2").params()[0]->data.same_memory(first.layer("ip").params()[0]->data));
}

}  // namespace
}  // namespace crema
