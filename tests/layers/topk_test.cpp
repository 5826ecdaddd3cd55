#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

LayerCase topk(const std::string& settings, const Input& x, int tops = 2) {
  return {.layer = text("layer { type: 'TopK' topk_param { ", settings, " } }"),
          .bottoms = {x},
          .tops = tops};
}

TEST(TopK, ValuesAndIndices) {
  LayerRun run(topk("k: 2", given({2, 4}, {1, 4, 2, 3, 8, 5, 7, 6})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(4, 3, 8, 7));
  EXPECT_THAT(run.top(1), ElementsAre(1, 3, 0, 2));
  LayerRun least(topk("k: 2 axis: 0 largest: false", given({3, 2}, {1, 6, 3, 4, 2, 5})));
  least.forward();
  EXPECT_THAT(least.top(0), ElementsAre(1, 4, 2, 5));
  EXPECT_THAT(least.top(1), ElementsAre(0, 1, 2, 2));
}

TEST(TopK, EqualElementsAndNan) {
  const Input x = given({5}, {2, NAN, 3, 3, 2});
  LayerRun greatest(topk("k: 5", x));
  greatest.forward();
  EXPECT_THAT(greatest.top(1), ElementsAre(1, 2, 3, 0, 4));
  LayerRun least(topk("k: 5 largest: false", x));
  least.forward();
  EXPECT_THAT(least.top(1), ElementsAre(0, 4, 2, 3, 1));
}

TEST(TopK, ManyAreFoundInTheSameOrder) {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(i * 37 % 50);
  for (const char* largest : {"", " largest: false"}) {
    LayerRun few(topk(text("k: 16", largest), given({200}, values)));
    LayerRun many(topk(text("k: 100", largest), given({200}, values)));
    few.forward();
    many.forward();
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(many.top(1)[i], few.top(1)[i]);
    for (size_t i = 1; i < 100; ++i) {
      const double before = many.top(0)[i - 1], after = many.top(0)[i];
      EXPECT_TRUE(before == after ? many.top(1)[i - 1] < many.top(1)[i]
                                  : (before > after) == (*largest == 0))
          << i;
    }
  }
}

TEST(TopK, GradientsGoWhereValuesCameFrom) {
  LayerRun run(topk("k: 2", given({4}, {1, 4, 2, 3})));
  EXPECT_TRUE(run.layer().has_gradient(0));
  EXPECT_FALSE(run.layer().has_gradient(1));
  run.forward();
  run.set_top_diff(0, {5, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(0, 5, 0, 6));
}

TEST(TopK, GradientsAndEngines) {
  for (const char* settings :
       {"k: 1", "k: 3", "k: 2 axis: 0", "k: 2 axis: 1 largest: false", "k: 5 sorted: false"}) {
    check_gradients(topk(settings, uniform({3, 4, 5}), 1));
    check_engines(topk(settings, uniform({3, 4, 5}), 1));
  }
  check_engines(topk("k: 20 axis: 1", uniform({3, 40, 50}), 1));
  check_engines(topk("k: 2", uniform({2000, 7}), 1));
}

TEST(TopK, EmptyBatchesAndNewShapes) {
  LayerRun run(topk("k: 2", uniform({2, 3})));
  for (const Shape& shape : {Shape{0, 3}, Shape{4, 2}, Shape{3, 1, 5}}) {
    run.reshape({uniform(shape)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(1).shape()[-1], 2);
  }
}

void refuses(const LayerCase& c, std::initializer_list<std::string_view> words) {
  expect_error([&] { LayerRun run(c); }, words);
}

TEST(TopK, Errors) {
  refuses(topk("k: 0", uniform({2, 3})), {"k is 0"});
  refuses(topk("k: 4", uniform({2, 3})), {"k 4", "3", "'bottom0' (2x3)"});
  refuses(topk("axis: 2", uniform({2, 3})), {"2", "2x3"});
}

}  // namespace
}  // namespace crema::test
