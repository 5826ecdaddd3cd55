#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase embed(const std::string& settings, const Input& indices) {
  return {.layer = text("layer { type: 'Embed' embed_param { ", settings,
                        " weight_filler { type: 'gaussian' } bias_filler { type: 'gaussian' } } "
                        "}"),
          .bottoms = {indices}};
}

TEST(Embed, TakesRowsAndAddsUpTheirGradients) {
  LayerCase c = embed("input_dim: 3 num_output: 2", given({2, 2}, {2, 0, 2, 2}));
  c.params = {{1, 2, 3, 4, 5, 6}, {10, 20}};
  LayerRun run(c);
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{3, 2}));
  EXPECT_EQ(run.layer().params()[1]->shape(), (Shape{2}));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(15, 26, 11, 22, 15, 26, 15, 26));
  run.set_top_diff(0, {1, 2, 3, 4, 10, 20, 100, 200});
  run.backward();
  EXPECT_THAT(run.gradient(0), ElementsAre(3, 4, 0, 0, 111, 222));
  EXPECT_THAT(run.gradient(1), ElementsAre(114, 226));
}

TEST(Embed, StartsAtZeroWithoutFillers) {
  LayerRun run({.layer = "layer { type: 'Embed' embed_param { input_dim: 3 num_output: 2 } }",
                .bottoms = {labels({4}, 3)}});
  EXPECT_THAT(run.param(0), testing::Each(0));
  EXPECT_THAT(run.param(1), testing::Each(0));
}

TEST(Embed, GradientsAndEngines) {
  for (const char* more : {"", "bias_term: false"}) {
    for (const Shape& shape : {Shape{4, 3}, Shape{1}, Shape{}, Shape{2, 1, 5}}) {
      for (const int64_t width : {1, 3}) {
        const LayerCase c =
            embed(text("input_dim: 5 num_output: ", width, " ", more), labels(shape, 5));
        check_gradients(c);
        check_engines(c);
      }
    }
  }
  check_engines(embed("input_dim: 4 num_output: 700", labels({50, 7}, 4)), {1e-4, 1e-4});
}

TEST(Embed, FrozenParametersGetNoGradient) {
  for (const int frozen : {0, 1}) {
    LayerRun run(embed("input_dim: 3 num_output: 2", labels({4}, 3)));
    run.layer().params()[static_cast<size_t>(frozen)]->needs_gradient = false;
    run.forward();
    run.backward();
    EXPECT_THAT(run.gradient(frozen), testing::Each(0));
    EXPECT_THAT(run.gradient(1 - frozen), testing::Contains(testing::Ne(0)));
  }
}

TEST(Embed, ThreadsDoNotChangeTheGradient) {
  const LayerCase c = embed("input_dim: 7 num_output: 300", labels({40, 50}, 7));
  const int before = omp_get_max_threads();
  std::vector<double> of_one;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    LayerRun run(c);
    run.forward();
    run.backward();
    if (of_one.empty()) of_one = run.gradient(0);
    EXPECT_EQ(run.gradient(0), of_one) << threads;
  }
  omp_set_num_threads(before);
}

TEST(Embed, EmptyBatchesAndNewShapes) {
  LayerRun run(embed("input_dim: 3 num_output: 2", labels({4}, 3)));
  run.reshape({labels({0, 5}, 3)});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 5, 2}));
  run.backward();
  EXPECT_THAT(run.gradient(0), testing::Each(0));
  EXPECT_THAT(run.gradient(1), testing::Each(0));
  run.reshape({given({1, 1}, {1})});
  run.forward();
  EXPECT_EQ(run.top(0)[0], run.top_blob(0).data.at(0));
}

TEST(Embed, Errors) {
  LayerRun run(embed("input_dim: 3 num_output: 2", given({2, 2}, {0, 1, 2, 0})));
  run.forward();
  for (const double wrong : {3.0, -1.0, 0.5, std::nan("")}) {
    run.bottom_values(0)[2] = wrong;
    expect_error([&] { run.forward(); },
                 {text("index ", wrong), "position 2 of 'bottom0' (2x2)", "[0, 3)", "input_dim"});
  }
  const auto refuses = [](const std::string& settings, std::string_view what) {
    expect_error([&] { LayerRun c(embed(settings, labels({2}, 2))); }, {what});
  };
  refuses("num_output: 2", "input_dim is missing or 0");
  refuses("num_output: 2 input_dim: 0", "input_dim is missing or 0");
  refuses("input_dim: 2", "num_output is missing or 0");
}

}  // namespace
}  // namespace crema::test
