// Values: the cases attention* of tests/golden/torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Each;
using testing::Not;

std::string layer(const std::string& settings) {
  return text("layer { type: 'Attention' attention_param { ", settings, " } }");
}

struct Sizes {
  int64_t batch, heads, queries, keys, depth, value_depth;
};

LayerCase attention(const Sizes& s, const std::string& settings,
                    const std::vector<Input>& masks = {}) {
  LayerCase c{.layer = layer(text("num_heads: ", s.heads, " ", settings)),
              .bottoms = {uniform({s.batch, s.queries, s.heads * s.depth}, -2, 2),
                          uniform({s.batch, s.keys, s.heads * s.depth}, -2, 2),
                          uniform({s.batch, s.keys, s.heads * s.value_depth}, -2, 2)}};
  c.bottoms.insert(c.bottoms.end(), masks.begin(), masks.end());
  return c;
}

TEST(Attention, Gradients) {
  const Sizes small{2, 2, 3, 4, 3, 2};
  const Input mask = given({2, 4}, {0, 1, 0, 0, 1, 0, 0, 1}), lengths = given({2}, {3, 1});
  for (const std::string settings : {"", "scale: -0.4", "causal: true", "dropout_ratio: 0.4",
                                     "causal: true dropout_ratio: 0.2"}) {
    SCOPED_TRACE(settings);
    check_gradients(attention(small, settings));
    check_gradients(attention(small, settings, {mask}));
    check_gradients(attention(small, settings, {lengths}));
  }
  check_gradients(attention({1, 1, 1, 1, 1, 1}, ""));
}

/// y[sample, i, head * value_depth + c], a sum at a time.
std::vector<double> expected(const Sizes& s, LayerRun& run, bool causal,
                             const std::vector<double>& padded) {
  const auto &q = run.bottom_values(0), &k = run.bottom_values(1), &v = run.bottom_values(2);
  std::vector<double> y(static_cast<size_t>(s.batch * s.queries * s.heads * s.value_depth));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        double total = 0;
        std::vector<double> sums(static_cast<size_t>(s.value_depth));
        for (int64_t j = 0; j < s.keys; ++j) {
          if (causal && j > i) continue;
          if (!padded.empty() && padded[static_cast<size_t>(n * s.keys + j)] != 0) continue;
          double score = 0;
          for (int64_t c = 0; c < s.depth; ++c) {
            score += q[static_cast<size_t>(((n * s.queries + i) * s.heads + h) * s.depth + c)] *
                     k[static_cast<size_t>(((n * s.keys + j) * s.heads + h) * s.depth + c)];
          }
          const double weight = std::exp(score / std::sqrt(static_cast<double>(s.depth)));
          total += weight;
          for (int64_t c = 0; c < s.value_depth; ++c) {
            sums[static_cast<size_t>(c)] +=
                weight *
                v[static_cast<size_t>(((n * s.keys + j) * s.heads + h) * s.value_depth + c)];
          }
        }
        for (int64_t c = 0; c < s.value_depth; ++c) {
          y[static_cast<size_t>(((n * s.queries + i) * s.heads + h) * s.value_depth + c)] =
              total > 0 ? sums[static_cast<size_t>(c)] / total : 0;
        }
      }
    }
  }
  return y;
}

TEST(Attention, SizesThatFillNoBlock) {
  for (const Sizes& s : {Sizes{1, 1, 1, 1, 1, 1}, Sizes{2, 3, 1, 130, 5, 9},
                         Sizes{1, 2, 129, 3, 33, 4}, Sizes{2, 1, 257, 129, 8, 35},
                         Sizes{1, 1, 128, 128, 64, 64}, Sizes{1, 3, 197, 197, 16, 16}}) {
    for (const bool causal : {false, true}) {
      for (const bool masked : {false, true}) {
        SCOPED_TRACE(text(s.queries, " ", s.keys, causal ? " causal" : "", masked ? " mask" : ""));
        const Input mask = labels({s.batch, s.keys}, 2);
        const LayerCase c = attention(s, causal ? "causal: true" : "",
                                      masked ? std::vector<Input>{mask} : std::vector<Input>{});
        for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
          const SimdLimit limit(level);
          LayerRun run(c, {.dtype = DType::f64});
          run.forward();
          const std::vector<double> padded = masked ? run.bottom_values(3) : std::vector<double>();
          expect_close(run.top(0), expected(s, run, causal, padded), {1e-12, 1e-11}, "top");
        }
        check_engines(c);
      }
    }
  }
}

/// Everything that a pass writes.
std::vector<std::vector<double>> all_results(const LayerCase& c, int threads) {
  const ThreadScope scope(threads);
  LayerRun run(c);
  run.forward();
  run.backward();
  return {run.top(0), run.bottom_diff(0), run.bottom_diff(1), run.bottom_diff(2)};
}

// Heads are computed whole on a thread, or blocks of one head on several.
TEST(Attention, ResultsDoNotDependOnThreads) {
  for (const char* settings : {"", "causal: true dropout_ratio: 0.3"}) {
    for (const int64_t heads : {1, 2, 3}) {
      const LayerCase c = attention({1, heads, 300, 270, 12, 12}, settings);
      const auto one = all_results(c, 1);
      EXPECT_EQ(all_results(c, 2), one);
      EXPECT_EQ(all_results(c, 3), one);
    }
  }
}

