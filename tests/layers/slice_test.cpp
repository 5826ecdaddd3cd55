#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

LayerCase slice(const Input& bottom, int tops, const std::string& settings = "") {
  return {.layer = text("layer { type: 'Slice' slice_param { ", settings, " } }"),
          .bottoms = {bottom},
          .tops = tops};
}

TEST(Slice, CutsRows) {
  LayerRun run(slice(given({2, 3}, {1, 2, 3, 4, 5, 6}), 2, "slice_point: 2"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 2}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{2, 1}));
  EXPECT_THAT(run.top(0), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(run.top(1), ElementsAre(3, 6));
  run.set_top_diff(0, {1, 2, 3, 4});
  run.set_top_diff(1, {5, 6});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 2, 5, 3, 4, 6));
}

TEST(Slice, EqualPartsWithoutPoints) {
  LayerRun run(slice(given({1, 6}, {1, 2, 3, 4, 5, 6}), 3));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 2));
  EXPECT_THAT(run.top(1), ElementsAre(3, 4));
  EXPECT_THAT(run.top(2), ElementsAre(5, 6));
}

TEST(Slice, NegativeAxisAndOldName) {
  LayerRun last(slice(uniform({2, 3, 4}), 2, "axis: -1 slice_point: 1"));
  EXPECT_EQ(last.top_blob(0).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(last.top_blob(1).shape(), (Shape{2, 3, 3}));
  LayerRun old(slice(uniform({4, 3}), 2, "slice_dim: 0"));
  EXPECT_EQ(old.top_blob(1).shape(), (Shape{2, 3}));
}

TEST(Slice, OneTopIsAnAlias) {
  LayerRun run(slice(uniform({2, 3}), 1));
  EXPECT_EQ(run.kernel().in_place(), InPlace::alias);
}

TEST(Slice, TopsMayBePiecesOfTheBottom) {
  EXPECT_EQ(LayerRun(slice(uniform({2, 4, 3}), 2)).kernel().in_place(), InPlace::never);
  EXPECT_EQ(LayerRun(slice(uniform({1, 4, 3}), 2)).kernel().in_place(), InPlace::parts);
  EXPECT_EQ(LayerRun(slice(uniform({2, 4, 3}), 2, "axis: 0")).kernel().in_place(), InPlace::parts);
}

TEST(Slice, Gradients) {
  check_gradients(slice(uniform({2, 5, 3}), 3, "slice_point: 1 slice_point: 3"));
  check_gradients(slice(uniform({2, 3, 4, 2}), 2, "axis: 2"));
  check_gradients(slice(uniform({3, 2}), 2, "axis: 0 slice_point: 1"));
}

TEST(Slice, ChannelsInEveryFormat) {
  EXPECT_THAT(check_engines(slice(uniform({2, 64, 3, 5}), 2, "slice_point: 16")),
              IsSupersetOf({"reference contiguous", "reference channels_last", "reference blocked8",
                            "reference blocked16"}));
  // Blocks can be cut only where no part has padding.
  const auto eights = check_engines(slice(uniform({2, 24, 3, 5}), 2, "slice_point: 8"));
  EXPECT_THAT(eights, Contains("reference blocked8"));
  EXPECT_THAT(eights, Not(Contains("reference blocked16")));
  EXPECT_THAT(check_engines(slice(uniform({2, 16, 3, 5}), 2, "slice_point: 3")),
              Not(Contains(HasSubstr("blocked"))));
}

TEST(Slice, FollowsNewShapes) {
  LayerRun run(slice(uniform({2, 4}), 2));
  run.reshape({uniform({1, 6})});
  run.forward();
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{1, 3}));
  EXPECT_EQ(run.top(1)[0], values_of(run.bottom_blob(0).data)[3]);
}

TEST(Slice, Errors) {
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run(c); }, words);
  };
  refuses(slice(uniform({2, 5}), 2), {"axis 1", "2x5", "2 equal parts", "slice_point"});
  refuses(slice(uniform({2, 5}), 2, "slice_point: 1 slice_point: 2"), {"2 values", "2 tops"});
  refuses(slice(uniform({2, 5}), 3, "slice_point: 3 slice_point: 3"), {"part 1", "3 to 3"});
  refuses(slice(uniform({2, 5}), 2, "slice_point: 5"), {"part 1", "5 to 5", "size of the axis"});
  refuses(slice(uniform({2, 5}), 2, "slice_point: 0"), {"part 0", "0 to 0"});
  refuses(slice(uniform({2, 5}), 2, "axis: 3"), {"3", "2x5"});
  refuses(slice(uniform({2, 4}), 2, "axis: 1 slice_dim: 1"), {"axis", "slice_dim"});
}

}  // namespace
}  // namespace crema::test
