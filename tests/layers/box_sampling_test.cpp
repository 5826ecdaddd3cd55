// The samplers of boxes, and what follows from their crops.
#include "layers/annotated_data/box_sampling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layers/annotated_data/annotated_data.pb.h"
#include "model/text_format.hpp"
#include "proto/detection.pb.h"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

template <class Message>
Message message(const std::string& text) {
  Message parsed;
  if (text.empty()) return parsed;
  parse_text_proto(text, "test", parsed);
  return parsed;
}

BoxSampling sampling(const std::string& annotated, const std::string& transform = "") {
  return {message<AnnotatedDataParameter>(annotated), message<TransformationParameter>(transform),
          Phase::train};
}

std::vector<LabeledBox> boxes(std::initializer_list<Box> all) {
  std::vector<LabeledBox> labeled;
  for (const Box& box : all) labeled.push_back({.label = 1, .box = box});
  return labeled;
}

/// scale is a side of a square crop; the ratio is even in its bounds, and kept so that the crop
/// fits.
TEST(BoxSampling, DrawsScalesAndRatiosEvenly) {
  const auto sampler = message<BoxSampler>(
      "min_scale: 0.3 max_scale: 0.6 min_aspect_ratio: 0.5 max_aspect_ratio: 2");
  Random random(1, 2);
  constexpr int kCount = 20000;
  double scales = 0, ratios = 0, left = 0;
  for (int i = 0; i < kCount; ++i) {
    const Box box = draw_box(sampler, random);
    const double width = box.right - box.left, height = box.bottom - box.top;
    const double scale = std::sqrt(width * height), ratio = width / height;
    ASSERT_GE(scale, 0.3 - 1e-6);
    ASSERT_LE(scale, 0.6 + 1e-6);
    ASSERT_GE(ratio, 0.5 - 1e-6);
    ASSERT_LE(ratio, 2 + 1e-6);
    ASSERT_GE(box.left, 0);
    ASSERT_GE(box.top, 0);
    ASSERT_LE(box.right, 1 + 1e-9);
    ASSERT_LE(box.bottom, 1 + 1e-9);
    scales += scale / kCount;
    ratios += ratio / kCount;
    left += box.left / (1 - width) / kCount;
  }
  // Five standard deviations of the means of even distributions.
  EXPECT_NEAR(scales, 0.45, 5 * 0.3 / std::sqrt(12.0 * kCount));
  EXPECT_NEAR(ratios, 1.25, 5 * 1.5 / std::sqrt(12.0 * kCount));
  EXPECT_NEAR(left, 0.5, 5 * 1 / std::sqrt(12.0 * kCount));
}

TEST(BoxSampling, KeepsRatiosInsideTheImage) {
  const auto sampler =
      message<BoxSampler>("min_scale: 0.9 max_scale: 0.9 min_aspect_ratio: 2 max_aspect_ratio: 2");
  Random random(1, 2);
  const Box box = draw_box(sampler, random);
  EXPECT_NEAR(box.right - box.left, 1, 1e-6);  // the ratio became 1 / 0.81
  EXPECT_NEAR(box.bottom - box.top, 0.81, 1e-6);
  const Box whole = draw_box(BoxSampler(), random);
  EXPECT_EQ(whole.right - whole.left, 1);
  EXPECT_EQ(whole.bottom - whole.top, 1);
}

/// By hand: crop and box are of area 0.25 and 0.125, and 0.0625 of both is common.
TEST(BoxSampling, ConstraintsAreOverlapAndCoverage) {
  const Box crop{0, 0, 0.5, 0.5};
  const auto one = boxes({{0.25, 0.25, 0.5, 0.75}});
  const auto holds = [&](const std::string& text) {
    return is_satisfied(message<SampleConstraint>(text), crop, one);
  };
  EXPECT_TRUE(holds(""));
  EXPECT_TRUE(holds("min_jaccard_overlap: 0.19"));  // 1 / 5
  EXPECT_FALSE(holds("min_jaccard_overlap: 0.21"));
  EXPECT_TRUE(holds("max_jaccard_overlap: 0.21"));
  EXPECT_FALSE(holds("max_jaccard_overlap: 0.19"));
  EXPECT_TRUE(holds("min_sample_coverage: 0.25"));
  EXPECT_FALSE(holds("min_sample_coverage: 0.26"));
  EXPECT_TRUE(holds("min_object_coverage: 0.5"));
  EXPECT_FALSE(holds("min_object_coverage: 0.51"));
  EXPECT_FALSE(is_satisfied(message<SampleConstraint>("max_jaccard_overlap: 1"), crop, {}));
}

/// The fork takes a crop where one box meets one bound, and no box all of them.
TEST(BoxSampling, OneBoxHasToMeetAllBounds) {
  const Box crop{0, 0, 0.5, 0.5};
  const auto constraint =
      message<SampleConstraint>("min_sample_coverage: 0.5 min_object_coverage: 0.9");
  const auto small = boxes({{0.1, 0.1, 0.2, 0.2}});  // all of it inside
  const auto large = boxes({{0, 0, 1, 1}});          // covers the crop
  auto both = small;
  both.push_back(large[0]);
  EXPECT_FALSE(is_satisfied(constraint, crop, both));
  both.push_back(boxes({{0, 0, 0.45, 0.45}})[0]);
  EXPECT_TRUE(is_satisfied(constraint, crop, both));
}

