#include "data/transform/transform.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "crema/random.hpp"
#include "proto/blob.pb.h"
#include "proto/common.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TransformationParameter settings(const std::string& text) {
  TransformationParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  return param;
}

Transform transform(const std::string& text, Phase phase = Phase::train) {
  return Transform(settings(text), phase);
}

std::vector<uint8_t> counting(int64_t count) {
  std::vector<uint8_t> pixels(static_cast<size_t>(count));
  std::iota(pixels.begin(), pixels.end(), uint8_t{0});
  return pixels;
}

Image planar(const std::vector<uint8_t>& pixels, int64_t channels, int64_t height, int64_t width) {
  return {.channels = channels, .height = height, .width = width, .bytes = pixels.data()};
}

/// Both steps for one sample.
template <class T = float>
std::vector<T> run(const Transform& transform, const Image& image, const Placement& placement) {
  const Shape shape = transform.output_shape(image);
  std::vector<uint8_t> stored(static_cast<size_t>(shape.count()));
  transform.cut(image, placement, stored.data());
  std::vector<T> out(stored.size());
  transform.convert(stored.data(), shape, placement, out.data());
  return out;
}

TEST(Transform, SubtractsTheMeanBeforeScaling) {
  const auto pixels = counting(4);
  EXPECT_THAT(run(transform("scale: 0.5 mean_value: 3"), planar(pixels, 1, 2, 2), {}),
              ElementsAre(-1.5f, -1.0f, -0.5f, 0.0f));
}

TEST(Transform, DefaultsChangeNothing) {
  const auto pixels = counting(4);
  EXPECT_THAT(run(transform(""), planar(pixels, 1, 2, 2), {}), ElementsAre(0, 1, 2, 3));
}

TEST(Transform, MeanValuesAreOnePerChannel) {
  const auto pixels = counting(6);
  EXPECT_THAT(
      run(transform("mean_value: 1 mean_value: 10 mean_value: 100"), planar(pixels, 3, 1, 2), {}),
      ElementsAre(-1, 0, -8, -7, -96, -95));
  EXPECT_THAT(run(transform("mean_value: 1"), planar(pixels, 3, 1, 2), {}),
              ElementsAre(-1, 0, 1, 2, 3, 4));
}

TEST(Transform, CropTakesTheRowsAndColumnsOfItsPlacement) {
  const auto pixels = counting(2 * 3 * 4);
  const auto t = transform("crop_size: 2");
  EXPECT_THAT(run(t, planar(pixels, 2, 3, 4), {.top = 1, .left = 2}),
              ElementsAre(6, 7, 10, 11, 18, 19, 22, 23));
}

TEST(Transform, MirrorTurnsEveryRow) {
  const auto pixels = counting(2 * 3 * 4);
  EXPECT_THAT(run(transform("mirror: true"), planar(pixels, 2, 3, 4), {.mirrored = true}),
              ElementsAre(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 19, 18, 17, 16, 23,
                          22, 21, 20));
  EXPECT_THAT(run(transform("mirror: true crop_size: 2"), planar(pixels, 2, 3, 4),
                  {.top = 1, .left = 2, .mirrored = true}),
              ElementsAre(7, 6, 11, 10, 19, 18, 23, 22));
}

TEST(Transform, InterleavedPixelsBecomePlanes) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const auto pixels = counting(channels * 3 * 4);
    std::vector<uint8_t> interleaved(pixels.size());
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < 12; ++i) {
        interleaved[static_cast<size_t>(i * channels + c)] =
            pixels[static_cast<size_t>(c * 12 + i)];
      }
    }
    Image image = planar(interleaved, channels, 3, 4);
    image.interleaved = true;
    for (const bool mirrored : {false, true}) {
      for (const char* text : {"mirror: true", "mirror: true crop_size: 2"}) {
        const auto t = transform(text);
        const Placement placement{
            .top = text[12] ? 1 : 0, .left = text[12] ? 1 : 0, .mirrored = mirrored};
        EXPECT_EQ(run(t, image, placement), run(t, planar(pixels, channels, 3, 4), placement))
            << channels << " channels, " << text;
      }
    }
  }
}

TEST(Transform, FloatRecordsAndDoubleNets) {
  const std::vector<float> values{0.25f, -1.5f};
  const Image image{.channels = 2, .height = 1, .width = 1, .floats = values.data()};
  const auto t = transform("scale: 2 mean_value: 0.25");
  std::vector<float> stored(2);
  t.cut(image, {}, stored.data());
  std::vector<double> out(2);
  t.convert(stored.data(), t.output_shape(image), {}, out.data());
  EXPECT_THAT(out, ElementsAre(0.0, -3.5));
}

class MeanFile : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    BlobProto blob;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &blob)) << text;
    return scratch_.write("mean.binaryproto", blob.SerializeAsString());
  }
  /// A mean image 1x1x2x3 of 0, 10, ... 50.
  std::string write_mean() {
    return write(
        "num: 1 channels: 1 height: 2 width: 3 data: 0 data: 10 data: 20 data: 30 data: 40 data: "
        "50");
  }
  Transform with(const std::string& path, const std::string& more = "") {
    return transform("mean_file: '" + path + "' " + more);
  }
  test::ScratchFolder scratch_;
};

