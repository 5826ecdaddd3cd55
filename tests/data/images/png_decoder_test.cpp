// The pixels of PNG files are those that OpenCV decodes; damaged ones are errors, and nothing is
// printed.
#include "data/images/png_decoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_decoder.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::png_file;
using test::PngKind;
using testing::ElementsAre;

constexpr int kHeight = 13, kWidth = 21;

std::vector<uint16_t> random_samples(int count, int depth, uint64_t seed = 3) {
  Random random(seed, 1);
  std::vector<uint16_t> samples;
  for (int i = 0; i < count; ++i)
    samples.push_back(static_cast<uint16_t>(random.below(uint64_t{1} << depth)));
  return samples;
}

int samples_of(int color) { return color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1; }

std::string palette_of(int colors) {
  std::string palette;
  for (int i = 0; i < 3 * colors; ++i) palette += static_cast<char>(i * 37 + 11);
  return palette;
}

std::vector<float> values_of(const Image& image) {
  std::vector<float> values;
  for (int64_t i = 0; i < image.count(); ++i)
    values.push_back(image.bytes != nullptr ? static_cast<float>(image.bytes[i]) : image.floats[i]);
  return values;
}

class Png : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLibpng) GTEST_SKIP() << "needs libpng: configure with CREMA_LIBPNG=ON";
  }
  ImageDecoder decoder_;
};

TEST_F(Png, EveryKindIsOpenCvs) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  ImageCodec codec;
  for (const auto& [color, depths] : std::vector<std::pair<int, std::vector<int>>>{
           {0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {3, {1, 2, 4, 8}}, {4, {8, 16}}, {6, {8, 16}}}) {
    for (const int depth : depths) {
      for (const bool interlaced : {false, true}) {
        for (const bool clear : {false, true}) {
          if (clear && (color == 4 || color == 6)) continue;
          PngKind kind{.color = color, .depth = depth, .interlaced = interlaced};
          if (color == 3) kind.palette = palette_of(1 << depth);
          const auto samples = random_samples(kHeight * kWidth * samples_of(color), depth);
          if (clear && color == 3) kind.transparency = std::string(1 << (depth - 1), '\x40');
          if (clear && color != 3) {
            for (int s = 0; s < samples_of(color); ++s) {
              kind.transparency += static_cast<char>(samples[static_cast<size_t>(s)] >> 8);
              kind.transparency += static_cast<char>(samples[static_cast<size_t>(s)]);
            }
          }
          const std::string file = png_file(samples, kHeight, kWidth, kind);
          for (const ColorMode mode : {ColorMode::as_stored, ColorMode::color, ColorMode::gray}) {
            for (const Depth out : {Depth::bytes, Depth::own}) {
              if (depth == 16 && mode == ColorMode::as_stored && out == Depth::bytes) continue;
              const auto said = [&] {
                return text("type ", color, ", ", depth, " bits, mode ", static_cast<int>(mode),
                            interlaced ? ", interlaced" : "", clear ? ", tRNS" : "",
                            out == Depth::own ? ", own depth" : "");
              };
              const Image expected = codec.decode(file, mode, out);
              const Image image = decoder_.open(file, mode, out);
              ASSERT_EQ(image.shape(), expected.shape()) << said();
              EXPECT_EQ(values_of(image), values_of(expected)) << said();
            }
          }
        }
      }
    }
  }
}

TEST_F(Png, SmallAndOddSizes) {
  for (int height = 1; height < 10; ++height) {
    for (int width = 1; width < 10; ++width) {
      const auto samples = random_samples(height * width, 8, 5);
      for (const bool interlaced : {false, true}) {
        const std::string file =
            png_file(samples, height, width, {.color = 0, .interlaced = interlaced});
        EXPECT_EQ(values_of(decoder_.open(file, ColorMode::as_stored)),
                  std::vector<float>(samples.begin(), samples.end()))
            << height << " x " << width;
      }
    }
  }
}

TEST_F(Png, SixteenBitsAreKeptOrSaidToBeLost) {
  const std::string file = png_file({0x1234, 0xffff, 7, 0x8001}, 2, 2, {.color = 0, .depth = 16});
  EXPECT_THAT(values_of(decoder_.open(file, ColorMode::as_stored, Depth::own)),
              ElementsAre(0x1234, 0xffff, 7, 0x8001));
  EXPECT_FALSE(decoder_.loss().depth);
  EXPECT_THAT(values_of(decoder_.open(file, ColorMode::gray)), ElementsAre(0x12, 0xff, 0, 0x80));
  EXPECT_TRUE(decoder_.loss().depth);
  expect_error([&] { decoder_.open(file, ColorMode::as_stored); },
               {"more than 8 bits", "force_color", "--keep_depth"});
  const std::string bytes = png_file({1, 2, 3, 4}, 2, 2, {.color = 0});
  EXPECT_NE(decoder_.open(bytes, ColorMode::as_stored, Depth::own).bytes, nullptr);
  decoder_.open(bytes, ColorMode::gray);
  EXPECT_FALSE(decoder_.loss().depth);
}

