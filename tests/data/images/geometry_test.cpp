// Boxes and label maps follow the pixels of a sample.
#include "data/images/geometry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "data/images/image_steps.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

void expect_box(const Box& box, const Box& expected) {
  EXPECT_NEAR(box.left, expected.left, 1e-9);
  EXPECT_NEAR(box.top, expected.top, 1e-9);
  EXPECT_NEAR(box.right, expected.right, 1e-9);
  EXPECT_NEAR(box.bottom, expected.bottom, 1e-9);
}

TEST(Geometry, BoxesFollowEachStep) {
  const Box box{10, 20, 30, 60};
  Geometry resized({.height = 100, .width = 200});
  resized.resize({.height = 50, .width = 400});
  expect_box(resized.apply(box), {20, 10, 60, 30});

  Geometry cut({.height = 100, .width = 200});
  cut.cut({.top = 15, .left = 12, .height = 40, .width = 50});
  expect_box(cut.apply(box), {-2, 5, 18, 45});
  EXPECT_EQ(cut.sample_size().height, 40);
  expect_box(*clipped(cut.apply(box), cut.sample_size()), {0, 5, 18, 40});

  Geometry mirrored({.height = 100, .width = 200});
  mirrored.mirror();
  expect_box(mirrored.apply(box), {170, 20, 190, 60});

  Geometry turned({.height = 100, .width = 100});
  turned.rotate(90);  // counter-clockwise: the right edge comes to the top
  expect_box(turned.apply(box), {20, 70, 60, 90});
}

TEST(Geometry, StepsFollowEachOther) {
  Geometry geometry({.height = 100, .width = 200});
  geometry.resize({.height = 50, .width = 100});
  geometry.cut({.top = 10, .left = 20, .height = 30, .width = 40});
  geometry.mirror();
  expect_box(geometry.apply(Box{60, 40, 80, 60}), {20, 10, 30, 20});
}

TEST(Geometry, BoxesStayByTheirCentreOrTheirShare) {
  const ImageSize sample{.height = 10, .width = 10};
  EXPECT_TRUE(stays({-4, 0, 5, 10}, sample, std::nullopt));   // its centre is at 0.5
  EXPECT_FALSE(stays({-6, 0, 5, 10}, sample, std::nullopt));  // at -0.5
  EXPECT_TRUE(stays({-6, 0, 5, 10}, sample, 0));
  EXPECT_FALSE(stays({-6, 0, 0, 10}, sample, 0));  // beside it
  EXPECT_TRUE(stays({-5, 0, 5, 10}, sample, 0.5));
  EXPECT_FALSE(stays({-5, 0, 5, 10}, sample, 0.51));
  EXPECT_FALSE(clipped({10, 0, 12, 5}, sample));
}

TEST(Geometry, LabelMapsFollow) {
  const std::vector<uint8_t> labels{1, 2, 3, 4, 5, 6};  // 2 x 3
  Geometry geometry({.height = 2, .width = 3});
  geometry.mirror();
  geometry.cut({.top = -1, .left = 1, .height = 3, .width = 3});
  std::vector<uint8_t> out(9);
  geometry.apply(labels.data(), uint8_t{255}, out.data());
  EXPECT_THAT(out, ElementsAre(255, 255, 255, 2, 1, 255, 5, 4, 255));

  Geometry doubled({.height = 2, .width = 3});
  doubled.resize({.height = 4, .width = 6});
  std::vector<uint8_t> large(24);
  doubled.apply(labels.data(), uint8_t{255}, large.data());
  EXPECT_EQ(large, (std::vector<uint8_t>{1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3,  //
                                         4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 6, 6}));
}

/// A white rectangle on black goes where its box and its mask go.
TEST(Geometry, PixelsBoxesAndMasksGoTheSameWay) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  constexpr int64_t kHeight = 80, kWidth = 120;
  const Box box{40, 30, 70, 50};
  std::vector<uint8_t> pixels(kHeight * kWidth);
  for (int64_t h = 30; h < 50; ++h)
    for (int64_t w = 40; w < 70; ++w) pixels[static_cast<size_t>(h * kWidth + w)] = 255;
  const std::vector<ImageStep> steps{
      Pad{.window = {.top = -5, .left = -7, .height = 100, .width = 140}},
      Resize{.size = {.height = 150, .width = 70}},
      Cut{.window = {.top = 11, .left = 3, .height = 120, .width = 60}}, Rotate{.degrees = 30}};
  Geometry geometry({.height = kHeight, .width = kWidth});
  for (const ImageStep& step : steps) apply(step, geometry);

  ImageEditor editor;
  const Image image =
      editor.apply({.channels = 1, .height = kHeight, .width = kWidth, .bytes = pixels.data()},
                   {.height = kHeight, .width = kWidth}, steps);
  ASSERT_EQ(image.height, geometry.sample_size().height);
  ASSERT_EQ(image.width, geometry.sample_size().width);
  std::vector<uint8_t> mask(static_cast<size_t>(image.count()));
  geometry.apply(pixels.data(), uint8_t{0}, mask.data());

  const Box where = geometry.apply(box);
  int64_t white = 0, differ = 0;
  Box seen{1e9, 1e9, -1e9, -1e9};
  for (int64_t i = 0; i < image.count(); ++i) {
    const bool on = image.bytes[i] > 127;
    white += on;
    differ += on != (mask[static_cast<size_t>(i)] > 0);
    if (!on) continue;
    const auto x = static_cast<double>(i % image.width), y = static_cast<double>(i / image.width);
    seen = {std::min(seen.left, x), std::min(seen.top, y), std::max(seen.right, x + 1),
            std::max(seen.bottom, y + 1)};
  }
  EXPECT_GT(white, 300);
  EXPECT_LT(differ, white / 12);  // the edges, half a pixel
  EXPECT_NEAR(seen.left, where.left, 1.5);
  EXPECT_NEAR(seen.top, where.top, 1.5);
  EXPECT_NEAR(seen.right, where.right, 1.5);
  EXPECT_NEAR(seen.bottom, where.bottom, 1.5);
}

}  // namespace
}  // namespace crema
