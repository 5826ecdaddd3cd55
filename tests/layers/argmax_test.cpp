#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase argmax(const std::string& settings, const Input& bottom) {
  return {.layer = text("layer { type: 'ArgMax' argmax_param { ", settings, " } }"),
          .bottoms = {bottom}};
}

std::vector<double> result(const std::string& settings, const Input& bottom) {
  LayerRun run(argmax(settings, bottom));
  run.forward();
  return run.top(0);
}

TEST(ArgMax, IndicesAndValues) {
  const Input x = given({2, 2, 2}, {1, 5, 3, 4, 8, 6, 7, 9});
  EXPECT_THAT(result("", x), ElementsAre(1, 3));
  EXPECT_THAT(result("top_k: 3", x), ElementsAre(1, 3, 2, 3, 0, 2));
  EXPECT_THAT(result("top_k: 2 out_max_val: true", x), ElementsAre(1, 3, 5, 4, 3, 0, 9, 8));
  EXPECT_THAT(result("axis: 1", x), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(result("axis: 1 out_max_val: true", x), ElementsAre(3, 5, 8, 9));
  EXPECT_THAT(result("axis: -1 top_k: 2", x), ElementsAre(1, 0, 1, 0, 0, 1, 1, 0));
  EXPECT_THAT(result("axis: 0 top_k: 2 out_max_val: true", x), ElementsAre(8, 6, 7, 9, 1, 5, 3, 4));
}

TEST(ArgMax, Shapes) {
  const auto top = [](const std::string& settings, const Shape& shape) {
    LayerRun run(argmax(settings, uniform(shape)));
    return run.top_blob(0).shape();
  };
  EXPECT_EQ(top("", {4, 6}), (Shape{4, 1, 1}));
  EXPECT_EQ(top("top_k: 5 out_max_val: true", {4, 6}), (Shape{4, 2, 5}));
  EXPECT_EQ(top("top_k: 5", {4, 2, 3, 2, 2}), (Shape{4, 1, 5, 1, 1}));
  EXPECT_EQ(top("axis: 1 top_k: 2", {4, 6, 3}), (Shape{4, 2, 3}));
  EXPECT_EQ(top("", {4}), (Shape{4, 1, 1}));
  EXPECT_EQ(top("axis: 1", {0, 6}), (Shape{0, 1}));
}

// Of equal values the later one comes first; NaN comes before all.
TEST(ArgMax, TiesAndNaN) {
  const double nan = std::nan("");
  const Input ties = given({1, 5}, {1, 3, 3, 0, 3});
  EXPECT_THAT(result("", ties), ElementsAre(4));
  EXPECT_THAT(result("top_k: 5", ties), ElementsAre(4, 2, 1, 0, 3));
  EXPECT_THAT(result("", given({1, 5}, {1, nan, 3, nan, 2})), ElementsAre(3));
  EXPECT_THAT(result("top_k: 3", given({1, 5}, {1, nan, 3, nan, 2})), ElementsAre(3, 1, 2));
  Input row = uniform({1, 200});
  row.values.assign(200, 1);
  EXPECT_THAT(result("", row), ElementsAre(199));
  for (const size_t place : {size_t{3}, size_t{70}, size_t{191}, size_t{195}}) {
    row.values[place] = nan;
    EXPECT_THAT(result("", row), ElementsAre(static_cast<double>(place)));
  }
  // Along an inner axis: positions (1, 3, 3) and (nan, 0, 1).
  EXPECT_THAT(result("axis: 1", given({1, 3, 2}, {1, nan, 3, 0, 3, 1})), ElementsAre(2, 0));
}

/// Sorts all of each position.
std::vector<double> by_sorting(const std::vector<double>& x, int64_t outer, int64_t size,
                               int64_t inner, int64_t top_k) {
  std::vector<double> result(static_cast<size_t>(outer * top_k * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto value = [&](int64_t c) {
        return static_cast<float>(x[static_cast<size_t>((o * size + c) * inner + i)]);
      };
      std::vector<int64_t> order(static_cast<size_t>(size));
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return value(a) != value(b) ? value(a) > value(b) : a > b;
      });
      for (int64_t k = 0; k < top_k; ++k) {
        result[static_cast<size_t>((o * top_k + k) * inner + i)] =
            static_cast<double>(order[static_cast<size_t>(k)]);
      }
    }
  }
  return result;
}

TEST(ArgMax, AgreesWithSorting) {
  for (const Shape& shape : {Shape{3, 50, 1}, Shape{5, 300, 1}, Shape{3, 128, 1},
                             Shape{2, 21, 1300}, Shape{1, 7, 5}, Shape{40, 1, 3}}) {
    for (const int64_t top_k : {int64_t{1}, int64_t{5}, shape[1]}) {
      if (top_k > shape[1]) continue;
      for (const Input& x : {uniform(shape), labels(shape, 4)}) {
        LayerRun run(argmax(text("axis: 1 top_k: ", top_k), x));
        run.forward();
        EXPECT_EQ(run.top(0), by_sorting(run.bottom_values(0), shape[0], shape[1], shape[2], top_k))
            << shape.str() << " top " << top_k;
      }
    }
  }
}

TEST(ArgMax, HasNoGradient) {
  LayerRun run(argmax("", uniform({2, 3})));
  EXPECT_FALSE(run.layer().can_propagate(0));
  EXPECT_TRUE(run.layer().is_exact_top(0));
  run.forward();
  expect_error([&] { run.backward({true}); }, {"ArgMax", "no gradient"});
}

TEST(ArgMax, FollowsNewShapes) {
  LayerRun run(argmax("top_k: 2", uniform({2, 3})));
  run.reshape({given({1, 2, 2}, {1, 4, 2, 3})});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 3));
  run.reshape({uniform({0, 2, 2})});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 1, 2}));
}

TEST(ArgMax, Errors) {
  const auto refuses = [](const std::string& settings, const Shape& shape,
                          std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(argmax(settings, uniform(shape))); }, words);
  };
  refuses("top_k: 0", {2, 3}, {"top_k is 0"});
  refuses("top_k: 7", {2, 3, 2}, {"top_k 7", "6 values of 'bottom0' (2x3x2) of an item"});
  refuses("axis: 1 top_k: 4", {2, 3, 2}, {"top_k 4", "3 values", "along axis 1"});
  refuses("axis: 3", {2, 3}, {"3", "2x3"});
  refuses("", {}, {"scalar"});
  refuses("", {2, 0}, {"top_k 1", "0 values"});
  LayerRun run(argmax("", uniform({1, 3})));
  run.bottom_blob(0).reshape({1, 16777217});
  Blob* const bottoms[] = {&run.bottom_blob(0)};
  Blob* const tops[] = {&run.top_blob(0)};
  expect_error([&] { run.layer().reshape(bottoms, tops); }, {"16777217", "not exact in f32"});
}

}  // namespace
}  // namespace crema::test