TEST_F(Png, GivesTheIndicesOfAPalette) {
  const std::string palette("\x80\0\0\0\x80\0\0\0\x80\xe0\xe0\xe0", 12);
  for (const int depth : {2, 4, 8}) {
    const std::string file =
        png_file({0, 1, 2, 3, 2, 1}, 2, 3, {.color = 3, .depth = depth, .palette = palette});
    EXPECT_THAT(values_of(decoder_.open_labels(file)), ElementsAre(0, 1, 2, 3, 2, 1)) << depth;
    EXPECT_FALSE(decoder_.loss().palette);
    EXPECT_EQ(decoder_.open(file, ColorMode::color).channels, 3);
    EXPECT_FALSE(decoder_.loss().palette) << "colours are kept";
    decoder_.open(file, ColorMode::gray);
    EXPECT_TRUE(decoder_.loss().palette);
  }
  std::string ramp;
  for (int i = 0; i < 256; ++i) ramp += std::string(3, static_cast<char>(i));
  const std::string gray = png_file({0, 1, 200, 3}, 2, 2, {.color = 3, .palette = ramp});
  EXPECT_THAT(values_of(decoder_.open(gray, ColorMode::gray)), ElementsAre(0, 1, 200, 3));
  EXPECT_FALSE(decoder_.loss().palette) << "gray values are the indices";
}

