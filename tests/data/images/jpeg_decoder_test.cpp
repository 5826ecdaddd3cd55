// libjpeg-turbo's pixels are OpenCV's, whatever part of a file is decoded.
#include "data/images/jpeg_decoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_steps.hpp"
#include "data/records/datum.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

using test::jpeg_file;
using test::JpegKind;
using test::picture;

class JpegDecoding : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLibjpeg || !test::kBuiltWithOpenCv)
      GTEST_SKIP()
          << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  }

  /// Whether each pixel of the window is OpenCV's. 0: all are.
  int64_t differences(const std::string& file, ColorMode mode, const ImageWindow& window) {
    const Image whole = codec_.decode(file, mode);
    const auto header = decoder_.open(file, mode);
    if (!header || header->shape() != whole.shape()) return -1;
    const auto part = decoder_.pixels(window);
    if (!part) return -2;
    int64_t count = 0;
    for (int64_t h = window.top; h < window.top + window.height; ++h) {
      for (int64_t w = window.left; w < window.left + window.width; ++w) {
        for (int64_t c = 0; c < whole.channels; ++c) {
          const int64_t mine =
              ((h - part->top) * part->width + w - part->left) * part->channels + c;
          count += part->bytes[mine] != whole.bytes[(h * whole.width + w) * whole.channels + c];
        }
      }
    }
    return count;
  }

  /// A record of the file, by a decoder that remains until the next one.
  Image decode(const std::string& file, ImageSize size = {}) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(file);
    record_ = datum.SerializeAsString();
    records_ = std::make_unique<DatumDecoder>(ColorMode::color, size);
    return records_->decode({.key = "k", .value = record_});
  }

  ImageCodec codec_;
  JpegDecoder decoder_;
  std::string record_;
  std::unique_ptr<DatumDecoder> records_;
};

TEST_F(JpegDecoding, WholePhotosAreOpenCvs) {
  const auto folder = test::shared_path("data/images");
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  for (const char* name : {"cat.jpg", "cat_gray.jpg", "fish-bike.jpg"}) {
    const std::string file = test::read_file((folder / name).string());
    for (const ColorMode mode : {ColorMode::as_stored, ColorMode::color, ColorMode::gray}) {
      const Image image = codec_.decode(file, mode);
      EXPECT_EQ(differences(file, mode, {.height = image.height, .width = image.width}), 0) << name;
      EXPECT_EQ(differences(file, mode, {.top = 33, .left = 50, .height = 227, .width = 227}), 0)
          << name;
    }
  }
}

TEST_F(JpegDecoding, EveryPartIsThatOfTheWhole) {
  constexpr int kHeight = 75, kWidth = 93;
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
    for (const bool progressive : {false, true}) {
      const std::string file =
          jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth,
                    {.across = across, .down = down, .progressive = progressive, .restart = 3});
      for (int at = 0; at < 48; ++at) {
        const ImageWindow window{
            .top = at, .left = (at * 7) % 45, .height = 1 + at % 27, .width = 1 + (at * 5) % 48};
        ASSERT_EQ(differences(file, ColorMode::color, window), 0)
            << across << " x " << down << ", progressive " << progressive << ", at " << at;
      }
      EXPECT_EQ(
          differences(file, ColorMode::gray, {.top = 20, .left = 31, .height = 40, .width = 40}),
          0);
    }
  }
}

TEST_F(JpegDecoding, ScalingIsThatOfLibjpegAndAverages) {
  const std::string file = jpeg_file(std::vector<uint8_t>(81 * 99 * 3, 77), 81, 99);
  for (const int eighths : {1, 2, 4}) {
    ASSERT_TRUE(decoder_.open(file, ColorMode::color));
    const int64_t height = (81 * eighths + 7) / 8, width = (99 * eighths + 7) / 8;
    const auto image = decoder_.pixels({.height = height, .width = width}, eighths);
    ASSERT_TRUE(image);
    EXPECT_EQ(image->height, height);
    EXPECT_EQ(image->width, width);
    for (int64_t i = 0; i < image->count(); ++i) ASSERT_NEAR(image->bytes[i], 77, 1);
  }
  // A fine checkerboard becomes gray, and not black or white.
  std::vector<uint8_t> board(64 * 64);
  for (size_t i = 0; i < board.size(); ++i) board[i] = (i + i / 64) % 2 ? 255 : 0;
  const std::string fine = jpeg_file(board, 64, 64, {.channels = 1, .quality = 100});
  ASSERT_TRUE(decoder_.open(fine, ColorMode::gray));
  const auto image = decoder_.pixels({.height = 16, .width = 16}, 2);
  ASSERT_TRUE(image);
  for (int64_t i = 0; i < image->count(); ++i) ASSERT_NEAR(image->bytes[i], 127, 3);
}

