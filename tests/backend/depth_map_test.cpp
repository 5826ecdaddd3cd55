// Bodies of CUDA's passes around channels-last convolutions, run on the CPU: every index map
// against the definition of the convolution.
#include "backend/depth_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "backend/channels_last_ends.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Pointwise;
using Extents = DepthMap::Extents;

struct Case {
  uint32_t channels, outputs;
  Extents input, kernel, stride, pad;

  Extents output() const {
    Extents extents{};
    for (size_t a = 0; a < 3; ++a) extents[a] = (input[a] + 2 * pad[a] - kernel[a]) / stride[a] + 1;
    return extents;
  }
  static uint32_t count(const Extents& e) { return e[0] * e[1] * e[2]; }
};

std::vector<float> numbers(size_t count, int seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 11) % 101) / 50 - 1;
  return values;
}

/// Calls body(n, o, output place, c, tap, input place) for all products of the convolution.
template <class Body>
void each_product(const Case& c, uint32_t images, const Body& body) {
  const Extents out = c.output();
  const auto place = [](const Extents& at, const Extents& of) {
    return (at[0] * of[1] + at[1]) * of[2] + at[2];
  };
  const auto each = [](const Extents& of, const auto& run) {
    for (uint32_t i = 0; i < of[0]; ++i) {
      for (uint32_t j = 0; j < of[1]; ++j) {
        for (uint32_t k = 0; k < of[2]; ++k) run(Extents{i, j, k});
      }
    }
  };
  for (uint32_t n = 0; n < images; ++n) {
    each(out, [&](const Extents& p) {
      each(c.kernel, [&](const Extents& t) {
        Extents q{};
        for (size_t a = 0; a < 3; ++a) {
          const uint32_t u = p[a] * c.stride[a] + t[a];
          if (u < c.pad[a] || u - c.pad[a] >= c.input[a]) return;
          q[a] = u - c.pad[a];
        }
        for (uint32_t o = 0; o < c.outputs; ++o) {
          for (uint32_t k = 0; k < c.channels; ++k)
            body(n, o, place(p, out), k, place(t, c.kernel), place(q, c.input));
        }
      });
    });
  }
}

/// The same convolution over deep pixels and weights, which have stride 1 and no padding.
Case deepened(const Case& c, const DepthMap& map) {
  return {map.deep_channels, c.outputs, map.deep_extent, map.deep_taps, {1, 1, 1}, {0, 0, 0}};
}

const Case kCases[] = {
    {3, 4, {1, 9, 8}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}},      // of residual nets
    {3, 2, {1, 23, 27}, {1, 11, 11}, {1, 4, 4}, {0, 0, 0}},  // of AlexNet
    {3, 2, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
    {1, 3, {1, 12, 12}, {1, 5, 5}, {1, 1, 1}, {0, 0, 0}},
    {4, 2, {1, 7, 5}, {1, 3, 2}, {1, 2, 3}, {0, 1, 0}},
    {2, 2, {5, 6, 7}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}},
    {3, 2, {1, 1, 20}, {1, 1, 8}, {1, 1, 4}, {0, 0, 2}},
    {3, 1, {1, 8, 8}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}},
    {2, 1, {1, 5, 5}, {1, 2, 2}, {1, 3, 3}, {0, 1, 1}},
};

std::string name_of(const Case& c) {
  const auto list = [](const Extents& e) { return text(e[0], "x", e[1], "x", e[2]); };
  return text(c.channels, " channels of ", list(c.input), ", kernel ", list(c.kernel), " stride ",
              list(c.stride), " pad ", list(c.pad));
}