/// The share of crops among several samplers: each gives one, and one of them is taken evenly.
TEST(BoxSampling, TakesOneOfAllCropsEvenly) {
  const BoxSampling sampler = sampling(
      "batch_sampler { max_sample: 1 max_trials: 1 } "
      "batch_sampler { sampler { min_scale: 0.5 max_scale: 0.5 } max_sample: 1 } "
      "batch_sampler { sampler { min_scale: 0.25 max_scale: 0.25 } max_sample: 2 }");
  int whole = 0, half = 0, quarter = 0;
  constexpr int kCount = 4000;
  for (int i = 0; i < kCount; ++i) {
    const auto window = sampler.draw_crop({100, 200}, {}, Random(1, 2, i));
    if (!window) {
      ++whole;
      continue;
    }
    EXPECT_EQ(window->width, 2 * window->height);
    half += window->height == 50;
    quarter += window->height == 25;
  }
  const double sigma = std::sqrt(kCount * 0.25 * 0.75);
  EXPECT_NEAR(whole, kCount / 4, 5 * sigma);
  EXPECT_NEAR(half, kCount / 4, 5 * sigma);
  EXPECT_NEAR(quarter, kCount / 2, 5 * std::sqrt(kCount * 0.25));
}

TEST(BoxSampling, CropsSatisfyTheirConstraintOrThereIsNone) {
  const BoxSampling sampler = sampling(
      "batch_sampler { sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 "
      "max_aspect_ratio: 2 } sample_constraint { min_jaccard_overlap: 0.5 } max_sample: 1 "
      "max_trials: 50 }");
  const auto one = boxes({{40, 20, 160, 80}});
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    const auto w = sampler.draw_crop({100, 200}, one, Random(1, 2, i));
    if (!w) continue;
    ++found;
    const double width = static_cast<double>(std::min<int64_t>(160, w->left + w->width) -
                                             std::max<int64_t>(40, w->left));
    const double height = static_cast<double>(std::min<int64_t>(80, w->top + w->height) -
                                              std::max<int64_t>(20, w->top));
    const double both = width * height;
    const double all = static_cast<double>(w->width * w->height) + 120.0 * 60 - both;
    EXPECT_GT(both / all, 0.5 - 0.03);  // whole pixels
  }
  EXPECT_GT(found, 200);
  EXPECT_FALSE(sampler.draw_crop({100, 200}, boxes({{0, 0, 1, 1}}), Random(1, 2)));
  EXPECT_FALSE(sampler.draw_crop({100, 200}, {}, Random(1, 2)));
}

/// A cut behind padding and changes of pixels gives the same image as one that comes first.
TEST(BoxSampling, CuttingFirstGivesTheSameImage) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  constexpr int64_t kHeight = 20, kWidth = 30;
  std::vector<uint8_t> pixels(kHeight * kWidth * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7 % 251);
  const Image image{.channels = 3,
                    .height = kHeight,
                    .width = kWidth,
                    .interleaved = true,
                    .bytes = pixels.data()};
  const ImageSize size{kHeight, kWidth};
  const std::vector<ImageStep> before{
      Linear{.factor = 1.3, .offset = -10}, Saturate{1.4}, TurnHue{9},
      Pad{.window = {.top = -10, .left = -15, .height = 50, .width = 70}, .fill = {10, 20, 30}}};
  const auto bytes_of = [](const Image& made) {
    return std::vector<uint8_t>(made.bytes, made.bytes + made.count());
  };
  const ImageWindow windows[] = {
      {.top = 12, .left = 20, .height = 10, .width = 12},  // of the image alone
      {.top = 0, .left = 0, .height = 15, .width = 40},    // its corner
      {.top = 2, .left = 3, .height = 45, .width = 60},    // all of it, and some padding
      {.top = 0, .left = 0, .height = 5, .width = 6}};     // padding alone
  for (const ImageWindow& window : windows) {
    std::vector<ImageStep> steps = before;
    steps.emplace_back(Cut{window});
    ImageEditor editor, other;
    const auto expected =
        bytes_of(editor.apply(image, {.height = kHeight, .width = kWidth}, steps));
    cut_first(size, steps);
    EXPECT_EQ(std::holds_alternative<Cut>(steps.front()), window.height > 5);
    EXPECT_EQ(bytes_of(other.apply(image, {.height = kHeight, .width = kWidth}, steps)), expected)
        << window.top << ", " << window.left;
    Geometry geometry(size);
    for (const ImageStep& step : steps) crema::apply(step, geometry);
    const Point corner = geometry.apply(Point{0, 0});
    EXPECT_EQ(corner.x, 15 - static_cast<double>(window.left));
    EXPECT_EQ(corner.y, 10 - static_cast<double>(window.top));
  }
}

TEST(BoxSampling, BoxesAreDroppedWhereNothingIsLeft) {
  auto all = boxes({{0, 0, 10, 10}, {30, 30, 40, 40}, {5, 5, 5, 9}, {8, 8, 20, 20}});
  Geometry cut({.height = 50, .width = 50});
  cut.cut({.top = 0, .left = 0, .height = 12, .width = 12});
  sampling("").follow(cut, all);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].box.right, 10);
  EXPECT_EQ(all[1].box.right, 12);
}

}  // namespace
}  // namespace crema
