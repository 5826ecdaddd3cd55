// The lines of debug_info, as published.
#include "crema/debug_info.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/solver.hpp"
#include "proto/solver.pb.h"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

const std::string kNet = R"(
layer { name: "in" type: "DummyData" top: "x" top: "t" dummy_data_param {
        shape { dim: 1 dim: 2 } shape { dim: 1 dim: 1 }
        data_filler { value: -1.5 } data_filler { value: 0.5 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" param { name: "w" }
        inner_product_param { num_output: 1 weight_filler { value: 0.5 } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" relu_param { negative_slope: 0.5 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "t" top: "loss" }
)";

/// What a context logs: the lines with "[" behind four spaces.
class Lines {
 public:
  Context& context() { return context_; }
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
  Context context_{{.logger = [this](Severity, const std::string& text) {
    if (text.starts_with("    [")) lines_.push_back(text.substr(4));
  }}};
};

// x = (-1.5, -1.5), w = (0.5, 0.5): ip = -1.5, in place -0.75; loss (1.25)^2 / 2.
const std::vector<std::string> kForward = {
    "[Forward] Layer in, top blob x data: 1.5",
    "[Forward] Layer in, top blob t data: 0.5",
    "[Forward] Layer ip, top blob ip data: 1.5",
    "[Forward] Layer ip, param blob w data: 0.5",
    "[Forward] Layer ip, param blob 1 data: 0",
    "[Forward] Layer relu, top blob ip data: 0.75",
    "[Forward] Layer loss, top blob loss data: 0.78125",
};
// d of the loss: -1.25, before the ReLU -0.625; dw = 0.9375, db = -0.625.
const std::vector<std::string> kBackward = {
    "[Backward] Layer loss, bottom blob ip diff: 1.25",
    "[Backward] Layer relu, bottom blob ip diff: 0.625",
    "[Backward] Layer ip, param blob 0 diff: 0.9375",
    "[Backward] Layer ip, param blob 1 diff: 0.625",
    "[Backward] All net params (data, diff): L1 norm = (1, 2.5); L2 norm = (0.707107, 1.46575)",
};

TEST(DebugInfo, OfANetShowsEveryPass) {
  Lines lines;
  Net net(net_param("debug_info: true" + kNet), lines.context(), {.phase = Phase::train});
  for (int pass = 0; pass < 2; ++pass) {
    net.clear_gradients();
    net.forward();
    EXPECT_EQ(lines.take(), kForward);
    net.backward();
    EXPECT_EQ(lines.take(), kBackward);
  }
}

TEST(DebugInfo, IsOffWithoutIt) {
  Lines lines;
  Net net(net_param(kNet), lines.context(), {.phase = Phase::train, .fuse = false});
  net.forward();
  net.backward();
  EXPECT_THAT(lines.take(), IsEmpty());
  set_debug_info(net, true);
  net.forward();
  EXPECT_EQ(lines.take(), kForward);
  set_debug_info(net, false);
  net.forward();
  EXPECT_THAT(lines.take(), IsEmpty());
}

// Activations of 16 bits have their values too.
TEST(DebugInfo, OfBf16) {
  Lines lines;
  Net net(net_param("debug_info: true precision: BF16" + kNet), lines.context(),
          {.phase = Phase::train});
  net.forward();
  EXPECT_EQ(lines.take(), kForward);
}

// What is dropped and computed again is shown once.
TEST(DebugInfo, OfRecomputedLayersIsShownOnce) {
  std::string text = kNet;
  const std::string relu = "type: \"ReLU\"";
  text.insert(text.find(relu), "recompute: true ");
  Lines lines;
  Net net(net_param("debug_info: true" + text), lines.context(), {.phase = Phase::train});
  net.clear_gradients();
  net.forward();
  EXPECT_EQ(lines.take(), kForward);
  net.backward();
  EXPECT_EQ(lines.take(), kBackward);
}

TEST(DebugInfo, OfASolverShowsWhatIsDisplayed) {
  Lines lines;
  SolverParameter param;
  *param.mutable_net_param() = net_param(kNet);
  param.set_base_lr(0.1F);
  param.set_lr_policy("fixed");
  param.set_debug_info(true);
  param.set_display(2);
  param.set_max_iter(3);
  param.set_snapshot_after_train(false);
  Solver solver(param, lines.context());
  solver.step(1);
  std::vector<std::string> expected = kForward;
  expected.insert(expected.end(), kBackward.begin(), kBackward.end());
  expected.push_back("[Update] Layer ip, param w data: 0.5; diff: 0.09375");
  expected.push_back("[Update] Layer ip, param 1 data: 0; diff: 0.0625");
  EXPECT_EQ(lines.take(), expected);
  solver.step(1);
  EXPECT_THAT(lines.take(), IsEmpty());
  solver.step(1);
  EXPECT_EQ(lines.take().size(), expected.size());
}

TEST(DebugInfo, AskedOfTheNetOfASolverStays) {
  Lines lines;
  SolverParameter param;
  *param.mutable_net_param() = net_param(kNet);
  param.set_base_lr(0.1F);
  param.set_lr_policy("fixed");
  param.set_display(2);
  param.set_max_iter(3);
  param.set_snapshot_after_train(false);
  Solver solver(param, lines.context());
  set_debug_info(solver.net(), true);
  for (int i = 0; i < 2; ++i) {
    solver.step(1);
    EXPECT_THAT(lines.take(), Contains("[Forward] Layer in, top blob x data: 1.5")) << i;
  }
  set_debug_info(solver.net(), false);
  solver.step(1);
  EXPECT_THAT(lines.take(), IsEmpty());
}

TEST(DebugInfo, OfASolverShowsTests) {
  Lines lines;
  SolverParameter param;
  *param.mutable_net_param() = net_param(kNet);
  param.set_base_lr(0.1F);
  param.set_lr_policy("fixed");
  param.set_debug_info(true);
  param.add_test_iter(2);
  param.set_test_interval(1);
  param.set_max_iter(1);
  param.set_snapshot_after_train(false);
  Solver solver(param, lines.context());
  solver.test();
  std::vector<std::string> expected = kForward;
  expected.insert(expected.end(), kForward.begin(), kForward.end());
  EXPECT_EQ(lines.take(), expected);
}

}  // namespace
}  // namespace crema::test
