// What is drawn for a sample: sizes, bounds, chances, and that it is the same each time.
#include "data/transform/augmentation.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <set>

#include "crema/error.hpp"
#include "data/transform/mixing.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

TransformationParameter settings(const std::string& text) {
  TransformationParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  return param;
}

Augmentation augmentation(const std::string& text, Phase phase = Phase::train) {
  return Augmentation(settings(text), phase);
}

ImageSize size_of(const std::string& text, ImageSize size, Phase phase = Phase::train) {
  return augmentation(text, phase).draw(size, {1, 2, 3}).size;
}

MATCHER_P2(IsSize, height, width, "") { return arg.height == height && arg.width == width; }

TEST(Augmentation, ResizeModes) {
  const ImageSize size{.height = 100, .width = 200};
  for (const Phase phase : {Phase::train, Phase::test}) {
    EXPECT_THAT(size_of("resize_param { height: 30 width: 40 }", size, phase), IsSize(30, 40));
    EXPECT_THAT(
        size_of("resize_param { resize_mode: FIT_SMALL_SIZE height: 50 width: 50 }", size, phase),
        IsSize(50, 100));
    EXPECT_THAT(
        size_of("resize_param { resize_mode: FIT_SMALL_SIZE height: 40 width: 160 }", size, phase),
        IsSize(80, 160));
  }
  const auto drawn = augmentation(
                         "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 60 width: 80 "
                         "pad_value: 7 }")
                         .draw(size, {});
  ASSERT_EQ(drawn.steps.size(), 2u);
  EXPECT_THAT(std::get<Resize>(drawn.steps[0]).size, IsSize(40, 80));
  EXPECT_EQ(std::get<Pad>(drawn.steps[1]).window.top, -10);
  EXPECT_THAT(std::get<Pad>(drawn.steps[1]).fill, ElementsAre(7));
  EXPECT_THAT(drawn.size, IsSize(60, 80));
}

// The published preprocessing of detectors names LINEAR; averages are for nets that name nothing.
TEST(Augmentation, ANamedInterpolationIsExact) {
  const auto resize = [](const std::string& text, Phase phase = Phase::train) {
    const auto drawn = augmentation(text, phase).draw({.height = 100, .width = 200}, {1, 2, 3});
    for (const ImageStep& step : drawn.steps) {
      if (std::holds_alternative<Resize>(step)) return std::get<Resize>(step);
    }
    throw Error("no resize");
  };
  EXPECT_FALSE(resize("resize_param { height: 30 width: 40 }").exact);
  for (const Phase phase : {Phase::train, Phase::test}) {
    const Resize named = resize("resize_param { height: 30 width: 40 interp_mode: LINEAR }", phase);
    EXPECT_TRUE(named.exact);
    EXPECT_EQ(named.interpolation, Interpolation::linear);
  }
  EXPECT_TRUE(resize("random_resize_param { min_size: 50 max_size: 50 resize_param { interp_mode: "
                     "CUBIC } }")
                  .exact);
  EXPECT_TRUE(
      resize("crop_size: 8 random_aspect_ratio_param { resize_param { interp_mode: LINEAR } "
             "}")
          .exact);
  EXPECT_FALSE(resize("crop_size: 8 random_crop_param {}").exact);
  EXPECT_FALSE(resize("img_rand_resize_lower: 50 img_rand_resize_upper: 50").exact);
  EXPECT_TRUE(resize("img_rand_resize_lower: 50 img_rand_resize_upper: 50 "
                     "interpolation_algo_down: INTER_LINEAR")
                  .exact);
}

