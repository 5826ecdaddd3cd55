// The trials that a sweep's file stands for, and its errors.
#include "monitor/sweep/sweep_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

class SweepPlanTest : public ::testing::Test {
 protected:
  SweepPlanTest() {
    folder_.write("net.prototxt", R"(name: "tiny"
layer { name: "x" type: "DummyData" top: "x" top: "label" dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip.1" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    folder_.write("solver.prototxt",
                  "net: '" + folder_.path("net.prototxt") + "' base_lr: 0.1 lr_policy: 'fixed'");
  }
  SweepPlan plan(const std::string& sweep) const {
    return plan_sweep(
        folder_.write("s.prototxt", "solver: '" + folder_.path("solver.prototxt") + "'\n" + sweep));
  }
  void refuses(const std::string& sweep, std::initializer_list<std::string_view> parts) const {
    SCOPED_TRACE(sweep);
    expect_error([&] { plan(sweep); }, parts);
  }
  static std::vector<std::string> joined_trials(const SweepPlan& plan) {
    std::vector<std::string> all;
    for (const PlannedTrial& trial : plan.trials) all.push_back(joined(trial.vary, " "));
    return all;
  }

  TempFolder folder_;
};

TEST_F(SweepPlanTest, AGridTriesAllWithAll) {
  const SweepPlan grid = plan(R"(set: "max_iter=10"
vary { field: "base_lr" range { least: 0.001 greatest: 0.1 log: true steps: 3 } }
vary { field: "net.ip.1.num_output" value: "4" value: "8" })");
  EXPECT_EQ(joined_trials(grid),
            (std::vector<std::string>{
                "base_lr=0.001 net.ip.1.num_output=4", "base_lr=0.001 net.ip.1.num_output=8",
                "base_lr=0.01 net.ip.1.num_output=4", "base_lr=0.01 net.ip.1.num_output=8",
                "base_lr=0.1 net.ip.1.num_output=4", "base_lr=0.1 net.ip.1.num_output=8"}));
  EXPECT_EQ(grid.trials[5].name, "trial-6");
  EXPECT_EQ(grid.param.name(), "s");
  EXPECT_EQ(settings_of(grid, grid.trials[0]),
            (std::vector<std::string>{"max_iter=10", "base_lr=0.001", "net.ip.1.num_output=4"}));
}

TEST_F(SweepPlanTest, RangesHaveTheirEndsAndWholeNumbers) {
  EXPECT_EQ(
      joined_trials(plan("vary { field: 'momentum' range { least: 0 greatest: 1 steps: 5 } }")),
      (std::vector<std::string>{"momentum=0", "momentum=0.25", "momentum=0.5", "momentum=0.75",
                                "momentum=1"}));
  // Those that fall together are one.
  EXPECT_EQ(joined_trials(plan("vary { field: 'iter_size' range { least: 1 greatest: 3 steps: 9 "
                               "integer: true } }")),
            (std::vector<std::string>{"iter_size=1", "iter_size=2", "iter_size=3"}));
  EXPECT_EQ(plan("trials: 2 vary { field: 'iter_size' range { least: 1 greatest: 3 steps: 3 } }")
                .trials.size(),
            2U);
}

TEST_F(SweepPlanTest, SeveralFieldsGetOneValue) {
  EXPECT_EQ(joined_trials(plan("vary { field: 'momentum' field: 'gamma' value: '0.5' }")),
            std::vector<std::string>{"momentum=0.5 gamma=0.5"});
}

TEST_F(SweepPlanTest, ARandomSearchDrawsTheSameAgain) {
  const std::string sweep =
      "search: RANDOM vary { field: 'base_lr' range { least: 0.0001 greatest: 1 log: true "
      "} "
      "} vary { field: 'iter_size' range { least: 1 greatest: 4 integer: true } } vary { field: "
      "'momentum' value: '0' value: '0.9' } ";
  const auto few = joined_trials(plan(sweep + "trials: 20 seed: 7"));
  auto many = joined_trials(plan(sweep + "trials: 400 seed: 7"));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_EQ(std::set<std::string>(few.begin(), few.end()).size(), 20U);
  EXPECT_NE(few, joined_trials(plan(sweep + "trials: 20 seed: 8")));
  // Even in the logarithm: a quarter of the draws in each factor of 10.
  std::array<int, 4> decades{}, sizes{};
  int zero = 0;
  for (const PlannedTrial& trial : plan(sweep + "trials: 400 seed: 7").trials) {
    const double rate = std::atof(trial.vary[0].substr(8).c_str());
    ASSERT_GE(rate, 0.0001);
    ASSERT_LE(rate, 1);
    ++decades.at(std::min<size_t>(3, static_cast<size_t>(std::floor(std::log10(rate) + 4))));
    ++sizes.at(static_cast<size_t>(std::atoi(trial.vary[1].substr(10).c_str()) - 1));
    if (trial.vary[2] == "momentum=0") ++zero;
  }
  for (const int count : decades) EXPECT_NEAR(count, 100, 35);
  for (const int count : sizes) EXPECT_GT(count, 30);
  EXPECT_NEAR(zero, 200, 45);
}

TEST_F(SweepPlanTest, WrongFieldsAreErrorsWithTheirPlace) {
  refuses("vary { feild: 'base_lr' }", {"s.prototxt:2", "feild", "field"});
  refuses("vary { field: 'bas_lr' value: '0.1' }", {"s.prototxt:2:8", "bas_lr", "base_lr"});
  refuses("\nvary { field: 'base_lr' value: '0.1' value: 'much' }", {"s.prototxt:3", "much"});
  refuses("vary { field: 'net.ip1.num_output' value: '4' }",
          {"s.prototxt:2:8", "no layer 'ip1'", "ip.1"});
  refuses("vary { field: 'net.ip.1.num_outputs' value: '4' }", {"s.prototxt:2:8", "num_output"});
  refuses("vary { field: 'net.ip.1.num_output' value: 'four' }", {"s.prototxt:2:37", "four"});
  refuses("set: 'max_itr=10' vary { field: 'base_lr' value: '1' }", {"s.prototxt:2:1", "max_iter"});
  refuses("vary { field: 'base_lr=0.1' value: '1' }", {"s.prototxt:2", "has a value"});
  refuses("vary { field: 'snapshot_prefix' value: 'a' }", {"snapshot_prefix", "its own"});
  refuses("vary { field: 'base_lr' value: '1' } vary { field: 'base_lr' value: '2' }",
          {"s.prototxt:2:45", "varied twice"});
}

TEST_F(SweepPlanTest, WrongRangesAndCountsAreErrors) {
  refuses("", {"varies nothing"});
  refuses("vary { value: '1' }", {"no field"});
  refuses("vary { field: 'base_lr' }", {"neither"});
  refuses("vary { field: 'base_lr' value: '1' range { least: 1 greatest: 2 steps: 2 } }", {"both"});
  refuses("vary { field: 'base_lr' range { least: 1 steps: 2 } }", {"needs least and greatest"});
  refuses("vary { field: 'base_lr' range { least: 2 greatest: 1 steps: 2 } }", {"below greatest"});
  refuses("vary { field: 'base_lr' range { least: 0 greatest: 1 steps: 2 log: true } }",
          {"no logarithm"});
  refuses("vary { field: 'base_lr' range { least: 0 greatest: 1 } }", {"a grid needs steps"});
  refuses("vary { field: 'base_lr' range { least: 0 greatest: 1 steps: 1 } }", {"steps 1"});
  refuses("vary { field: 'iter_size' range { least: 1.2 greatest: 1.8 steps: 2 integer: true } }",
          {"no whole number"});
  refuses("search: RANDOM vary { field: 'base_lr' value: '1' }", {"needs trials"});
  refuses("parallel: 0 vary { field: 'base_lr' value: '1' }", {"s.prototxt:2:1", "parallel 0"});
  refuses("trials: 0 vary { field: 'base_lr' value: '1' }", {"trials 0"});
  refuses("hopeless { } vary { field: 'base_lr' value: '1' }", {"from_iteration"});
  refuses(
      "vary { field: 'base_lr' range { least: 0 greatest: 1 steps: 200 } } vary { field: "
      "'momentum' range { least: 0 greatest: 1 steps: 200 } }",
      {"more than 10000", "RANDOM"});
  expect_error([&] { plan_sweep(folder_.write("n.prototxt", "parallel: 1")); }, {"no solver"});
  expect_error([&] { plan_sweep(folder_.path("none")); }, {"none"});
}

}  // namespace
}  // namespace crema
