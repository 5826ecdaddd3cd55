#include "core/speed_model.hpp"

#include <gtest/gtest.h>

namespace crema {
namespace {

constexpr double kWork = 1e9;

Workload work(std::vector<double> sizes, const std::string& group = "conv k3") {
  return {.group = group, .multiply_adds = kWork, .sizes = std::move(sizes), .threads = 2};
}

/// Seconds at a share of the peak.
double at(double share) { return kWork / (share * nominal_peak(2)); }

TEST(SpeedModel, BeginsWithTheUsualShare) {
  const SpeedModel model;
  const Expectation expected = model.predict("new", work({64}), "direct", 0.8);
  EXPECT_NEAR(expected.seconds, at(0.8), 1e-12);
  EXPECT_GT(expected.factor, 1.3) << "of some processor";
  EXPECT_FALSE(expected.by_samples);
  EXPECT_EQ(model.predict("new", work({64}), "direct", 0).seconds, 0) << "nothing is known";
  EXPECT_EQ(model.predict("new", {}, "direct", 0.8).seconds, 0) << "of what work?";
}

TEST(SpeedModel, LearnsFromLikeProblems) {
  SpeedModel model;
  model.add("p", work({64}), "direct", 0.8, at(0.4));
  const Expectation near = model.predict("new", work({64}), "direct", 0.8);
  EXPECT_NEAR(near.seconds, at(0.4), 0.15 * at(0.4));
  EXPECT_LT(near.factor, 1.35);
  EXPECT_TRUE(near.by_samples);
  // Problems that are far say little, those of other groups nothing.
  EXPECT_GT(model.predict("new", work({4096}), "direct", 0.8).factor, near.factor);
  EXPECT_FALSE(model.predict("new", work({4096}), "direct", 0.8).by_samples);
  EXPECT_FALSE(model.predict("new", work({64}, "conv k5"), "direct", 0.8).by_samples);
  EXPECT_FALSE(model.predict("p", work({64}), "direct", 0.8).by_samples) << "that is its own time";
  // A later time of the same problem replaces the sample.
  for (int i = 0; i < 9; ++i) model.add("p", work({64}), "direct", 0.8, at(0.7));
  EXPECT_NEAR(model.predict("new", work({64}), "direct", 0.7).seconds, at(0.7), 0.02 * at(0.7));
}

// On a processor where all kernels reach half of the usual share, so do those that are unknown.
TEST(SpeedModel, AProcessorShiftsAllKernels) {
  SpeedModel model;
  for (const char* kernel : {"a", "b", "c", "d", "e", "f"}) {
    model.add("p", work({64}), kernel, 0.8, at(0.4));
  }
  const double seconds = model.predict("new", work({64}), "g", 0.6).seconds;
  EXPECT_GT(seconds, at(0.36));
  EXPECT_LT(seconds, at(0.29));
}

TEST(SpeedModel, KeepsALimitedNumberOfSamples) {
  SpeedModel model;
  for (size_t i = 0; i < 3 * SpeedModel::kMostSamples; ++i) {
    model.add("p" + std::to_string(i), work({64}), "a", 0.8, at(0.4));
  }
  EXPECT_NEAR(model.predict("new", work({64}), "a", 0.8).seconds, at(0.4), 0.01 * at(0.4));
}

}  // namespace
}  // namespace crema