TEST(Augmentation, OneOfSeveralSizesIsDrawnForABatch) {
  const std::string two =
      "resize_param { prob: 0 height: 10 width: 10 } resize_param { prob: 0.2 height: 20 width: 20 "
      "}";
  const auto a = augmentation(two);
  EXPECT_EQ(a.sizes(), 2);
  for (uint64_t n = 0; n < 50; ++n) EXPECT_EQ(a.draw_size({1, 2, n}), 1) << "a share of 0";
  EXPECT_THAT(a.draw({.height = 100, .width = 200}, {1, 2, 3, 0}).size, IsSize(10, 10));
  EXPECT_THAT(a.draw({.height = 100, .width = 200}, {1, 2, 3, 1}).size, IsSize(20, 20));
  EXPECT_EQ(augmentation(two, Phase::test).sizes(), 1);
  EXPECT_THAT(size_of(two, {.height = 100, .width = 200}, Phase::test), IsSize(10, 10));
  expect_error(
      [] {
        augmentation(
            "resize_param { prob: 0 height: 1 width: 1 } resize_param { prob: "
            "0 height: 2 width: 2 }");
      },
      {"several resize_param", "each prob is 0"});
  const std::string small =
      "resize_param { height: 9 width: 9 } resize_param { resize_mode: FIT_SMALL_SIZE height: 9 "
      "width: 9 }";
  expect_error([&] { augmentation(small); }, {"FIT_SMALL_SIZE", "crop_size"});
  EXPECT_NO_THROW(augmentation("crop_size: 8 " + small));
  expect_error([&] { augmentation("mean_file: 'm' " + two); }, {"mean_file", "mean_value"});
}

TEST(Augmentation, RandomCropsKeepToTheirBounds) {
  const auto a = augmentation(
      "crop_size: 32 random_crop_param { min_area: 0.2 max_area: 0.5 min_aspect: 0.5 max_aspect: 2 "
      "}");
  std::set<int64_t> tops;
  double least = 1, most = 0;
  for (uint64_t n = 0; n < 500; ++n) {
    const auto drawn = a.draw({.height = 200, .width = 300}, {1, 2, n});
    EXPECT_THAT(drawn.size, IsSize(32, 32));
    const ImageWindow window = std::get<Cut>(drawn.steps[0]).window;
    EXPECT_GE(window.top, 0);
    EXPECT_GE(window.left, 0);
    EXPECT_LE(window.top + window.height, 200);
    EXPECT_LE(window.left + window.width, 300);
    const double share = static_cast<double>(window.height * window.width) / 60000;
    const double aspect = static_cast<double>(window.width) / static_cast<double>(window.height);
    EXPECT_TRUE(aspect > 0.48 && aspect < 2.08) << aspect;
    least = std::min(least, share);
    most = std::max(most, share);
    tops.insert(window.top);
  }
  EXPECT_NEAR(least, 0.2, 0.02);
  EXPECT_NEAR(most, 0.5, 0.02);
  EXPECT_GT(tops.size(), 40u);
  // Nothing of these bounds fits: the largest centre crop of the aspect that is nearest.
  const auto drawn =
      augmentation("crop_size: 8 random_crop_param { min_area: 1 min_aspect: 1 max_aspect: 1 }")
          .draw({.height = 20, .width = 60}, {});
  const ImageWindow window = std::get<Cut>(drawn.steps[0]).window;
  EXPECT_EQ(window.left, 20);
  EXPECT_EQ(window.width, 20);
}

TEST(Augmentation, AspectRatiosOfForksKeepToTheirBounds) {
  const auto a = augmentation(
      "crop_size: 24 random_aspect_ratio_param { min_area_ratio: 0.1 max_area_ratio: 0.4 "
      "aspect_ratio_change: 0.75 max_attempt: 100 }");
  double least = 1, most = 0, narrowest = 9, widest = 0;
  for (uint64_t n = 0; n < 2000; ++n) {
    const auto drawn = a.draw({.height = 600, .width = 800}, {1, 2, n});
    const ImageWindow window = std::get<Cut>(drawn.steps.at(0)).window;
    const auto height = static_cast<double>(window.height),
               width = static_cast<double>(window.width);
    least = std::min(least, height * width / (600 * 800));
    most = std::max(most, height * width / (600 * 800));
    narrowest = std::min(narrowest, width / height);
    widest = std::max(widest, width / height);
  }
  EXPECT_NEAR(least, 0.1, 0.005);
  EXPECT_NEAR(most, 0.4, 0.005);
  // The ratio is the square of the change: both sides have it.
  EXPECT_NEAR(narrowest, 0.75 * 0.75, 0.02);
  EXPECT_NEAR(widest, 1 / (0.75 * 0.75), 0.05);
}