TEST_F(JpegDecoding, FilesOfOtherKindsAreLeftToOpenCv) {
  const auto pixels = picture(40, 50, 3);
  EXPECT_FALSE(decoder_.open("", ColorMode::color));
  EXPECT_FALSE(decoder_.open(test::ppm(1, 1, "abc"), ColorMode::color));
  EXPECT_FALSE(
      decoder_.open(jpeg_file(picture(40, 50, 4), 40, 50, {.channels = 4}), ColorMode::color));
  EXPECT_TRUE(decoder_.open(jpeg_file(pixels, 40, 50, {.orientation = 1}), ColorMode::color));
  const std::string turned = jpeg_file(pixels, 40, 50, {.orientation = 6});
  EXPECT_TRUE(decoder_.open(turned, ColorMode::color));
  EXPECT_TRUE(decoder_.open(turned, ColorMode::as_stored));
  const std::string file = jpeg_file(pixels, 40, 50);
  EXPECT_FALSE(decoder_.open(file.substr(0, file.size() / 2), ColorMode::color));
}

TEST_F(JpegDecoding, DataThatEndEarlyAreAnError) {
  std::string file = jpeg_file(picture(120, 160, 3), 120, 160);
  const size_t middle = file.size() / 2;  // where the data end early
  file[middle] = '\xff';
  file[middle + 1] = '\xd9';
  ASSERT_TRUE(decoder_.open(file, ColorMode::color));
  expect_error([&] { decoder_.pixels({.height = 120, .width = 160}); },
               {"damaged", "premature end of data"});
  EXPECT_FALSE(decoder_.pixels({.height = 120, .width = 160})) << "without a file";
  ASSERT_TRUE(decoder_.open(file, ColorMode::color));
  expect_error([&] { decoder_.pixels({.height = 20, .width = 160}); }, {"damaged"});
}

TEST_F(JpegDecoding, DamageIsSaidWhereverItLies) {
  for (const bool progressive : {false, true}) {
    for (const int channels : {1, 3, 4}) {
      const std::string file = jpeg_file(picture(120, 160, channels), 120, 160,
                                         {.channels = channels, .progressive = progressive});
      EXPECT_NO_THROW(decoder_.check(file)) << channels;
      for (const size_t eighth : {3, 4, 5, 6, 7}) {
        if (progressive && eighth > 5) continue;  // zeros can be code words of the last scans
        std::string damaged = file;
        damaged.replace(file.size() / 8 * eighth - 50, 200, 200, '\0');
        EXPECT_THROW(decoder_.check(damaged), Error)
            << channels << " channels, " << eighth << (progressive ? ", progressive" : "");
      }
    }
  }
  const std::string turned = jpeg_file(picture(40, 50, 3), 40, 50, {.orientation = 6});
  EXPECT_NO_THROW(decoder_.check(turned));
  EXPECT_NO_THROW(decoder_.check(turned.substr(0, turned.size() - 2))) << "lacks its end marker";
  EXPECT_NO_THROW(decoder_.check("no JPEG"));
  EXPECT_NO_THROW(decoder_.check(""));
  expect_error([&] { decoder_.check(turned.substr(0, turned.size() / 2)); }, {"cut off"});
  ASSERT_TRUE(decoder_.open(turned, ColorMode::as_stored)) << "the decoder goes on";
  EXPECT_TRUE(decoder_.pixels({.height = 50, .width = 40}));
}

TEST_F(JpegDecoding, OdditiesThatChangeNoPixelAreNoDamage) {
  const std::string file = jpeg_file(picture(40, 50, 3), 40, 50);
  const size_t jfif = file.find("JFIF");
  ASSERT_NE(jfif, std::string::npos);
  std::string revision = file;
  revision[jfif + 5] = 9;         // JFIF 9.1
  std::string extraneous = file;  // bytes between the data and the end marker
  extraneous.insert(file.size() - 2, std::string(7, '\x55'));
  std::string between = file;  // and between two markers
  between.insert(file.find("\xff\xdb"), std::string(5, '\x55'));
  std::string adobe = file;
  adobe.insert(2, std::string("\xff\xee\0\x0e"
                              "Adobe\0\x64\0\0\0\0\x07",
                              16));
  const std::string turned = jpeg_file(picture(50, 40, 3), 50, 40, {.orientation = 6});
  std::string odd_turned = turned;
  odd_turned.insert(turned.size() - 2, std::string(7, '\x55'));
  const ImageWindow whole{.height = 40, .width = 50};
  for (const std::string& odd : {revision, extraneous, between, adobe}) {
    EXPECT_EQ(differences(odd, ColorMode::color, whole), 0);
    EXPECT_NO_THROW(decoder_.check(odd));
    EXPECT_NO_THROW(decode(odd));
  }
  EXPECT_NO_THROW(decode(odd_turned));
}