TEST(DepthMap, GivesTheSameConvolutionAndGradient) {
  constexpr uint32_t kImages = 2;
  for (const uint32_t multiple : {4U, 8U}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(text(name_of(c), ", multiple ", multiple));
      const uint32_t pixels = Case::count(c.input), taps = Case::count(c.kernel);
      const uint32_t positions = Case::count(c.output());
      const std::vector<float> x = numbers(kImages * c.channels * pixels, 1);
      const std::vector<float> w = numbers(c.outputs * c.channels * taps, 2);
      const std::vector<float> dy = numbers(kImages * c.outputs * positions, 3);
      std::vector<float> y(dy.size()), dw = numbers(w.size(), 4), expected_dw = dw;
      each_product(c, kImages, [&](auto n, auto o, auto p, auto k, auto t, auto q) {
        const size_t at = (n * c.outputs + o) * positions + p,
                     of_w = (o * c.channels + k) * taps + t;
        const float value = x[(n * c.channels + k) * pixels + q];
        y[at] += w[of_w] * value;
        expected_dw[of_w] += dy[at] * value;
      });

      const auto map =
          DepthMap::deep(c.channels, c.kernel, c.stride, c.pad, c.input, c.output(), multiple);
      EXPECT_EQ(map.deep_channels % multiple, 0);
      const Case deep = deepened(c, map);
      ASSERT_EQ(deep.output(), c.output());
      std::vector<float> deep_w(c.outputs * map.deep_weights(), NAN);
      const DeepenWeights<float, float> weights{map, w.data(), deep_w.data()};
      for (size_t i = 0; i < deep_w.size(); ++i) weights(static_cast<int64_t>(i));

      for (const bool channels_last : {false, true}) {
        // The bottom as inputs of nets are, and channels-last.
        std::vector<float> from = x;
        PixelStrides strides{c.channels * pixels, pixels, {c.input[1] * c.input[2], c.input[2], 1}};
        if (channels_last) {
          for (uint32_t n = 0; n < kImages; ++n) {
            for (uint32_t i = 0; i < c.channels * pixels; ++i)
              from[n * c.channels * pixels + i % pixels * c.channels + i / pixels] =
                  x[n * c.channels * pixels + i];
          }
          strides.channel = 1;
          for (int64_t& stride : strides.axis) stride *= c.channels;
        }
        std::vector<ValuePack<float>> packs(kImages * map.deep_pixels() * map.deep_channels / 4);
        auto* const deep_x = reinterpret_cast<float*>(packs.data());
        const DeepenPixels<float, float> body{map, strides, from.data(), deep_x};
        for (size_t i = 0; i < packs.size(); ++i) body(static_cast<int64_t>(i));

        std::vector<float> found(y.size()), deep_dw(deep_w.size());
        each_product(deep, kImages, [&](auto n, auto o, auto p, auto k, auto t, auto q) {
          // (N, D.., channels') and (K, q.., channels')
          const size_t at = (n * c.outputs + o) * positions + p;
          const size_t of_w = (o * Case::count(deep.kernel) + t) * map.deep_channels + k;
          const float value = deep_x[(n * map.deep_pixels() + q) * map.deep_channels + k];
          found[at] += deep_w[of_w] * value;
          deep_dw[of_w] += dy[at] * value;
        });
        EXPECT_THAT(found, Pointwise(FloatNear(1e-3F), y));
        std::vector<float> sum = dw;
        const AddDeepGradient<float> add{map, 1, deep_dw.data(), sum.data()};
        for (size_t i = 0; i < sum.size(); ++i) add(static_cast<int64_t>(i));
        EXPECT_THAT(sum, Pointwise(FloatNear(1e-3F), expected_dw));
      }
    }
  }
}

TEST(DepthMap, PlainMapsOnlyChangeTheOrder) {
  const DepthMap map = DepthMap::plain(3, {1, 2, 2});
  std::vector<float> w(2 * 12);
  std::iota(w.begin(), w.end(), 0.0F);
  std::vector<bfloat16> last(w.size());
  const DeepenWeights<bfloat16, float> body{map, w.data(), last.data()};
  for (size_t i = 0; i < w.size(); ++i) body(static_cast<int64_t>(i));
  for (int k = 0; k < 2; ++k) {
    for (int t = 0; t < 4; ++t) {
      for (int c = 0; c < 3; ++c)
        EXPECT_EQ(static_cast<float>(last[(k * 4 + t) * 3 + c]), w[(k * 3 + c) * 4 + t]);
    }
  }
  // Back: what was there is not read where it is overwritten.
  std::vector<float> dw(w.size(), std::numeric_limits<float>::quiet_NaN());
  const AddDeepGradient<bfloat16> add{map, 0, last.data(), dw.data()};
  for (size_t i = 0; i < dw.size(); ++i) add(static_cast<int64_t>(i));
  EXPECT_THAT(dw, ElementsAreArray(w));
}

/// Runs the body for packs of kPack of `count` values.
template <class Body>
void run_all(int64_t count, const Body& body) {
  for (int64_t i = 0; i < count; ++i) body(i);
}