TEST(Augmentation, ExpandedImagesLieAnywhereOnACanvasOfAnySizeAllowed) {
  const auto a = augmentation("expand_param { max_expand_ratio: 4 }");
  int64_t least = 1000, most = 0;
  double topmost = 1, lowest = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    const auto drawn = a.draw({.height = 100, .width = 200}, {1, 2, n});
    EXPECT_EQ(drawn.size.width / 2, drawn.size.height) << "one ratio for both sides";
    least = std::min(least, drawn.size.height);
    most = std::max(most, drawn.size.height);
    const ImageWindow window = std::get<Pad>(drawn.steps.at(0)).window;
    ASSERT_TRUE(window.top <= 0 && window.height + window.top >= 100);
    ASSERT_TRUE(window.left <= 0 && window.width + window.left >= 200);
    if (window.height < 150) continue;
    const double place =
        static_cast<double>(-window.top) / static_cast<double>(window.height - 100);
    topmost = std::min(topmost, place);
    lowest = std::max(lowest, place);
  }
  EXPECT_LE(least, 105);
  EXPECT_GE(most, 395);
  EXPECT_LE(most, 400);
  EXPECT_LE(topmost, 0.02);
  EXPECT_GE(lowest, 0.98);
}

TEST(Augmentation, ShorterSidesAndAspectRatiosOfForks) {
  std::set<int64_t> heights;
  const auto a = augmentation("img_rand_resize_lower: 64 img_rand_resize_upper: 66 crop_size: 60");
  for (uint64_t n = 0; n < 50; ++n) {
    const auto [height, width] = a.draw({.height = 100, .width = 200}, {1, 2, n}).size;
    heights.insert(height);
    EXPECT_EQ(width, 2 * height);
  }
  EXPECT_THAT(heights, ElementsAre(64, 65, 66));
  EXPECT_THAT(
      size_of("random_resize_param { min_size: 50 max_size: 50 }", {.height = 100, .width = 200}),
      IsSize(50, 100));
  EXPECT_THAT(size_of("crop_size: 24 random_aspect_ratio_param { min_area_ratio: 0.05 "
                      "aspect_ratio_change: 0.75 "
                      "max_attempt: 100 resize_param { interp_mode: LINEAR } }",
                      {.height = 100, .width = 200}),
              IsSize(24, 24));
  const auto expanded = augmentation("expand_param { max_expand_ratio: 4 } mean_value: 104")
                            .draw({.height = 10, .width = 20}, {1, 2, 5});
  const Pad pad = std::get<Pad>(expanded.steps[0]);
  EXPECT_THAT(pad.fill, ElementsAre(104));
  EXPECT_GE(expanded.size.height, 10);
  EXPECT_LE(expanded.size.width, 80);
}

TEST(Augmentation, ExpandFillsWithTheMeansOfTheSamplesOrderOfChannels) {
  const std::string means =
      "expand_param { max_expand_ratio: 4 } "
      "mean_value: 104 mean_value: 117 mean_value: 123 ";
  const auto fill_of = [&](const std::string& text) {
    const auto steps =
        augmentation(means + text).draw({.height = 10, .width = 20}, {1, 2, 5}).steps;
    return std::get<Pad>(steps.at(0)).fill;
  };
  EXPECT_THAT(fill_of(""), ElementsAre(104, 117, 123));
  EXPECT_THAT(fill_of("bgr2rgb: true"), ElementsAre(123, 117, 104)) << "swapped afterwards";
}

