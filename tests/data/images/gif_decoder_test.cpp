// GIF files: the first picture, on the background of its screen.
#include "data/images/gif_decoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/converters/converters.hpp"
#include "data/images/image_decoder.hpp"
#include "proto/datum.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::gif_file;
using testing::ElementsAre;

std::vector<int> values_of(const Image& image) {
  std::vector<int> values;
  for (int64_t i = 0; i < image.count(); ++i) values.push_back(image.bytes[i]);
  return values;
}

/// Red, green, blue, white.
const std::string kPalette("\xff\0\0\0\xff\0\0\0\xff\xff\xff\xff", 12);

class Gif : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLibgif) GTEST_SKIP() << "needs giflib: configure with CREMA_LIBGIF=ON";
  }
  ImageDecoder decoder_;
};

TEST_F(Gif, ColoursAreThoseOfThePalette) {
  const std::string file = gif_file({0, 1, 2, 3}, 2, 2, {.palette = kPalette});
  EXPECT_THAT(values_of(decoder_.open(file, ColorMode::as_stored)),
              ElementsAre(0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 255));
  EXPECT_THAT(values_of(decoder_.open(file, ColorMode::gray)), ElementsAre(76, 149, 29, 255));
  EXPECT_EQ(decoder_.whole().shape(), (Shape{1, 2, 2}));
}

TEST_F(Gif, RowsOfInterlacedFilesAreInOrder) {
  std::vector<uint8_t> indices;
  std::string palette;
  for (int i = 0; i < 256; ++i) palette += std::string(3, static_cast<char>(i));
  for (int i = 0; i < 19 * 13; ++i) indices.push_back(static_cast<uint8_t>(i));
  const std::vector<int> expected(indices.begin(), indices.end());
  for (const bool interlaced : {false, true}) {
    const std::string file =
        gif_file(indices, 19, 13, {.palette = palette, .interlaced = interlaced});
    EXPECT_EQ(values_of(decoder_.open(file, ColorMode::gray)), expected) << interlaced;
  }
}

TEST_F(Gif, ThePictureLiesOnTheBackground) {
  const std::string file = gif_file({0, 3}, 1, 2,
                                    {.palette = kPalette,
                                     .background = 2,
                                     .transparent = 3,
                                     .top = 1,
                                     .left = 1,
                                     .screen_height = 2,
                                     .screen_width = 3});
  const Image image = decoder_.open(file, ColorMode::color);
  EXPECT_EQ(image.shape(), (Shape{3, 2, 3}));
  // Blue all around, and where the picture is transparent.
  EXPECT_THAT(values_of(image), ElementsAre(255, 0, 0, 255, 0, 0, 255, 0, 0,  //
                                            255, 0, 0, 0, 0, 255, 255, 0, 0));
}

TEST_F(Gif, DamagedFilesAreErrors) {
  const std::string good =
      gif_file(std::vector<uint8_t>(400, 1), 20, 20, {.palette = kPalette, .transparent = 3});
  testing::internal::CaptureStderr();
  for (const size_t size : {8u, 100u, 790u, 800u, 830u}) {
    expect_error([&] { decoder_.open(good.substr(0, size), ColorMode::color); }, {"damaged ("});
  }
  expect_error([&] { decoder_.open(good.substr(0, 13 + 768) + ";", ColorMode::color); },
               {"no picture"});
  Random random(3, 1);
  for (int n = 0; n < 2000; ++n) {
    std::string damaged = good;
    for (int k = 0; k < 3; ++k) {
      const size_t at = 6 + random.below(damaged.size() - 6);
      if (at < 13 || at > 780) damaged[at] ^= static_cast<char>(1u << random.below(8));
    }
    try {
      decoder_.open(damaged, ColorMode::color);
    } catch (const Error&) {
      // It is damaged.
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The first two frames of an animation differ; the first is taken.
TEST_F(Gif, TheFirstPictureOfSeveralCounts) {
  const std::string first = gif_file({0}, 1, 1, {.palette = kPalette});
  const std::string second = gif_file({1}, 1, 1, {.palette = kPalette});
  const std::string both = first.substr(0, first.size() - 1) + second.substr(13 + 768);
  EXPECT_THAT(values_of(decoder_.open(both, ColorMode::color)), ElementsAre(0, 0, 255));
}

// As collections of images from the web have them.
TEST_F(Gif, FilesAreReadByWhatTheyHoldNotByTheirName) {
  const test::ScratchFolder folder;
  const std::string gif = gif_file({0, 1}, 1, 2, {.palette = kPalette});
  folder.write("a.gif", gif);
  folder.write("b.jpg", gif);
  ConvertImagesetOptions options{.root = folder.path().string(),
                                 .list = folder.write("list.txt", "a.gif 0\nb.jpg 1\n"),
                                 .output = folder / "db"};
  EXPECT_EQ(convert_imageset(options).written, 2);
  for (const auto& [key, value] : test::read_database(options.output)) {
    Datum datum;
    datum.ParseFromString(value);
    EXPECT_EQ(datum.data(), std::string("\0\0\0\xff\xff\0", 6)) << key;
  }
  if (!test::kBuiltWithOpenCv) return;
  // Programs that read databases have no GIF.
  options.encoded = options.overwrite = true;
  EXPECT_EQ(convert_imageset(options).written, 2);
  for (const auto& [key, value] : test::read_database(options.output)) {
    Datum datum;
    datum.ParseFromString(value);
    EXPECT_EQ(datum.data().substr(1, 3), "PNG") << key;
  }
}

}  // namespace
}  // namespace crema