TEST(Attention, ResultsDoNotDependOnWhichDiffsAreWanted) {
  const LayerCase c = attention({1, 2, 140, 150, 6, 6}, "");
  LayerRun all(c);
  all.forward();
  all.backward();
  for (size_t i = 0; i < 3; ++i) {
    LayerRun one(c);
    const std::vector<bool> flags = one.want_only(i);
    one.forward();
    one.backward(flags);
    EXPECT_EQ(one.bottom_diff(static_cast<int>(i)), all.bottom_diff(static_cast<int>(i)));
  }
}

TEST(Attention, QueriesWithoutKeysGiveZero) {
  for (const Input& mask : {given({2, 3}, {1, 1, 1, 0, 0, 1}), given({2}, {0, 2})}) {
    LayerRun run(attention({2, 1, 2, 3, 2, 2}, "", {mask}));
    run.forward();
    run.backward();
    const std::vector<double> y = run.top(0), dq = run.bottom_diff(0);
    EXPECT_THAT(std::vector<double>(y.begin(), y.begin() + 4), Each(0));
    EXPECT_THAT(std::vector<double>(dq.begin(), dq.begin() + 4), Each(0));
    EXPECT_THAT(std::vector<double>(y.begin() + 4, y.end()), Each(Not(0)));
  }
  LayerRun none(attention({2, 1, 2, 0, 2, 2}, ""));
  none.forward();
  none.backward();
  EXPECT_THAT(none.top(0), Each(0));
  EXPECT_THAT(none.bottom_diff(0), Each(0));
}

TEST(Attention, LargeScoresStayFinite) {
  LayerCase c = attention({1, 1, 2, 2, 1, 1}, "scale: 1");
  c.bottoms[0] = given({1, 2, 1}, {1e4, -1e4});
  c.bottoms[1] = given({1, 2, 1}, {1e4, -1e4});
  c.bottoms[2] = given({1, 2, 1}, {3, 5});
  LayerRun run(c);
  run.forward();
  EXPECT_THAT(run.top(0), testing::ElementsAre(3, 5));
}

TEST(Attention, NoNumberIsSeen) {
  LayerCase c = attention({1, 1, 2, 3, 2, 2}, "");
  c.bottoms[1] = given({1, 3, 2}, {1, 2, std::numeric_limits<double>::quiet_NaN(), 1, 2, 3});
  LayerRun run(c);
  run.forward();
  for (const double y : run.top(0)) EXPECT_TRUE(std::isnan(y));
}

TEST(Attention, DropsTheGivenShareOfWeights) {
  // All weights are 1 / 200, and value j is 1 in column j alone.
  const int64_t keys = 200, queries = 70;
  LayerCase c = attention({1, 1, queries, keys, 1, keys}, "dropout_ratio: 0.25");
  c.bottoms[0] = given({1, queries, 1}, std::vector<double>(queries, 0.0));
  std::vector<double> unit(keys * keys, 0.0);
  for (int64_t j = 0; j < keys; ++j) unit[static_cast<size_t>(j * keys + j)] = 1;
  c.bottoms[2] = given({1, keys, keys}, unit);
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  const std::vector<double> y = run.top(0);
  const auto dropped = std::count(y.begin(), y.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(y.size()), 0.25, 0.015);
  EXPECT_NEAR(*std::max_element(y.begin(), y.end()), 1 / 0.75 / 200, 1e-9);
  run.state().iteration = 1;
  run.forward();
  EXPECT_NE(run.top(0), y);
  c.phase = Phase::test;
  LayerRun test(c, {.dtype = DType::f64});
  test.forward();
  EXPECT_THAT(test.top(0), Each(testing::DoubleNear(1.0 / 200, 1e-15)));
}

TEST(Attention, Refuses) {
  const auto refuses = [](const std::string& settings, const std::vector<Shape>& shapes,
                          std::initializer_list<std::string_view> parts) {
    LayerCase c{.layer = layer(settings)};
    for (const Shape& shape : shapes) c.bottoms.push_back(uniform(shape));
    expect_error([&] { LayerRun{c}; }, parts);
  };
  const Shape fits{2, 3, 4};
  refuses("num_heads: 0", {fits, fits, fits}, {"num_heads"});
  refuses("num_heads: 3", {fits, fits, fits}, {"bottom0", "2x3x4", "3 heads"});
  refuses("scale: inf", {fits, fits, fits}, {"scale"});
  refuses("dropout_ratio: 1", {fits, fits, fits}, {"dropout_ratio", "[0, 1)"});
  refuses("", {{2, 3}, fits, fits}, {"bottom0", "(N, T, D)"});
  refuses("", {fits, {1, 3, 4}, {1, 3, 4}}, {"2x3x4", "1x3x4", "samples"});
  refuses("", {fits, {2, 3, 5}, fits}, {"2x3x4", "2x3x5", "last axis"});
  refuses("", {fits, {2, 5, 4}, fits}, {"2x5x4", "2x3x4", "second axis"});
  refuses("", {fits, fits, fits, {3, 2}}, {"bottom3", "3x2", "2x3"});
  LayerRun lengths(attention({2, 1, 2, 3, 2, 2}, "", {given({2}, {1, 4})}));
  expect_error([&] { lengths.forward(); }, {"sample 1", "4 keys", "0 to 3"});
}

}  // namespace
}  // namespace crema::test