TEST(Augmentation, PadIsTheLastStepInBothPhasesAndFillsWithTheMeans) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    const auto a =
        augmentation("pad: 4 bgr2rgb: true mean_value: 1 mean_value: 2 mean_value: 3", phase);
    EXPECT_TRUE(a.has_steps());
    const auto drawn = a.draw({.height = 10, .width = 20}, {1, 2, 5});
    EXPECT_THAT(drawn.size, IsSize(18, 28));
    const Pad pad = std::get<Pad>(drawn.steps.at(1));
    EXPECT_THAT(pad.fill, ElementsAre(1, 2, 3));
    EXPECT_EQ(pad.window.top, -4);
    EXPECT_EQ(pad.window.left, -4);
    EXPECT_EQ(pad.window.height, 18);
    EXPECT_EQ(pad.window.width, 28);
  }
  EXPECT_FALSE(augmentation("pad: 0").has_steps());
  expect_error([] { augmentation("pad: 40000"); }, {"pad: 40000", "1 to 32767"});
  expect_error([] { augmentation("pad: 4 mean_file: 'm'"); }, {"pad }", "mean_value instead"});
}

// Without bounds, contrast multiplied by 0: black images.
TEST(Augmentation, ProbabilitiesOfDistortParamNeedTheirBounds) {
  for (const auto& [set, missing] :
       {std::pair{"contrast_prob: 0.5", "contrast_lower and contrast_upper"},
        {"contrast_prob: 0.5 contrast_upper: 2", "contrast_lower and contrast_upper"},
        {"contrast_prob: 0.5 contrast_lower: 0", "contrast_lower and contrast_upper"},
        {"saturation_prob: 0.5", "saturation_lower and saturation_upper"},
        {"brightness_prob: 0.5", "brightness_delta"},
        {"hue_prob: 0.5", "hue_delta"}}) {
    expect_error([&] { augmentation(text("distort_param { ", set, " }")); }, {missing});
  }
  for (const char* fine :
       {"contrast_prob: 0", "contrast_prob: 1 contrast_lower: 0 contrast_upper: 2",
        "brightness_prob: 1 brightness_delta: 0", "random_order_prob: 1"}) {
    EXPECT_NO_THROW(augmentation(text("distort_param { ", fine, " }"))) << fine;
  }
}

TEST(Augmentation, OfNestedResizeParamsTheInterpolationAloneCounts) {
  for (const char* step : {"random_resize_param", "random_aspect_ratio_param"}) {
    const auto of = [&](const char* fields) {
      return augmentation(text("crop_size: 8 ", step, " { resize_param { ", fields, " } }"));
    };
    EXPECT_NO_THROW(of("interp_mode: CUBIC"));
    EXPECT_NO_THROW(of("interp_mode: CUBIC prob: 1 height: 0")) << "defaults";
    for (const char* fields :
         {"height: 300", "prob: 0.5", "resize_mode: FIT_SMALL_SIZE", "pad_mode: MIRRORED"}) {
      expect_error([&] { of(fields); }, {step, "resize_param", "is not implemented"});
    }
  }
}

