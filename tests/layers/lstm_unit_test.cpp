#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

const char* const kLayer = "layer { type: 'LSTMUnit' }";

LayerCase unit_case(int64_t batch, int64_t units, std::vector<double> cont) {
  return {.layer = kLayer,
          .bottoms = {uniform({1, batch, units}), uniform({1, batch, 4 * units}, -2, 2),
                      given({1, batch}, std::move(cont))},
          .tops = 2};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(LSTMUnit, Values) {
  LayerRun run({.layer = kLayer,
                .bottoms = {given({1, 2, 1}, {0.5, 0.5}),
                            given({1, 2, 4}, {0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.4}),
                            given({1, 2}, {1, 0})},
                .tops = 2});
  run.forward();
  const double fresh = sigmoid(0.1) * std::tanh(0.4), kept = fresh + sigmoid(0.2) * 0.5;
  expect_close(run.top(0), {kept, fresh}, {1e-6, 0}, "c");
  expect_close(run.top(1), {sigmoid(0.3) * std::tanh(kept), sigmoid(0.3) * std::tanh(fresh)},
               {1e-6, 0}, "h");
}

TEST(LSTMUnit, GradientsAndEngines) {
  for (const LayerCase& c : {unit_case(3, 5, {1, 0, 1}), unit_case(1, 1, {1}),
                             unit_case(2, 19, {0.5, 1}), unit_case(2, 3, {0, 0})}) {
    check_gradients(c);
    check_engines(c);
    check_gradients(c, {.bottoms = {0}});
    check_gradients(c, {.bottoms = {1}});
  }
}

TEST(LSTMUnit, AMaskedCellDoesNotLeak) {
  LayerRun run(unit_case(2, 3, {0, 1}));
  for (size_t u = 0; u < 3; ++u) run.bottom_values(0)[u] = std::numeric_limits<double>::infinity();
  run.forward();
  run.backward();
  for (const auto& values : {run.top(0), run.top(1), run.bottom_diff(0), run.bottom_diff(1)}) {
    for (const double value : values) EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_EQ(run.bottom_diff(0)[0], 0);
}

TEST(LSTMUnit, ReshapeAndEmptyBatch) {
  LayerRun run(unit_case(2, 3, {1, 1}));
  for (const int64_t batch : {5, 0, 2}) {
    run.reshape(unit_case(batch, 3, std::vector<double>(static_cast<size_t>(batch), 1)).bottoms);
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(1).shape(), (Shape{1, batch, 3}));
  }
}

TEST(LSTMUnit, Errors) {
  const LayerCase good = unit_case(2, 3, {1, 1});
  const auto refuses = [&](size_t bottom, Shape shape,
                           std::initializer_list<std::string_view> parts) {
    LayerCase c = good;
    c.bottoms[bottom] = uniform(std::move(shape), 0, 1);
    expect_error([&] { LayerRun{c}; }, parts);
  };
  refuses(0, {2, 3}, {"bottom0", "2x3", "(1, sequences, units)"});
  refuses(0, {4, 2, 3}, {"bottom0", "4x2x3"});
  refuses(1, {1, 2, 9}, {"bottom1", "1x2x9", "1x2x12"});
  refuses(2, {2}, {"bottom2", "1x2"});
  for (const double bad : {-1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    LayerRun run(good);
    run.bottom_values(2)[1] = bad;
    expect_error([&] { run.forward(); }, {"step 0, sequence 1", "outside [0, 1]"});
  }
}

}  // namespace
}  // namespace crema::test