template <class T, int kPack>
void check_ends(int64_t rows, int64_t channels, std::optional<float> slope, bool with_bias,
                bool with_other, int64_t gap) {
  SCOPED_TRACE(text(to_string(dtype_of<T>()), " packs of ", kPack, ", ", rows, " rows of ",
                    channels, ", gaps of ", gap, " packs"));
  using Pack = ChannelPack<T, kPack>;
  const auto size = static_cast<size_t>(rows * channels);
  const std::vector<float> sums = numbers(size, 1), others = numbers(size, 2);
  const std::vector<float> diffs = numbers(size, 3);
  const std::vector<float> bias = numbers(static_cast<size_t>(channels), 4);
  // y, dy and dx have gaps between their rows.
  const int64_t packs = channels / kPack, y_row = packs + gap, dy_row = packs + 2 * gap;
  const int64_t dx_row = packs + 3 * gap;
  std::vector<Pack> y(static_cast<size_t>(rows * y_row)), other(size / kPack);
  std::vector<Pack> dy(static_cast<size_t>(rows * dy_row));
  const auto at = [&](std::vector<Pack>& all, size_t i) -> T& {
    const size_t row = i / static_cast<size_t>(channels), c = i % static_cast<size_t>(channels);
    return all[row * (all.size() / static_cast<size_t>(rows)) + c / kPack].values[c % kPack];
  };
  for (size_t i = 0; i < size; ++i) {
    at(y, i) = convert_value<T>(sums[i]);
    at(other, i) = convert_value<T>(others[i]);
    at(dy, i) = convert_value<T>(diffs[i]);
  }
  std::vector<Pack> before = y;
  const ReLUMath relu{slope.value_or(1)};
  run_all(rows * packs,
          FinishRows<T, kPack>{static_cast<uint32_t>(packs), static_cast<uint32_t>(y_row),
                               with_bias ? bias.data() : nullptr,
                               with_other ? other.data() : nullptr, relu, y.data()});
  std::vector<double> expected_sums(static_cast<size_t>(channels));
  std::vector<Pack> dx(static_cast<size_t>(rows * dx_row));
  const UndoAndSumRows<T, kPack> undo{
      rows, packs,     dy_row, y_row, dx_row, dy.data(), slope ? y.data() : nullptr,
      relu, dx.data(), nullptr};
  std::vector<ChannelPack<float, kPack>> partial(
      static_cast<size_t>(UndoAndSumRows<T, kPack>::steps(rows) * packs));
  UndoAndSumRows<T, kPack> body = undo;
  body.sums = partial.data();
  run_all(body.count(), body);
  for (size_t i = 0; i < size; ++i) {
    const size_t c = i % static_cast<size_t>(channels);
    float value = convert_value<float>(at(before, i));
    if (with_bias) value += bias[c];
    if (with_other) value += convert_value<float>(at(other, i));
    const float made = slope && value < 0 ? *slope * value : value;
    ASSERT_EQ(convert_value<float>(at(y, i)), convert_value<float>(convert_value<T>(made)));
    float diff = convert_value<float>(at(dy, i));
    if (slope && !(convert_value<float>(at(y, i)) > 0))
      diff = convert_value<float>(convert_value<T>(*slope * diff));
    if (slope) {
      ASSERT_EQ(convert_value<float>(at(dx, i)), diff);
    }
    expected_sums[c] += static_cast<double>(diff);
  }
  for (auto* all : {&y, &dx}) {
    const auto width = static_cast<int64_t>(all->size()) / rows;
    for (int64_t i = 0; i < static_cast<int64_t>(all->size()); ++i) {
      if (i % width < packs) continue;
      for (const T value : (*all)[static_cast<size_t>(i)].values)
        ASSERT_EQ(convert_value<float>(value), 0) << "in a gap";
    }
  }
  // Later steps, as the device runs them.
  std::vector<float> a, b, result(static_cast<size_t>(channels), 2);
  for (const auto& pack : partial) a.insert(a.end(), pack.values, pack.values + kPack);
  for (int64_t left = UndoAndSumRows<T, kPack>::steps(rows);;) {
    const int64_t steps = SumRows::steps(left);
    b.assign(static_cast<size_t>(steps * channels), 0);
    const SumRows sum{left, channels, a.data(), steps > 1 ? b.data() : nullptr, 3, result.data()};
    run_all(sum.count(), sum);
    if (steps <= 1) break;
    a.swap(b);
    left = steps;
  }
  for (size_t c = 0; c < result.size(); ++c)
    EXPECT_NEAR(static_cast<double>(result[c]), 3 * 2 + expected_sums[c],
                1e-5 * static_cast<double>(rows) + 1e-5);
}

TEST(ChannelsLastEnds, FinishUndoAndSum) {
  for (const auto& slope : {std::optional<float>(), std::optional(0.0F), std::optional(0.1F)}) {
    for (const bool bias : {false, true}) {
      for (const bool other : {false, true}) {
        for (const int64_t gap : {0, 1}) {
          check_ends<float, 4>(70, 8, slope, bias, other, gap);
          check_ends<float, 1>(5, 3, slope, bias, other, gap);
          check_ends<bfloat16, 8>(4500, 16, slope, bias, other, gap);
          check_ends<bfloat16, 1>(33, 5, slope, bias, other, gap);
          check_ends<float16, 8>(64, 8, slope, bias, other, gap);
        }
      }
    }
  }
}

}  // namespace
}  // namespace crema