TEST(Augmentation, StepsThatNeedColourAreRefusedBeforeOneIsDrawn) {
  const auto refuses = [](const std::string& prototxt, int64_t channels) {
    expect_error([&] { augmentation(prototxt).check_channels(channels); },
                 {"transform_param {", text("the image has ", channels, " channels")});
  };
  const std::string bounds = "saturation_lower: 0.5 saturation_upper: 1.5 hue_delta: 9 ";
  for (const char* step :
       {"distort_param { saturation_prob: 0.01 ", "distort_param { hue_prob: 0.1 ",
        "distort_param { random_order_prob: 0.01 "}) {
    for (const int64_t channels : {1, 4}) refuses(step + bounds + "}", channels);
    EXPECT_NO_THROW(augmentation(step + bounds + "}").check_channels(3));
    EXPECT_NO_THROW(augmentation(step + bounds + "}", Phase::test).check_channels(1));
  }
  for (const char* step : {"decolorize", "convert_to_hsv", "convert_to_lab"})
    refuses(text("noise_param { prob: 0.1 ", step, ": true }"), 1);
  for (const char* step : {"hist_eq: true", "clahe: true", "jpeg: 80"}) {
    const std::string prototxt = text("noise_param { prob: 0.1 ", step, " }");
    for (const int64_t channels : {1, 3})
      EXPECT_NO_THROW(augmentation(prototxt).check_channels(channels));
    refuses(prototxt, 4);
  }
  refuses("bgr2rgb: true", 1);
  refuses("rotate_param { prob: 0.1 fill: 1 fill: 2 fill: 3 }", 1);
  refuses("resize_param { height: 9 width: 9 pad_value: 1 pad_value: 2 }", 3);
  EXPECT_NO_THROW(augmentation("rotate_param { fill: 1 fill: 2 fill: 3 }").check_channels(3));
}

TEST(Augmentation, ASampleIsAFunctionOfItsNumber) {
  const std::string text =
      "rotate_param { max_degrees: 30 } blur_param { prob: 0.5 } "
      "distort_param { brightness_prob: 0.5 brightness_delta: 32 random_order_prob: 0.5 }";
  const auto a = augmentation(text),
             more = augmentation(text + " resize_param { height: 9 width: 9 }");
  std::set<double> angles;
  for (uint64_t n = 0; n < 100; ++n) {
    const auto first = a.draw({.height = 9, .width = 8}, {1, 2, n});
    const auto again = a.draw({.height = 9, .width = 8}, {1, 2, n});
    const double angle = std::get<Rotate>(first.steps[0]).degrees;
    EXPECT_EQ(angle, std::get<Rotate>(again.steps[0]).degrees);
    EXPECT_EQ(first.steps.size(), again.steps.size());
    // One step more changes nothing of the others.
    EXPECT_EQ(angle,
              std::get<Rotate>(more.draw({.height = 9, .width = 8}, {1, 2, n}).steps[1]).degrees);
    EXPECT_LE(std::abs(angle), 30);
    angles.insert(angle);
  }
  EXPECT_EQ(angles.size(), 100u);
}

TEST(Augmentation, ChancesAreThoseThatAreSet) {
  const auto a = augmentation("blur_param { prob: 0.25 min_sigma: 1 max_sigma: 2 }");
  int blurred = 0;
  for (uint64_t n = 0; n < 2000; ++n) {
    const auto drawn = a.draw({.height = 9, .width = 8}, {1, 2, n});
    blurred += static_cast<int>(drawn.steps.size());
    if (drawn.steps.empty()) continue;
    const double sigma = std::get<Blur>(drawn.steps[0]).sigma;
    EXPECT_TRUE(sigma >= 1 && sigma < 2) << sigma;
  }
  EXPECT_NEAR(blurred, 500, 80);
}

TEST(Augmentation, ContrastIsFirstInHalfOfTheSamples) {
  const auto a = augmentation(
      "distort_param { contrast_prob: 1 contrast_lower: 0.5 contrast_upper: 1.5 hue_prob: 1 "
      "hue_delta: 18 saturation_prob: 1 saturation_lower: 0.5 saturation_upper: 1.5 }");
  int first = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    const auto drawn = a.draw({.height = 9, .width = 8}, {1, 2, n});
    ASSERT_EQ(drawn.steps.size(), 3u);
    first += std::holds_alternative<Linear>(drawn.steps[0]);
    EXPECT_TRUE(std::holds_alternative<Linear>(drawn.steps[0]) ||
                std::holds_alternative<Linear>(drawn.steps[2]));
  }
  EXPECT_NEAR(first, 500, 80);
}