TEST_F(Png, DamageIsAnErrorAndPrintsNothing) {
  const auto samples = random_samples(kHeight * kWidth * 3, 8);
  const std::string good = png_file(samples, kHeight, kWidth);
  testing::internal::CaptureStderr();
  const auto fails = [&](const std::string& file, std::initializer_list<std::string_view> words) {
    expect_error([&] { decoder_.open(file, ColorMode::color); }, words);
  };
  for (size_t size = 9; size < good.size(); size += 7)
    fails(good.substr(0, size), {"cut off", text(size, " bytes")});
  std::string flipped = good;
  flipped[good.find("IDAT") + 20] ^= 1;
  fails(flipped, {"damaged", "IDAT: CRC error"});
  // Whole chunks of data that are none of zlib's.
  const size_t at = good.find("IDAT") - 4;
  const std::string head = good.substr(0, at), end = test::png_chunk("IEND", "");
  fails(head + test::png_chunk("IDAT", "no data of zlib") + end,
        {"damaged", "IDAT: incorrect header check"});
  fails(head + end, {"0 bytes of pixels cannot hold the 13 x 21 pixels"});
  const std::string first = good.substr(at, good.find("IDAT", at + 8) - 4 - at);
  fails(head + first + end, {"damaged", "Not enough image data"});
  fails(head + test::png_chunk("CgBI", "") + good.substr(at),
        {"damaged", "CgBI: unhandled critical chunk"});
  fails(png_file(random_samples(4, 8), 2, 2, {.color = 3}), {"damaged", "PLTE"});
  std::string large = good;
  const std::string header = std::string("\0\x01\0\0\0\x01\0\0\x08\x02\0\0\0", 13);
  large.replace(8, 25, test::png_chunk("IHDR", header));
  fails(large, {"cannot hold the 65536 x 65536 pixels"});
  fails("\x89PNG\r\n\x1a\n" + test::png_chunk("IHDR", std::string(13, '\0')) + end,
        {"damaged", "Invalid IHDR data", "width is zero", "height is zero"});
  // What no pixel needs may be damaged, or odd.
  std::string odd = good;
  const std::string broken = test::png_chunk("tEXt", "Comment");
  odd.insert(at, broken.substr(0, broken.size() - 1) + "\x7f");
  odd.insert(at, test::png_chunk("iCCP", "a damaged profile"));
  odd += "bytes behind the end";
  EXPECT_EQ(values_of(decoder_.open(odd, ColorMode::color)).size(), samples.size());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// libpng only warns of these, and goes on.
TEST_F(Png, WarningsOfWhatPixelsNeedAreErrors) {
  const std::string good =
      png_file({0, 1, 2, 3}, 2, 2, {.color = 3, .palette = palette_of(4), .transparency = "abcd"});
  const auto fails = [&](const std::string& file, std::initializer_list<std::string_view> words) {
    expect_error([&] { decoder_.open(file, ColorMode::as_stored); }, words);
  };
  std::string opacity = good;
  opacity[good.find("tRNS") + 4] ^= 1;
  fails(opacity, {"damaged", "tRNS: CRC error"});
  // The checksum of all compressed data, their last 4 bytes, in a chunk whose own is right.
  const size_t last = good.rfind("IDAT") - 4, end = good.size() - 12;
  std::string data = good.substr(last + 8, end - 4 - last - 8);
  data.back() = static_cast<char>(data.back() ^ 1);
  fails(good.substr(0, last) + test::png_chunk("IDAT", data) + good.substr(end),
        {"damaged", "IDAT: incorrect data check"});
}

TEST_F(Png, WhatFollowsTheLastPixelDoesNotMatter) {
  const std::vector<uint16_t> samples = random_samples(12, 8);
  const std::string good = png_file(samples, 3, 4, {.color = 0});
  std::string longer = good;
  longer.insert(good.size() - 12, test::png_chunk("IDAT", "more data"));
  EXPECT_EQ(values_of(decoder_.open(longer, ColorMode::as_stored)),
            std::vector<float>(samples.begin(), samples.end()));
  // Data of three rows, of which the header knows two.
  std::string shorter = good;
  const std::string header("\0\0\0\x04\0\0\0\x02\x08\0\0\0\0", 13);
  shorter.replace(8, 25, test::png_chunk("IHDR", header));
  EXPECT_EQ(values_of(decoder_.open(shorter, ColorMode::as_stored)),
            std::vector<float>(samples.begin(), samples.begin() + 8));
}

// As of label maps whose palette lacks the colour of pixels that are left out.
TEST_F(Png, IndicesBeyondThePaletteAreKeptAndBlack) {
  const std::string file = png_file({0, 1, 255, 2}, 2, 2, {.color = 3, .palette = "abcdef"});
  EXPECT_THAT(values_of(decoder_.open_labels(file)), ElementsAre(0, 1, 255, 2));
  EXPECT_THAT(values_of(decoder_.open(file, ColorMode::color)),
              ElementsAre('c', 'b', 'a', 'f', 'e', 'd', 0, 0, 0, 0, 0, 0));
}

TEST_F(Png, GrayDoesNotDependOnGamma) {
  const std::string file = png_file(random_samples(3 * 8 * 8, 8), 8, 8);
  const auto expected = values_of(decoder_.open(file, ColorMode::gray));
  std::string with_gamma = file;
  with_gamma.insert(33, test::png_chunk("gAMA", std::string("\0\0\xb1\x8f", 4)));
  EXPECT_EQ(values_of(decoder_.open(with_gamma, ColorMode::gray)), expected);
}

TEST_F(Png, ASideMayBeLong) {
  constexpr int kLong = 1200000;
  std::vector<uint16_t> samples(kLong);
  samples.back() = 1;
  const Image image =
      decoder_.open(png_file(samples, 1, kLong, {.color = 0, .depth = 1}), ColorMode::as_stored);
  ASSERT_EQ(image.shape(), (Shape{1, 1, kLong}));
  EXPECT_EQ(image.bytes[kLong - 2], 0);
  EXPECT_EQ(image.bytes[kLong - 1], 255);
}

TEST_F(Png, NoDamageCrashes) {
  const std::string good = png_file(random_samples(40 * 30, 4), 40, 30,
                                    {.color = 3,
                                     .depth = 4,
                                     .interlaced = true,
                                     .palette = palette_of(16),
                                     .exif = test::exif(6)});
  const std::vector<float> pixels = values_of(decoder_.open(good, ColorMode::color));
  Random random(3, 1);
  int refused = 0;
  for (int n = 0; n < 2000; ++n) {
    std::string damaged = good;
    for (int k = 0; k < 2; ++k)
      damaged[8 + random.below(damaged.size() - 8)] ^= static_cast<char>(1u << random.below(8));
    try {
      decoder_.open(damaged, ColorMode::color);
    } catch (const Error&) {
      ++refused;
    }
  }
  // Chunks that no pixel needs may be damaged.
  EXPECT_GT(refused, 1000);
  EXPECT_EQ(values_of(decoder_.open(good, ColorMode::color)), pixels) << "something stayed behind";
}

}  // namespace
}  // namespace crema
