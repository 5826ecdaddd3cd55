#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/parallel.hpp"
#include "core/philox.hpp"
#include "crema/random.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Each;
using testing::Eq;
using testing::IsSupersetOf;

const char* const kDropout = R"(layer { type: "Dropout" dropout_param { dropout_ratio: 0.3 } })";

LayerCase ones(const Shape& shape, const std::string& layer = kDropout) {
  return {.layer = layer,
          .bottoms = {given(shape, std::vector<double>(size_t(shape.count()), 1.0))}};
}

std::vector<double> forward_at(LayerRun& run, uint64_t iteration, uint64_t pass = 0) {
  run.state().iteration = iteration;
  run.state().pass = pass;
  run.forward();
  return run.top(0);
}

TEST(Dropout, DropsTheGivenShareAndScalesTheRest) {
  LayerRun run(ones({100, 1000}), {.dtype = DType::f64});
  const std::vector<double> y = forward_at(run, 0);
  const auto dropped = std::count(y.begin(), y.end(), 0.0);
  EXPECT_NEAR(double(dropped) / 100000, 0.3, 0.005);
  const double scale = double(float(1 / (1 - 19661 / 65536.0)));  // of the ratio that is drawn
  EXPECT_EQ(std::count(y.begin(), y.end(), scale) + dropped, 100000);
}

TEST(Dropout, NeighboursAreIndependent) {
  LayerRun run(ones({64, 1000}, R"(layer { type: "Dropout" })"));
  const std::vector<double> y = forward_at(run, 0);
  for (size_t distance : {1, 2, 3, 4, 64, 1000}) {
    int both = 0;
    for (size_t i = distance; i < y.size(); ++i) both += y[i] == 0 && y[i - distance] == 0;
    EXPECT_NEAR(double(both) / double(y.size() - distance), 0.25, 0.01) << distance;
  }
}

TEST(Dropout, BackwardUsesTheMaskOfForward) {
  LayerRun run(ones({3, 37}));
  const std::vector<double> y = forward_at(run, 5, 1);
  run.state().iteration = 6;  // what comes next does not matter
  run.set_top_diff(0, std::vector<double>(y.size(), 1.0));
  run.backward();
  EXPECT_EQ(run.bottom_diff(0), y);
}

TEST(Dropout, MaskDependsOnSeedLayerIterationAndPass) {
  LayerRun run(ones({2, 100}));
  const std::vector<double> first = forward_at(run, 0);
  EXPECT_EQ(forward_at(run, 0), first);
  EXPECT_NE(forward_at(run, 1), first);
  EXPECT_NE(forward_at(run, 0, 1), first);

  LayerCase other_seed = ones({2, 100});
  other_seed.seed = 7;
  LayerRun seeded(other_seed);
  EXPECT_NE(forward_at(seeded, 0), first);

  LayerRun named(ones({2, 100}, R"(layer { name: "drop7" type: "Dropout"
                                           dropout_param { dropout_ratio: 0.3 } })"));
  EXPECT_NE(forward_at(named, 0), first);
}

TEST(Dropout, OwnSeedReplacesTheContexts) {
  const std::string layer = R"(layer { type: "Dropout" dropout_param { random_seed: 3 } })";
  LayerCase a = ones({2, 100}, layer), b = a;
  b.seed = 7;
  LayerRun run_a(a), run_b(b);
  EXPECT_EQ(forward_at(run_a, 0), forward_at(run_b, 0));
}

TEST(Dropout, MaskDoesNotDependOnThreads) {
  LayerRun run(ones({40, 4099}));
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<double> one = forward_at(run, 0);
  omp_set_num_threads(3);
  const std::vector<double> three = forward_at(run, 0);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
}

TEST(Dropout, PassesThroughInTest) {
  LayerCase c{.layer = kDropout, .bottoms = {uniform({2, 3, 4})}, .phase = Phase::test};
  LayerRun run(c);
  EXPECT_EQ(run.kernel().in_place(), InPlace::alias);
  run.forward();
  expect_close(run.top(0), run.bottom_values(0), {0, 1e-7}, "top");
  check_gradients(c);
  check_engines(c);
}

TEST(Dropout, MayScaleInTestInsteadOfTrain) {
  const std::string layer =
      "layer { type: 'Dropout' dropout_param { dropout_ratio: 0.25 scale_train: false } }";
  LayerRun train(ones({50, 100}, layer));
  EXPECT_THAT(forward_at(train, 0), Each(testing::AnyOf(0, 1)));
  LayerCase c = ones({2, 3, 4, 5}, layer);
  c.phase = Phase::test;
  LayerRun test(c);
  EXPECT_THAT(forward_at(test, 0), Each(Eq(0.75)));
  check_gradients(c);
  check_engines(c);
}

// Near 1 the rounded ratio is another one: means grew to 1.5 times theirs.
TEST(Dropout, ScalesByTheRatioThatIsDrawn) {
  for (const auto& [ratio, kept] : {std::pair{"0.99999", 1}, {"0.9999", 7}, {"0.3", 45875}}) {
    const std::string layer =
        text("layer { type: 'Dropout' dropout_param { dropout_ratio: ", ratio);
    LayerRun train(ones({1000, 1000}, layer + " } }"), {.dtype = DType::f64});
    const std::vector<double> y = forward_at(train, 0);
    EXPECT_EQ(*std::max_element(y.begin(), y.end()), double(float(65536.0 / kept))) << ratio;
    LayerCase c = ones({2}, layer + " scale_train: false } }");
    c.phase = Phase::test;
    LayerRun test(c);
    EXPECT_THAT(forward_at(test, 0), Each(Eq(float(kept / 65536.0)))) << ratio;
  }
}

TEST(Dropout, RatioZeroDropsNothing) {
  LayerRun run(ones({50, 100}, R"(layer { type: "Dropout" dropout_param { dropout_ratio: 0 } })"));
  EXPECT_THAT(forward_at(run, 0), Each(Eq(1)));
}

TEST(Dropout, Gradients) { check_gradients({.layer = kDropout, .bottoms = {uniform({2, 3, 5})}}); }

// The same elements are dropped whatever the format: check_engines compares with contiguous memory.
TEST(Dropout, EveryFormat) {
  const auto ran = check_engines({.layer = kDropout, .bottoms = {uniform({2, 19, 9, 11})}});
  EXPECT_THAT(ran, IsSupersetOf({"reference contiguous", "reference channels_last",
                                 "reference blocked8", "reference blocked16"}));
  check_engines({.layer = kDropout, .bottoms = {uniform({3, 32, 1, 1})}});
  check_engines({.layer = kDropout, .bottoms = {uniform({130})}});
}

TEST(Dropout, BadRatio) {
  for (const char* ratio : {"1", "-0.1", "nan"}) {
    expect_error(
        [&] {
          LayerRun run(ones({2}, text(R"(layer { type: "Dropout" dropout_param { dropout_ratio: )",
                                      ratio, " } }")));
        },
        {"dropout_ratio", "[0, 1)"});
  }
}

}  // namespace
}  // namespace crema::test