TEST_F(MeanFile, IsCroppedAndMirroredWithTheRecord) {
  const auto path = write_mean();
  const std::vector<uint8_t> pixels{100, 100, 100, 200, 200, 200};
  const Image image = planar(pixels, 1, 2, 3);
  EXPECT_THAT(run(with(path), image, {}), ElementsAre(100, 90, 80, 170, 160, 150));
  EXPECT_THAT(run(with(path), image, {.mirrored = true}), ElementsAre(80, 90, 100, 150, 160, 170));
  EXPECT_THAT(run(with(path, "crop_size: 2"), image, {.left = 1}), ElementsAre(90, 80, 160, 150));
  EXPECT_THAT(run(with(path, "crop_size: 2 scale: 0.5"), image, {.left = 1, .mirrored = true}),
              ElementsAre(40, 45, 75, 80));
}

TEST_F(MeanFile, MayHaveTheNewShapeAndDoubles) {
  const std::vector<uint8_t> pixels{5, 6};
  const auto path = write("shape { dim: 1 dim: 1 dim: 2 } double_data: 1 double_data: 2");
  EXPECT_THAT(run(with(path), planar(pixels, 1, 1, 2), {}), ElementsAre(4, 4));
}

TEST_F(MeanFile, OfAnotherSizeIsAnError) {
  const auto t = with(write_mean());
  const auto pixels = counting(12);
  expect_error([&] { t.output_shape(planar(pixels, 1, 3, 4)); },
               {"is of 1x2x3", "the record of 1x3x4", "mean image of this database"});
}

TEST_F(MeanFile, DamagedOrMissingIsAnError) {
  expect_error([&] { with("no/such.binaryproto"); },
               {"cannot open mean_file 'no/such.binaryproto'"});
  expect_error([&] { with(scratch_.write("m", "no proto")); },
               {"is no BlobProto", "or mean_value"});
  expect_error([&] { with(write("num: 2 channels: 1 height: 1 width: 1 data: 1 data: 2")); },
               {"2x1x1x1", "not one image"});
  expect_error([&] { with(write("num: 1 channels: 1 height: 2 width: 2 data: 1")); },
               {"needs 4 values and it holds 1"});
}

TEST(TransformSettings, ContradictionsAreErrors) {
  expect_error([] { transform("mean_file: 'm' mean_value: 1"); },
               {"both mean_file and mean_value"});
  const auto pixels = counting(3);
  expect_error(
      [&] { transform("mean_value: 1 mean_value: 2").output_shape(planar(pixels, 3, 1, 1)); },
      {"2 mean_value for 3 channels"});
}

TEST(TransformSettings, ForkFieldsThatWouldDoNothingAreErrors) {
  expect_error([] { transform("flow: true"); }, {"transform_param { flow }", "not implemented"});
  EXPECT_NO_THROW(transform("flow: false"));
}

TEST(TransformCrop, AsLargeAsTheRecordWorks) {
  const std::vector<uint8_t> pixels(227 * 227);
  const auto t = transform("crop_size: 227");
  const Image image = planar(pixels, 1, 227, 227);
  EXPECT_EQ(t.output_shape(image), (Shape{1, 227, 227}));
  const Placement placement = t.place(image, Random(1, 2, 3));
  EXPECT_EQ(placement.top, 0);
  EXPECT_EQ(placement.left, 0);
  expect_error([&] { transform("crop_size: 228").output_shape(image); },
               {"crop_size 228", "227 x 227"});
}

TEST(TransformCrop, IsCentredInTest) {
  const std::vector<uint8_t> pixels(5 * 8);
  const auto t = transform("crop_size: 2", Phase::test);
  const Placement placement = t.place(planar(pixels, 1, 5, 8), Random(1, 2, 3));
  EXPECT_EQ(placement.top, 1);  // (5 - 2) / 2, rounded down
  EXPECT_EQ(placement.left, 3);
}

TEST(TransformCrop, TakesEveryPlaceInTrain) {
  const std::vector<uint8_t> pixels(4 * 5);
  const Image image = planar(pixels, 1, 4, 5);
  const auto t = transform("crop_size: 3");
  std::map<std::pair<int, int>, int> seen;
  for (uint64_t n = 0; n < 600; ++n) {
    const Placement placement = t.place(image, Random(1, 2, n));
    ++seen[{placement.top, placement.left}];
  }
  ASSERT_EQ(seen.size(), 6u);  // 2 rows, 3 columns
  for (const auto& [place, times] : seen) EXPECT_NEAR(times, 100, 40);
}

TEST(TransformMirror, TurnsHalfOfTheSamplesInEitherPhase) {
  const std::vector<uint8_t> pixels(4);
  const Image image = planar(pixels, 1, 2, 2);
  for (const Phase phase : {Phase::train, Phase::test}) {
    const auto t = transform("mirror: true", phase);
    int turned = 0;
    for (uint64_t n = 0; n < 1000; ++n) turned += t.place(image, Random(1, 2, n)).mirrored;
    EXPECT_NEAR(turned, 500, 80);
    EXPECT_FALSE(transform("", phase).place(image, Random(1, 2, 3)).mirrored);
  }
}

}  // namespace
}  // namespace crema