TEST_F(JpegDecoding, DamagedRecordsAreErrorsByEveryWayOfDecoding) {
  for (const JpegKind& kind : {JpegKind{}, {.progressive = true}, {.orientation = 6}}) {
    std::string file = jpeg_file(picture(120, 160, 3), 120, 160, kind);
    EXPECT_NO_THROW(decode(file));
    file.replace(file.size() / 2, 100, 100, '\0');
    testing::internal::CaptureStderr();
    expect_error([&] { decode(file); }, {"record 'k'", "damaged (Corrupt JPEG data"});
    expect_error([&] { decode(file, {.height = 50, .width = 50}); }, {"record 'k'", "damaged ("});
    const std::string no_end = file.substr(0, file.size() - 2);
    expect_error([&] { decode(no_end); }, {"record 'k'", "cut off (Corrupt JPEG data"});
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

TEST_F(JpegDecoding, ResizedFilesAreDecodedAtAFractionOfTheirSize) {
  const std::string file = jpeg_file(picture(800, 640, 3), 800, 640);
  const Image small = decode(file, {.height = 100, .width = 80});
  ASSERT_EQ(small.shape(), (Shape{3, 100, 80}));
  // Each pixel is the average of 8 x 8.
  double worst = 0, sum = 0;
  int64_t differing = 0;
  ImageEditor editor;
  const Image averaged =
      editor.apply(codec_.decode(file, ColorMode::color), {.height = 800, .width = 640},
                   {Resize{.size = {.height = 100, .width = 80}}});
  const std::vector<uint8_t> expected(averaged.bytes, averaged.bytes + averaged.count());
  for (int64_t i = 0; i < small.count(); ++i) {
    const double difference = std::abs(int{small.bytes[i]} - int{expected[static_cast<size_t>(i)]});
    worst = std::max(worst, difference);
    sum += difference;
    differing += difference > 0;
  }
  // A part of the frequencies is left out, which is nearly the same.
  EXPECT_LE(worst, 24);
  EXPECT_LE(sum / static_cast<double>(small.count()), 2);
  EXPECT_GT(differing, 0) << "decoded whole";
}

// OpenCV would be asked, and print what libjpeg says.
TEST_F(JpegDecoding, WhatLibjpegCannotReadIsInTheMessage) {
  const std::string file = jpeg_file(picture(40, 50, 3), 40, 50);
  std::string twelve_bits = file;
  twelve_bits[file.find("\xff\xc0") + 4] = 12;
  std::string no_table = file;
  no_table[file.find("\xff\xdb") + 1] = '\xfe';  // a comment in its place
  testing::internal::CaptureStderr();
  expect_error([&] { decode(twelve_bits); }, {"record 'k'", "data precision 12"});
  expect_error([&] { decode(no_table); }, {"record 'k'", "Quantization table"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(JpegDecoding, NoDamageCrashes) {
  const std::string file = jpeg_file(picture(64, 64, 3), 64, 64, {.progressive = true});
  Random random(3, 1);
  int refused = 0;
  for (int n = 0; n < 2000; ++n) {
    std::string damaged = file;
    for (int k = 0; k < 3; ++k)
      damaged[random.below(damaged.size())] ^= static_cast<char>(1u << random.below(8));
    if (n % 3 == 0) damaged.resize(random.below(damaged.size()));
    const auto header = decoder_.open(damaged, ColorMode::color);
    // A file may claim a size that takes long to decode, and is none of this test's.
    if (!header || header->count() >= 1'000'000) continue;
    try {
      decoder_.pixels({.height = 1, .width = 1});
      decoder_.check(damaged);
    } catch (const Error&) {
      ++refused;
    }
  }
  // Other damage is in tables and coefficients, and changes pixels.
  EXPECT_GT(refused, 0);
  EXPECT_EQ(differences(file, ColorMode::color, {.height = 64, .width = 64}), 0)
      << "something stayed behind";
}

TEST_F(JpegDecoding, RecordsThatAreTurnedOrCutOffAreReadAsEver) {
  const auto pixels = picture(40, 50, 3);
  EXPECT_EQ(decode(jpeg_file(pixels, 40, 50)).shape(), (Shape{3, 40, 50}));
  EXPECT_EQ(decode(jpeg_file(pixels, 40, 50, {.orientation = 6})).shape(), (Shape{3, 50, 40}));
  const std::string file = jpeg_file(pixels, 40, 50);
  EXPECT_EQ(decode(file.substr(0, file.size() - 2)).shape(), (Shape{3, 40, 50}))
      << "lacks its end marker";
  expect_error([&] { decode(file.substr(0, file.size() / 2)); }, {"record 'k'", "cut off"});
}

}  // namespace
}  // namespace crema
