// Layers whose top has the values of their bottom in another order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using Index = std::vector<int64_t>;

/// The value of an input at an index.
class Values {
 public:
  explicit Values(const Shape& shape) : shape_(shape) {
    for (int64_t i = 0; i < shape.count(); ++i) all_.push_back(static_cast<double>(i % 251) - 90);
  }
  double operator()(const Index& index) const {
    int64_t at = 0;
    for (size_t a = 0; a < index.size(); ++a) at = at * shape_[static_cast<int>(a)] + index[a];
    return all_[static_cast<size_t>(at)];
  }
  double flat(int64_t at) const { return all_[static_cast<size_t>(at)]; }
  const std::vector<double>& all() const { return all_; }

 private:
  Shape shape_;
  std::vector<double> all_;
};

struct MapCase {
  std::string layer;
  Shape bottom, top;
  /// The value of the top at an index.
  std::function<double(const Values&, const Index&)> value;
};

std::vector<MapCase> cases() {
  return {
      {"layer { type: 'Permute' permute_param { order: 0 order: 2 order: 3 order: 1 } }",
       {2, 13, 5, 7},
       {2, 5, 7, 13},
       [](const Values& x, const Index& i) {
         return x({i[0], i[3], i[1], i[2]});
       }},
      // Larger than a tile on both sides.
      {"layer { type: 'Permute' permute_param { order: 1 order: 0 } }",
       {131, 70},
       {70, 131},
       [](const Values& x, const Index& i) {
         return x({i[1], i[0]});
       }},
      {"layer { type: 'Permute' permute_param { order: 2 } }",
       {3, 4, 5, 2, 3},
       {5, 3, 4, 2, 3},
       [](const Values& x, const Index& i) {
         return x({i[1], i[2], i[0], i[3], i[4]});
       }},
      {"layer { type: 'Permute' permute_param { order: 4 order: 3 order: 2 order: 1 order: 0 } }",
       {3, 4, 2, 2, 5},
       {5, 2, 2, 4, 3},
       [](const Values& x, const Index& i) {
         return x({i[4], i[3], i[2], i[1], i[0]});
       }},
      {"layer { type: 'Permute' }",
       {2, 3, 4},
       {2, 3, 4},
       [](const Values& x, const Index& i) { return x(i); }},
      {"layer { type: 'Transpose' transpose_param { dim: 2 dim: 0 dim: 1 } }",
       {4, 3, 6},
       {6, 4, 3},
       [](const Values& x, const Index& i) {
         return x({i[1], i[2], i[0]});
       }},
      {"layer { type: 'Reverse' }",
       {5, 3, 4},
       {5, 3, 4},
       [](const Values& x, const Index& i) {
         return x({4 - i[0], i[1], i[2]});
       }},
      {"layer { type: 'Reverse' reverse_param { axis: -1 } }",
       {2, 3, 4, 5},
       {2, 3, 4, 5},
       [](const Values& x, const Index& i) {
         return x({i[0], i[1], i[2], 4 - i[3]});
       }},
      {"layer { type: 'Flip' }",
       {2, 3, 4, 5},
       {2, 3, 4, 5},
       [](const Values& x, const Index& i) {
         return x({i[0], i[1], i[2], 4 - i[3]});
       }},
      {"layer { type: 'Flip' flip_param { flip_width: false flip_height: true } }",
       {2, 3, 4, 5},
       {2, 3, 4, 5},
       [](const Values& x, const Index& i) {
         return x({i[0], i[1], 3 - i[2], i[3]});
       }},
      {"layer { type: 'Flip' flip_param { flip_height: true } }",
       {4, 5},
       {4, 5},
       [](const Values& x, const Index& i) {
         return x({3 - i[0], 4 - i[1]});
       }},
      {"layer { type: 'ShuffleChannel' shuffle_channel_param { group: 3 } }",
       {2, 12, 3, 5},
       {2, 12, 3, 5},
       [](const Values& x, const Index& i) {
         return x({i[0], i[1] % 3 * 4 + i[1] / 3, i[2], i[3]});
       }},
      {"layer { type: 'Reorg' reorg_param { stride: 2 reverse: true } }",
       {2, 12, 3, 5},
       {2, 3, 6, 10},
       [](const Values& x, const Index& i) {
         const int64_t offset = i[2] % 2 * 2 + i[3] % 2;
         return x({i[0], offset * 3 + i[1], i[2] / 2, i[3] / 2});
       }},
      {"layer { type: 'Reorg' reorg_param { stride: 2 reverse: true order: CHANNEL_FIRST } }",
       {2, 12, 3, 5},
       {2, 3, 6, 10},
       [](const Values& x, const Index& i) {
         return x({i[0], i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2});
       }},
      // Channels need not be a multiple of 4.
      {"layer { type: 'Reorg' reorg_param { stride: 2 order: CHANNEL_FIRST } }",
       {2, 3, 4, 6},
       {2, 12, 2, 3},
       [](const Values& x, const Index& i) {
         const int64_t offset = i[1] % 4;
         return x({i[0], i[1] / 4, 2 * i[2] + offset / 2, 2 * i[3] + offset % 2});
       }},
      // The published formula: channel k = offset * (C / 4) + c of (C, H, W) is read at c, 2 h +
      // offset / 2, 2 w + offset % 2 of the values as (C / 4, 2 H, 2 W).
      {"layer { type: 'Reorg' reorg_param { stride: 2 } }",
       {2, 8, 4, 6},
       {2, 32, 2, 3},
       [](const Values& x, const Index& i) {
         const int64_t at = (i[1] * 2 + i[2]) * 3 + i[3];  // in an image
         const int64_t w = at % 6, h = at / 6 % 4, k = at / 24;
         const int64_t c = k % 2, offset = k / 2;
         return x.flat(i[0] * 192 + (c * 8 + 2 * h + offset / 2) * 12 + 2 * w + offset % 2);
       }},
  };
}

