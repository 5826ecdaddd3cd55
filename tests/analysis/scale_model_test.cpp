// The model of `crema scale` against cases that are computed by hand.
#include "analysis/scale_model.hpp"

#include <gtest/gtest.h>

namespace crema {
namespace {

constexpr double kMegabyte = 1 << 20;

MeasuredIteration two_layers() {
  return {.forward = 0.010, .update = 0.002, .backward = {{0.010, 8e6}, {0.020, 4e6}}};
}

TEST(ScaleModel, AnAllReduceMovesEachByteTwice) {
  const NetworkModel network{.bandwidth = 1e9, .latency = 1e-3, .message = 0, .sum_rate = 1e12};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(8e6, 1, network), 0);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(8e6, 2, network), 2 * (1e-3 + 4e-3));
  EXPECT_NEAR(all_reduce_seconds(8e6, 8, network), 2 * (1e-3 + 7e-3), 1e-12);
  // Short messages cost what a message costs.
  const NetworkModel slow{.bandwidth = 1e9, .latency = 0, .message = 1e-3, .sum_rate = 1e12};
  EXPECT_NEAR(all_reduce_seconds(100, 101, slow), 2 * 0.1, 1e-12);
}

TEST(ScaleModel, OneProcessTakesWhatWasMeasured) {
  const NetworkModel network{.bandwidth = 1e9, .latency = 1e-3};
  const ScaledIteration one = scaled_iteration(two_layers(), 1, network, 25 * kMegabyte);
  EXPECT_NEAR(one.seconds, 0.042, 1e-12);
  EXPECT_NEAR(one.efficiency, 1, 1e-12);
  EXPECT_EQ(one.exposed, 0);
}

TEST(ScaleModel, WhatBackwardHidesCostsNothing) {
  // The first gradient is summed in 8 ms while the second layer runs 20 ms; the second in 4 ms.
  const NetworkModel network{.bandwidth = 1e9, .latency = 0, .message = 0, .sum_rate = 1e12};
  const ScaledIteration two = scaled_iteration(two_layers(), 2, network, kMegabyte);
  EXPECT_NEAR(two.exposed, 0.004, 1e-12);
  EXPECT_NEAR(two.seconds, 0.046, 1e-12);
  EXPECT_NEAR(two.efficiency, 42.0 / 46, 1e-12);
  // A slower network is not done with the first one in time.
  const NetworkModel slow{.bandwidth = 2e8, .latency = 0, .message = 0, .sum_rate = 1e12};
  EXPECT_NEAR(scaled_iteration(two_layers(), 2, slow, kMegabyte).exposed, 0.020 + 0.020, 1e-12);
}

TEST(ScaleModel, BucketsAreAsLargeAsTheLatencyAsksFor) {
  MeasuredIteration many{.forward = 0.010, .update = 0, .backward = {}};
  for (int i = 0; i < 200; ++i) many.backward.push_back({1e-4, 1.1 * kMegabyte});
  const NetworkModel quick{.bandwidth = 1e11, .latency = 1e-7, .message = 0, .sum_rate = 1e12};
  const NetworkModel far{.bandwidth = 1e11, .latency = 5e-3, .message = 0, .sum_rate = 1e12};
  EXPECT_EQ(best_bucket(many, 8, quick), kMegabyte);
  EXPECT_GT(best_bucket(many, 8, far), 25 * kMegabyte);
}

}  // namespace
}  // namespace crema
