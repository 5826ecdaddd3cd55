// Each step of augmentation on an image whose result is known.
#include "data/images/image_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;

class ImageSteps : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }

  /// The bytes of an interleaved image after the steps.
  std::vector<int> run(const std::vector<uint8_t>& pixels, ImageSize size, int64_t channels,
                       const std::vector<ImageStep>& steps) {
    const Image image{.channels = channels,
                      .height = size.height,
                      .width = size.width,
                      .interleaved = true,
                      .bytes = pixels.data()};
    const Image out = editor_.apply(image, {.height = size.height, .width = size.width}, steps);
    return {out.bytes, out.bytes + out.count()};
  }

  ImageEditor editor_;
};

TEST_F(ImageSteps, ShrinkingAverages) {
  EXPECT_THAT(run({0, 100, 20, 40, 200, 100, 60, 80}, {2, 4}, 1, {Resize{{1, 2}}}),
              ElementsAre(100, 50));
  for (const auto mode : {Interpolation::linear, Interpolation::cubic, Interpolation::lanczos4}) {
    // Every second column is white: no way of shrinking may take only one kind of them.
    std::vector<uint8_t> stripes(8 * 64);
    for (size_t i = 0; i < stripes.size(); i += 2) stripes[i] = 255;
    EXPECT_THAT(run(stripes, {8, 64}, 1, {Resize{{1, 8}, mode}}), Each(128));
  }
  EXPECT_THAT(run({1, 2, 3, 4}, {2, 2}, 1, {Resize{{2, 4}, Interpolation::nearest}}),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  EXPECT_THAT(run({0, 100}, {1, 2}, 1, {Resize{{1, 4}}}), ElementsAre(0, 25, 75, 100));
}

TEST_F(ImageSteps, CutAndPad) {
  const std::vector<uint8_t> pixels{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(run(pixels, {2, 3}, 1, {Cut{{.top = 1, .left = 1, .height = 1, .width = 2}}}),
              ElementsAre(5, 6));
  const ImageWindow window{.top = 0, .left = -2, .height = 2, .width = 5};
  EXPECT_THAT(run(pixels, {2, 3}, 1, {Pad{.window = window, .fill = {9}}}),
              ElementsAre(9, 9, 1, 2, 3, 9, 9, 4, 5, 6));
  EXPECT_THAT(run(pixels, {2, 3}, 1, {Pad{.window = window, .mode = Pad::Mode::nearest}}),
              ElementsAre(1, 1, 1, 2, 3, 4, 4, 4, 5, 6));
  EXPECT_THAT(run(pixels, {2, 3}, 1, {Pad{.window = window, .mode = Pad::Mode::mirrored}}),
              ElementsAre(3, 2, 1, 2, 3, 6, 5, 4, 5, 6));
  expect_error(
      [&] {
        run(pixels, {1, 2}, 3, {Pad{.window = {0, 0, 2, 2}, .fill = {1, 2}}});
      },
      {"2 values", "3 channels"});
}

TEST_F(ImageSteps, ACutBeforePaddingIsNotSeenAgain) {
  EXPECT_THAT(
      run({7, 1, 8}, {1, 3}, 1,
          {Cut{{.left = 1, .height = 1, .width = 1}},
           Pad{.window = {.left = -1, .height = 1, .width = 3}, .mode = Pad::Mode::nearest}}),
      ElementsAre(1, 1, 1));
}

TEST_F(ImageSteps, RotationIsCounterClockwiseAndFills) {
  EXPECT_THAT(run({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}, 1, {Rotate{.degrees = 90}}),
              ElementsAre(3, 6, 9, 2, 5, 8, 1, 4, 7));
  const auto out =
      run(std::vector<uint8_t>(21 * 21, 10), {21, 21}, 1, {Rotate{.degrees = 45, .fill = {200}}});
  EXPECT_EQ(out[0], 200);
  EXPECT_EQ(out[10 * 21 + 10], 10);
}

TEST_F(ImageSteps, BrightnessAndContrastSaturate) {
  EXPECT_THAT(run({0, 100, 250}, {1, 3}, 1, {Linear{.offset = 20}}), ElementsAre(20, 120, 255));
  EXPECT_THAT(run({0, 100, 250}, {1, 3}, 1, {Linear{.factor = 1.5}}), ElementsAre(0, 150, 255));
  EXPECT_THAT(run({10, 100}, {1, 2}, 1, {Linear{.offset = -20}}), ElementsAre(0, 80));
}

TEST_F(ImageSteps, Colours) {
  const std::vector<uint8_t> red{0, 0, 255};
  EXPECT_THAT(run(red, {1, 1}, 3, {TurnHue{60}}), ElementsAre(0, 255, 0));   // green
  EXPECT_THAT(run(red, {1, 1}, 3, {TurnHue{-60}}), ElementsAre(255, 0, 0));  // blue: around
  EXPECT_THAT(run(red, {1, 1}, 3, {TurnHue{180}}), ElementsAre(0, 0, 255));
  EXPECT_THAT(run(red, {1, 1}, 3, {Saturate{0}}), ElementsAre(255, 255, 255));
  EXPECT_THAT(run({50, 50, 200}, {1, 1}, 3, {Saturate{0.5}}), ElementsAre(125, 125, 200));
  EXPECT_THAT(run({1, 2, 3}, {1, 1}, 3, {Permute{{2, 0, 1}}}), ElementsAre(3, 1, 2));
  expect_error([&] { run({1}, {1, 1}, 1, {TurnHue{1}}); }, {"hue needs colour", "1 channels"});
}

TEST_F(ImageSteps, BlurSpreadsAPoint) {
  std::vector<uint8_t> pixels(21 * 21);
  pixels[10 * 21 + 10] = 255;
  const auto out = run(pixels, {21, 21}, 1, {Blur{.sigma = 1}});
  EXPECT_NEAR(out[10 * 21 + 10], 255 * 0.159, 2);  // 1 / (2 pi sigma^2)
  EXPECT_NEAR(out[10 * 21 + 11], 255 * 0.0965, 2);
  EXPECT_EQ(out[10 * 21 + 11], out[9 * 21 + 10]);
}

TEST_F(ImageSteps, Filters) {
  EXPECT_THAT(run({0, 100, 255}, {1, 3}, 1, {Filter::invert}), ElementsAre(255, 155, 0));
  EXPECT_THAT(run({0, 63, 64, 255}, {1, 4}, 1, {Filter::posterize}), ElementsAre(32, 32, 96, 224));
  EXPECT_THAT(run({9, 5, 9}, {1, 3}, 1, {Filter::erode}), Each(5));
  EXPECT_THAT(run({0, 0, 255}, {1, 1}, 3, {Filter::gray}), ElementsAre(76, 76, 76));
  EXPECT_THAT(run({0, 0, 255}, {1, 1}, 3, {Filter::to_hsv}), ElementsAre(0, 255, 255));
  EXPECT_THAT(run({255, 255, 255}, {1, 1}, 3, {Filter::to_lab}), ElementsAre(255, 128, 128));
  EXPECT_THAT(run({10, 10, 20, 20}, {1, 4}, 1, {Filter::equalize}), ElementsAre(0, 0, 255, 255));
  EXPECT_THAT(run(std::vector<uint8_t>(8 * 8 * 3, 70), {8, 8}, 3, {Compress{90}}),
              Each(testing::AllOf(testing::Ge(68), testing::Le(72))));
  const auto salted = run(std::vector<uint8_t>(100 * 100), {100, 100}, 1,
                          {SaltPepper{.count = 500, .value = {255}, .seed = 3}});
  EXPECT_NEAR(std::count(salted.begin(), salted.end(), 255), 490, 20);  // some places come twice
}

TEST_F(ImageSteps, EqualizingLocallyRaisesTheContrastOfDarkParts) {
  // Gray levels 8 to 15 on the left, 200 to 207 on the right.
  std::vector<uint8_t> pixels(64 * 64);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>((i % 64 < 32 ? 8 : 200) + (i + i / 64) % 8);
  const auto out = run(pixels, {64, 64}, 1, {Filter::equalize_locally});
  const auto range = [&](const auto& image, size_t begin) {
    int least = 255, most = 0;
    for (size_t row = 16; row < 48; ++row) {
      for (size_t column = begin; column < begin + 16; ++column) {
        const int value = image[row * 64 + column];
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
    return most - least;
  };
  EXPECT_EQ(range(pixels, 4), 7);
  EXPECT_GT(range(out, 4), 14);
  EXPECT_GT(range(out, 44), 14);
  // Order stays, and the brightness of a colour image is what is equalised.
  EXPECT_LT(out[20 * 64 + 8], out[20 * 64 + 52]);
  std::vector<uint8_t> gray;
  for (const uint8_t value : pixels) gray.insert(gray.end(), 3, value);
  const auto colours = run(gray, {64, 64}, 3, {Filter::equalize_locally});
  EXPECT_NEAR(colours[3 * 2000], colours[3 * 2000 + 1], 2);
  EXPECT_NE(colours, std::vector<int>(gray.begin(), gray.end()));
}

TEST_F(ImageSteps, ExpandingPutsTheImageOnACanvasOfTheMeans) {
  const ImageWindow window{.top = -1, .left = -2, .height = 3, .width = 4};
  const auto out = run({1, 2, 3, 4, 5, 6}, {1, 2}, 3, {Pad{.window = window, .fill = {7, 8, 9}}});
  std::vector<int> expected;
  for (int pixel = 0; pixel < 12; ++pixel) {
    const bool first = pixel == 6, second = pixel == 7;  // row 1, columns 2 and 3
    for (int c = 0; c < 3; ++c) expected.push_back((first ? 1 : second ? 4 : 7) + c);
  }
  EXPECT_EQ(out, expected);
}

// OpenCV compresses 3 of 4 channels, and the fourth was read from behind the image.
TEST_F(ImageSteps, CompressRefusesOtherChannels) {
  for (const int channels : {2, 4}) {
    const std::vector<uint8_t> pixels(static_cast<size_t>(8 * 8 * channels), 70);
    expect_error(
        [&] {
          run(pixels, {8, 8}, channels, {Compress{90}});
        },
        {"1 or 3 channels", text("has ", channels)});
  }
}

TEST_F(ImageSteps, PlanesAndPartsWork) {
  const std::vector<uint8_t> planes{1, 2, 3, 4, 5, 6};  // 3 channels of 1 x 2
  const Image image{.channels = 3, .height = 1, .width = 2, .bytes = planes.data()};
  const Image out = editor_.apply(image, {.height = 1, .width = 2}, {Permute{{2, 1, 0}}});
  EXPECT_THAT(std::vector<int>(out.bytes, out.bytes + 6), ElementsAre(5, 3, 1, 6, 4, 2));
  // A part of an image whose pixels begin at (4, 10).
  const std::vector<uint8_t> part{1, 2, 3, 4, 5, 6};
  const Image piece{.channels = 1,
                    .height = 2,
                    .width = 3,
                    .top = 4,
                    .left = 10,
                    .interleaved = true,
                    .bytes = part.data()};
  const Image cut = editor_.apply(piece, {.top = 5, .left = 11, .height = 1, .width = 2}, {});
  EXPECT_THAT(std::vector<int>(cut.bytes, cut.bytes + 2), ElementsAre(5, 6));
}

TEST(DecodePlan, CutsAreDecodedAloneAndResizesBegunByTheDecoder) {
  const ImageSize size{.height = 1000, .width = 2000};
  std::vector<ImageStep> steps{Cut{{.top = 101, .left = 51, .height = 899, .width = 1801}},
                               Resize{{100, 200}}};
  DecodePlan plan = plan_decoding(size, true, steps);
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_EQ(plan.eighths, 2);  // 224 x 450: two pixels or more for each one of the result
  EXPECT_EQ(plan.window.top, 25);
  EXPECT_EQ(plan.window.left, 13);
  EXPECT_EQ(plan.window.top + plan.window.height, 250);
  EXPECT_EQ(plan.window.width, 450);

  steps = {Resize{{400, 400}}};
  plan = plan_decoding(size, true, steps);
  EXPECT_EQ(plan.eighths, 8);
  steps = {Resize{{125, 125}}};
  EXPECT_EQ(plan_decoding(size, true, steps).eighths, 2);
  EXPECT_EQ(plan_decoding(size, false, steps).eighths, 8);
  steps = {Resize{{125, 125}, Interpolation::nearest}};
  EXPECT_EQ(plan_decoding(size, true, steps).eighths, 8);
  steps = {Blur{}, Resize{{10, 10}}};
  EXPECT_EQ(plan_decoding(size, true, steps).eighths, 8);
}

}  // namespace
}  // namespace crema