TEST(Augmentation, NothingIsRandomInTest) {
  const auto a = augmentation(
      "crop_size: 4 random_crop_param {} rotate_param { max_degrees: 30 } blur_param {} "
      "erase_param { prob: 1 } distort_param { brightness_prob: 1 brightness_delta: 9 } "
      "noise_param { inverse: true } expand_param { max_expand_ratio: 2 }",
      Phase::test);
  EXPECT_FALSE(a.has_steps());
  EXPECT_TRUE(a.draw({.height = 9, .width = 8}, {}).steps.empty());
  EXPECT_FALSE(a.draw_erasure({.height = 9, .width = 8}, {}));
}

TEST(Augmentation, ErasuresKeepToTheirBounds) {
  const auto a = augmentation("erase_param { prob: 1 min_area: 0.1 max_area: 0.2 value: 5 }");
  for (uint64_t n = 0; n < 200; ++n) {
    const auto erasure = a.draw_erasure({.height = 100, .width = 80}, {1, 2, n});
    ASSERT_TRUE(erasure);
    const ImageWindow& w = erasure->window;
    EXPECT_TRUE(w.top >= 0 && w.left >= 0 && w.top + w.height <= 100 && w.left + w.width <= 80);
    EXPECT_NEAR(static_cast<double>(w.height * w.width) / 8000, 0.15, 0.06);
  }
}

TEST(Augmentation, SettingsOutOfRangeAreErrors) {
  expect_error([] { augmentation("resize_param { height: 0 width: 4 }"); }, {"height", "0"});
  expect_error([] { augmentation("resize_param { height: 4 width: 4 height_scale: 2 }"); },
               {"height_scale", "not implemented"});
  expect_error([] { augmentation("random_crop_param {}"); }, {"crop_size"});
  expect_error(
      [] { augmentation("crop_size: 4 random_crop_param { min_area: 0.9 max_area: 0.5 }"); },
      {"min_area", "0.9 to 0.5"});
  expect_error(
      [] { augmentation("crop_size: 4 random_crop_param {} random_aspect_ratio_param {}"); },
      {"random_crop_param", "random_aspect_ratio_param", "keep one"});
  expect_error([] { augmentation("rotate_param { max_degrees: -3 }"); }, {"max_degrees", "-3"});
  expect_error([] { augmentation("blur_param { prob: 1.5 }"); }, {"prob", "1.5"});
  expect_error([] { augmentation("blur_param { min_sigma: 3 max_sigma: 2 }"); }, {"3 to 2"});
  expect_error([] { augmentation("erase_param { value: 300 }"); }, {"300", "0 to 255"});
  expect_error([] { augmentation("erase_param { value: 3 noise: true }"); }, {"noise", "value"});
  expect_error([] { augmentation("crop_h: 3"); }, {"crop_h 3", "crop_w 0"});
  expect_error([] { augmentation("crop_h: 3 crop_w: 3 crop_size: 3"); }, {"crop_size", "keep one"});
  expect_error([] { augmentation("img_rand_resize_lower: 3"); }, {"img_rand_resize_upper 0"});
  expect_error([] { augmentation("distort_param { contrast_lower: 2 contrast_upper: 1 }"); },
               {"contrast_lower", "2 to 1"});
  expect_error([] { augmentation("random_resize_param {} resize_param { height: 4 width: 4 }"); },
               {"several of"});
}

Mixing mixing(const std::string& text, int64_t batch = 4, Phase phase = Phase::train) {
  return Mixing(settings(text), phase, batch);
}

TEST(Mixing, SettingsThatCannotWorkAreErrors) {
  expect_error([] { mixing("mixup_param {}"); }, {"mixup_param", "num_labels"});
  expect_error([] { mixing("mixup_param {} cutmix_param {} num_labels: 3"); }, {"keep one"});
  expect_error([] { mixing("mixup_param { alpha: 0 } num_labels: 3"); }, {"alpha: 0"});
  expect_error([] { mixing("cutmix_param {} num_labels: 3", 1); }, {"batch_size is 1"});
  expect_error([] { mixing("num_labels: 1"); }, {"num_labels: 1"});
  EXPECT_FALSE(mixing("cutmix_param {} num_labels: 3", 1, Phase::test).is_active());
}

