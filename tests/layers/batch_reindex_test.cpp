#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;

LayerCase reindex(const Input& x, const Input& indices) {
  return {.layer = "layer { type: 'BatchReindex' }", .bottoms = {x, indices}};
}

TEST(BatchReindex, TakesItemsAnyNumberOfTimes) {
  LayerRun run(reindex(given({3, 2}, {1, 2, 3, 4, 5, 6}), given({4}, {2, 0, 2, 2})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{4, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(5, 6, 1, 2, 5, 6, 5, 6));
  run.set_top_diff(0, {1, 2, 3, 4, 10, 20, 100, 200});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(3, 4, 0, 0, 111, 222));
}

TEST(BatchReindex, GradientsAndEngines) {
  for (const Shape& shape : {Shape{5, 3, 2}, Shape{5, 1}, Shape{5}, Shape{5, 3, 3, 2}}) {
    for (const int64_t count : {1, 3, 11}) {
      const LayerCase c = reindex(uniform(shape), labels({count}, 5));
      check_gradients(c);
      check_engines(c);
    }
  }
  EXPECT_THAT(check_engines(reindex(uniform({4, 21, 3, 5}), labels({6}, 4))),
              IsSupersetOf({"reference contiguous", "reference channels_last", "reference blocked8",
                            "reference blocked16"}));
  // Long rows, and many duplicates.
  check_engines(reindex(uniform({2, 40001}), labels({3}, 2)));
  check_engines(reindex(uniform({3, 300}), labels({500}, 3)), {1e-4, 1e-4});
}

TEST(BatchReindex, EmptyBatches) {
  LayerRun run(reindex(uniform({3, 2}), uniform({0})));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 2}));
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), testing::Each(0));
  run.reshape({uniform({0, 2}), uniform({0})});
  run.forward();
  run.backward();
  run.reshape({uniform({4, 1}), given({2}, {3, 1})});
  run.forward();
  EXPECT_THAT(run.top(0),
              ElementsAre(run.bottom_blob(0).data.at(3), run.bottom_blob(0).data.at(1)));
}

TEST(BatchReindex, IndicesAreCheckedInEveryPass) {
  LayerRun run(reindex(uniform({3, 2}), given({3}, {0, 1, 2})));
  run.forward();
  for (const double wrong : {3.0, -1.0, 1.5, std::nan(""), double(INFINITY)}) {
    run.bottom_values(1)[1] = wrong;
    expect_error([&] { run.forward(); }, {text("index ", wrong), "position 1 of 'bottom1' (3)",
                                          "[0, 3)", "'bottom0' (3x2)"});
  }
  LayerRun none(reindex(uniform({0, 2}), given({1}, {0})));
  expect_error([&] { none.forward(); }, {"index 0", "[0, 0)"});
}

TEST(BatchReindex, Errors) {
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(c); }, words);
  };
  refuses(reindex(uniform({3, 2}), uniform({3, 1})), {"'bottom1' (3x1)", "one axis"});
  refuses(reindex(uniform({}), uniform({1})), {"'bottom0' is a scalar"});
}

}  // namespace
}  // namespace crema::test