std::vector<double> expected_of(const MapCase& c) {
  const Values x(c.bottom);
  std::vector<double> expected;
  Index index(static_cast<size_t>(c.top.rank()));
  for (int64_t i = 0; i < c.top.count(); ++i) {
    int64_t rest = i;
    for (int a = c.top.rank() - 1; a >= 0; --a) {
      index[static_cast<size_t>(a)] = rest % c.top[a];
      rest /= c.top[a];
    }
    expected.push_back(c.value(x, index));
  }
  return expected;
}

TEST(IndexMap, MovesEveryValueToItsPlaceAndItsGradientBack) {
  for (const MapCase& c : cases()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(c.layer);
      const Values x(c.bottom);
      LayerRun run({.layer = c.layer, .bottoms = {given(c.bottom, x.all())}}, {.dtype = dtype});
      run.forward();
      EXPECT_EQ(run.top_blob(0).shape(), c.top);
      const std::vector<double> expected = expected_of(c);
      EXPECT_EQ(run.top(0), expected);
      // A gradient equal to the top comes back as the bottom.
      run.set_top_diff(0, expected);
      run.backward();
      EXPECT_EQ(run.bottom_diff(0), x.all());
    }
  }
}

TEST(IndexMap, EveryEngineAndFormat) {
  using testing::IsSupersetOf;
  for (const MapCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    const auto ran = check_engines({.layer = c.layer, .bottoms = {uniform(c.bottom)}});
    if (c.bottom.rank() < 3) continue;
    const bool flat = c.layer == "layer { type: 'Reorg' reorg_param { stride: 2 } }";
    if (!flat) {
      EXPECT_THAT(ran, IsSupersetOf({"reference contiguous", "reference channels_last",
                                     "reference contiguous->channels_last",
                                     "reference channels_last->contiguous"}));
    }
  }
}

TEST(IndexMap, Gradients) {
  for (const MapCase& c : cases()) {
    if (c.bottom.count() > 1000) continue;
    SCOPED_TRACE(c.layer);
    check_gradients({.layer = c.layer, .bottoms = {uniform(c.bottom)}});
  }
}

TEST(IndexMap, EmptyBatches) {
  for (const MapCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    Shape empty = c.bottom;
    empty.set(0, 0);
    if (c.bottom.rank() < 3) continue;
    LayerRun run({.layer = c.layer, .bottoms = {uniform(empty)}});
    run.forward();
    EXPECT_EQ(run.top_blob(0).count(), 0);
    run.backward();
  }
}

TEST(IndexMap, WrongSettings) {
  const auto refuses = [](const std::string& layer, const Shape& bottom,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(layer);
    expect_error([&] { LayerRun({.layer = layer, .bottoms = {uniform(bottom)}}); }, parts);
  };
  refuses("layer { type: 'Permute' permute_param { order: 4 } }", {2, 3, 4, 5},
          {"order names axis 4", "2x3x4x5", "0 to 3"});
  refuses("layer { type: 'Permute' permute_param { order: 1 order: 1 } }", {2, 3},
          {"order names axis 1 twice"});
  refuses("layer { type: 'Transpose' transpose_param { dim: 1 dim: 0 } }", {2, 3, 4},
          {"dim names 2 of the 3 axes", "all of them"});
  refuses("layer { type: 'Transpose' transpose_param { dim: -1 dim: 0 } }", {2, 3},
          {"dim names axis -1"});
  refuses("layer { type: 'Reverse' reverse_param { axis: 3 } }", {2, 3, 4}, {"axis 3", "2x3x4"});
  refuses("layer { type: 'Flip' }", {7}, {"height and width", "7"});
  refuses("layer { type: 'ShuffleChannel' shuffle_channel_param { group: 5 } }", {2, 12, 3, 3},
          {"12 channels", "group, 5"});
  refuses("layer { type: 'ShuffleChannel' shuffle_channel_param { group: 0 } }", {2, 12, 3, 3},
          {"group is 0"});
  refuses("layer { type: 'Reorg' }", {2, 8, 4, 4}, {"stride is missing", "stride: 2"});
  refuses("layer { type: 'Reorg' reorg_param { stride: 2 } }", {2, 8, 5, 4},
          {"2x8x5x4", "multiples of stride, 2"});
  refuses("layer { type: 'Reorg' reorg_param { stride: 3 } }", {2, 8, 6, 6},
          {"8 channels", "9 pixels"});
  refuses("layer { type: 'Reorg' reorg_param { stride: 2 reverse: true order: CHANNEL_FIRST } }",
          {2, 6, 6, 6}, {"6 channels", "4 pixels"});
  refuses("layer { type: 'Reorg' reorg_param { stride: 2 order: CHANNEL_FIRST } }", {2, 8, 5, 4},
          {"2x8x5x4", "multiples of stride, 2"});
  refuses("layer { type: 'Reorg' reorg_param { stride: 2 } }", {2, 8, 4}, {"N x C x H x W"});
}

}  // namespace
}  // namespace crema::test