TEST(Mixing, SharesAreOfTheBetaDistribution) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    Random random(1, 2);
    double sum = 0, squares = 0;
    constexpr int kCount = 20000;
    for (int i = 0; i < kCount; ++i) {
      const double x = draw_beta(alpha, random);
      ASSERT_TRUE(x >= 0 && x <= 1) << x;
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    EXPECT_NEAR(sum / kCount, 0.5, 0.01);
    EXPECT_NEAR(squares / kCount, 1 / (4 * (2 * alpha + 1)), 0.005);
  }
}

TEST(Mixing, PartnersAreOtherSamples) {
  const auto m = mixing("mixup_param { prob: 0.5 alpha: 0.4 } num_labels: 10", 5);
  std::set<int64_t> partners;
  int mixed = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    const Mix drawn = m.draw({1, 2, n}, 2, {.height = 8, .width = 8});
    if (drawn.share == 0) continue;
    ++mixed;
    partners.insert(drawn.partner);
    EXPECT_EQ(drawn.share, m.draw({1, 2, n}, 2, {.height = 8, .width = 8}).share);
  }
  EXPECT_NEAR(mixed, 500, 80);
  EXPECT_THAT(partners, ElementsAre(0, 1, 3, 4));
}

TEST(Mixing, PixelsAreSumsOrRectangles) {
  const std::vector<float> other{10, 20, 30, 40};
  std::vector<float> sample{0, 4, 8, 12};
  mix<float>({.share = 0.25}, Shape{1, 2, 2}, other.data(), sample.data());
  EXPECT_THAT(sample, ElementsAre(2.5f, 8, 13.5f, 19));
  std::vector<float> cut{1, 2, 3, 4};
  mix<float>({.share = 0.5, .window = ImageWindow{.left = 1, .height = 2, .width = 1}},
             Shape{1, 2, 2}, other.data(), cut.data());
  EXPECT_THAT(cut, ElementsAre(1, 20, 3, 40));
  const auto m = mixing("cutmix_param { alpha: 1 } num_labels: 10");
  for (uint64_t n = 0; n < 200; ++n) {
    const Mix drawn = m.draw({1, 2, n}, 0, {.height = 10, .width = 20});
    const ImageWindow& w = *drawn.window;
    EXPECT_EQ(drawn.share, static_cast<double>(w.height * w.width) / 200);
    EXPECT_TRUE(w.top >= 0 && w.left >= 0 && w.top + w.height <= 10 && w.left + w.width <= 20);
  }
}

TEST(Mixing, LabelsAreDistributions) {
  std::vector<float> out(6);
  const auto key = [](int64_t n) { return "key" + std::to_string(n); };
  class_distributions<float>({2, 0}, {}, 3, key, out.data());
  EXPECT_THAT(out, ElementsAre(0, 0, 1, 1, 0, 0));
  class_distributions<float>({2, 0}, {Mix{.share = 0.25, .partner = 1}, Mix{}}, 3, key, out.data());
  EXPECT_THAT(out, ElementsAre(0.25f, 0, 0.75f, 1, 0, 0));
  class_distributions<float>({1, 1}, {Mix{.share = 0.25, .partner = 1}, Mix{}}, 3, key, out.data());
  EXPECT_THAT(out, ElementsAre(0, 1, 0, 0, 1, 0));
  expect_error(
      [&] {
        class_distributions<float>({0, 3}, {}, 3, key, out.data());
      },
      {"key1", "its label 3", "3 classes", "0 to 2"});
}

}  // namespace
}  // namespace crema
