#include "solver/rate_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"

namespace crema {
namespace {

RatePolicy policy(const std::string& text) {
  SolverParameter param;
  parse_text_proto("base_lr: 0.5 " + text, "solver.prototxt", param);
  return RatePolicy(param);
}

TEST(RatePolicy, FollowsTheFormulas) {
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'fixed'").rate(1000), 0.5);
  const auto step = policy("lr_policy: 'step' gamma: 0.5 stepsize: 10");
  EXPECT_DOUBLE_EQ(step.rate(9), 0.5);
  EXPECT_DOUBLE_EQ(step.rate(10), 0.25);
  EXPECT_DOUBLE_EQ(step.rate(35), 0.0625);
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'exp' gamma: 0.5").rate(3), 0.0625);
  EXPECT_DOUBLE_EQ(policy("lr_policy: 'inv' gamma: 0.5 power: 2").rate(2), 0.5 / 4);
  const auto multistep = policy("lr_policy: 'multistep' gamma: 0.5 stepvalue: 5 stepvalue: 8");
  EXPECT_DOUBLE_EQ(multistep.rate(4), 0.5);
  EXPECT_DOUBLE_EQ(multistep.rate(5), 0.25);
  EXPECT_DOUBLE_EQ(multistep.rate(100), 0.125);
  const auto poly = policy("lr_policy: 'poly' power: 2 max_iter: 10");
  EXPECT_DOUBLE_EQ(poly.rate(5), 0.125);
  EXPECT_DOUBLE_EQ(poly.rate(10), 0);
  EXPECT_DOUBLE_EQ(poly.rate(11), 0);
  EXPECT_NEAR(policy("lr_policy: 'sigmoid' gamma: 0.5 stepsize: 4").rate(6),
              0.5 / (1 + std::exp(-1)), 1e-12);
}

TEST(RatePolicy, SaysWhatIsMissing) {
  expect_error([] { policy("lr_policy: 'poly' power: 1"); }, {"poly", "max_iter"});
  expect_error([] { policy("lr_policy: 'step' gamma: 0.1"); }, {"step", "stepsize"});
  expect_error([] { policy("lr_policy: 'inv' gamma: 0.1"); }, {"inv", "power"});
  expect_error([] { policy("lr_policy: 'multistep' gamma: 0.1"); }, {"stepvalue"});
  expect_error([] { policy("lr_policy: 'multistep' gamma: 0.1 stepvalue: 5 stepvalue: 3"); },
               {"ascend"});
  expect_error([] { policy("lr_policy: 'stepp'"); },
               {"'stepp'", "did you mean 'step'?", "sigmoid"});
  expect_error([] { policy(""); }, {"lr_policy"});
}

}  // namespace
}  // namespace crema
