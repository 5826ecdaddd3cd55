#include "data/records/datum.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "crema/error.hpp"
#include "data/batches/datum_loader.hpp"
#include "data/images/jpeg.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::byte_datum;
using testing::ElementsAre;

Image decode(DatumDecoder& decoder, const Datum& datum, std::string& bytes) {
  bytes = datum.SerializeAsString();
  return decoder.decode({"the_key", bytes});
}

Image decode(DatumDecoder& decoder, const Datum& datum) {
  std::string bytes;
  return decode(decoder, datum, bytes);
}

Datum encoded_datum(const std::string& file) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_label(7);
  datum.set_data(file);
  return datum;
}

std::vector<int> pixels_of(const Image& image) {
  return std::vector<int>(image.bytes, image.bytes + image.count());
}

TEST(DatumDecoder, RawBytes) {
  DatumDecoder decoder(ColorMode::as_stored);
  const Image image = decode(decoder, byte_datum(2, 1, 3, 5, 250));
  EXPECT_EQ(image.shape(), (Shape{2, 1, 3}));
  EXPECT_FALSE(image.interleaved);
  EXPECT_THAT(pixels_of(image), ElementsAre(250, 251, 252, 253, 254, 255));
  EXPECT_EQ(decoder.label(), 5);
  EXPECT_FALSE(decoder.was_encoded());
}

TEST(DatumDecoder, Floats) {
  Datum datum = byte_datum(1, 1, 2, -3);
  datum.clear_data();
  datum.add_float_data(0.5f);
  datum.add_float_data(-2);
  DatumDecoder decoder(ColorMode::as_stored);
  const Image image = decode(decoder, datum);
  ASSERT_NE(image.floats, nullptr);
  EXPECT_EQ(image.floats[0], 0.5f);
  EXPECT_EQ(image.floats[1], -2.0f);
  EXPECT_EQ(decoder.label(), -3);
}

TEST(DatumDecoder, BadRecordsAreErrorsThatNameTheirKey) {
  DatumDecoder decoder(ColorMode::as_stored);
  expect_error(
      [&] {
        decoder.decode({"00000042", "\xff\xff\xff"});
      },
      {"record '00000042'", "3 bytes are no Datum"});
  Datum datum = byte_datum(1, 28, 28, 0);
  datum.set_height(27);
  expect_error([&] { decode(decoder, datum); },
               {"record 'the_key'", "1x27x28", "784 bytes instead of 756"});
  datum.set_width(0);
  expect_error([&] { decode(decoder, datum); }, {"1 channels of 27 x 0"});
  datum = byte_datum(1, 1, 1, 0);
  datum.clear_data();
  expect_error([&] { decode(decoder, datum); }, {"holds 0 of them"});
  datum.set_channels(1 << 30);
  datum.set_height(1 << 30);
  datum.set_width(1 << 30);
  expect_error([&] { decode(decoder, datum); }, {"record 'the_key'"});
}

TEST(DatumDecoder, RawRecordsAreNotRecoloured) {
  DatumDecoder color(ColorMode::color), gray(ColorMode::gray);
  EXPECT_EQ(decode(color, byte_datum(3, 1, 1, 0)).channels, 3);
  EXPECT_EQ(decode(gray, byte_datum(1, 1, 1, 0)).channels, 1);
  expect_error([&] { decode(color, byte_datum(1, 1, 1, 0)); },
               {"the_key", "force_color", "1 channels"});
  expect_error([&] { decode(gray, byte_datum(3, 1, 1, 0)); },
               {"the_key", "force_gray", "3 channels"});
}

TEST(DatumDecoder, EncodedImagesDecodeToTheChannelsAskedFor) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  // One red and one blue pixel; files hold R, G, B and decode to B, G, R.
  const std::string color_png =
      test::encoded(test::ppm(1, 2, std::string("\xff\0\0\0\0\xff", 6)), "png");
  const std::string gray_png = test::encoded(test::pgm(1, 2, "\x10\x20"), "png");
  DatumDecoder stored(ColorMode::as_stored), color(ColorMode::color), gray(ColorMode::gray);

  const Image image = decode(stored, encoded_datum(color_png));
  EXPECT_EQ(image.shape(), (Shape{3, 1, 2}));
  EXPECT_TRUE(image.interleaved);
  EXPECT_THAT(pixels_of(image), ElementsAre(0, 0, 255, 255, 0, 0));
  EXPECT_EQ(stored.label(), 7);
  EXPECT_TRUE(stored.was_encoded());
  EXPECT_THAT(pixels_of(decode(stored, encoded_datum(gray_png))), ElementsAre(16, 32));
  EXPECT_THAT(pixels_of(decode(color, encoded_datum(gray_png))),
              ElementsAre(16, 16, 16, 32, 32, 32));
  EXPECT_THAT(pixels_of(decode(gray, encoded_datum(color_png))), ElementsAre(76, 29));
}

TEST(DatumDecoder, DamagedImagesAreErrors) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  DatumDecoder decoder(ColorMode::as_stored);
  const std::string good = test::encoded(test::pgm(16, 16, std::string(256, 'x')), "jpg");
  ASSERT_NO_THROW(decode(decoder, encoded_datum(good)));
  expect_error([&] { decode(decoder, encoded_datum(good.substr(0, good.size() / 2))); },
               {"record 'the_key'", "cut off"});
  const std::string png = test::encoded(test::pgm(16, 16, std::string(256, 'x')), "png");
  expect_error([&] { decode(decoder, encoded_datum(png.substr(0, 40))); }, {"cannot be decoded"});
  // After a good picture, so that none may be left over from before.
  expect_error([&] { decode(decoder, encoded_datum("this is no image")); }, {"cannot be decoded"});
  // OpenCV would write a temporary file for this kind, and print that it cannot read it.
  expect_error([&] { decode(decoder, encoded_datum("#?RADIANCE\n\n-Y 1 +X 1\nabcd")); },
               {"record 'the_key'", "is a Radiance HDR image", "convert it to PNG or JPEG"});
  expect_error([&] { decode(decoder, encoded_datum("XYZ")); }, {"begins as none of JPEG, PNG"});
  expect_error([&] { decode(decoder, encoded_datum("")); }, {"the image file is empty"});
  const std::string deep = "P5\n1 1\n65535\n\x01\x02";
  expect_error([&] { decode(decoder, encoded_datum(deep)); }, {"more than 8 bits"});
}

// Cameras and web servers lose the two bytes; the picture is all there.
TEST(DatumDecoder, JpegsWithoutTheirEndMarkerDecode) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  std::string pixels;
  for (int i = 0; i < 50 * 40 * 3; ++i) pixels += static_cast<char>(i * i >> 4);
  const std::string whole = test::encoded(test::ppm(50, 40, pixels), "jpg");
  DatumDecoder decoder(ColorMode::as_stored);
  const std::vector<int> expected = pixels_of(decode(decoder, encoded_datum(whole)));
  for (const size_t lost : {1, 2}) {
    const Datum datum = encoded_datum(whole.substr(0, whole.size() - lost));
    EXPECT_EQ(pixels_of(decode(decoder, datum)), expected);
  }
  // Without the last bytes of the picture it is cut off.
  for (const size_t lost : {4, 10, 200}) {
    const Datum datum = encoded_datum(whole.substr(0, whole.size() - lost));
    expect_error([&] { decode(decoder, datum); }, {"record 'the_key'", "JPEG file is cut off"});
  }
}

// In a container of one core, 4 decoding threads took its time from the net's.
TEST(LoaderThreads, CountTheCoresOfTheProcess) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(loader_threads(0, {.encoded = true}), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(loader_threads(0, {.encoded = true}), std::min(CPU_COUNT(&all), 4));
  EXPECT_EQ(loader_threads(0, {.encoded = false}), 1);
  EXPECT_EQ(loader_threads(0, {.encoded = false, .changes = true}),
            loader_threads(0, {.encoded = true}));
  EXPECT_EQ(loader_threads(7, {.encoded = false}), 7);
}

TEST(PrintableKey, EscapesAndShortens) {
  EXPECT_EQ(printable_key("00000001_my cat.jpg"), "00000001_my cat.jpg");
  EXPECT_EQ(printable_key(std::string("\0\x1f\x7f", 3)), "\\x00\\x1f\\x7f");
  EXPECT_EQ(printable_key("a\\x41"), "a\\x5cx41");
  EXPECT_EQ(escaped_key("caf\xC3\xA9 caf\xE9"), "caf\xC3\xA9 caf\\xe9");
  EXPECT_EQ(escaped_key(std::string(200, 'k')), std::string(200, 'k'));
  EXPECT_EQ(printable_key(std::string(200, 'k')), std::string(100, 'k').append("..."));
  const std::string path = text(std::string(200, 'k'), "/caf\u00e9.jpg");
  EXPECT_EQ(printable_key(path), path);
}

/// 0xff begins a marker.
std::string jpeg(const std::string& segments) { return "\xff\xd8" + segments; }

TEST(LacksJpegEnd, LooksBehindTheFirstScan) {
  const std::string scan = "\xff\xda\x01\x02pixels";
  EXPECT_FALSE(lacks_jpeg_end(jpeg(scan + "\xff\xd9")));
  EXPECT_FALSE(lacks_jpeg_end(jpeg(scan + "\xff\xd9trailing bytes")));
  EXPECT_TRUE(lacks_jpeg_end(jpeg(scan)));
  // The end marker of a thumbnail is none of the image.
  const std::string thumbnail = std::string("\xff\xe1\0\x06", 4) + "\xff\xd8\xff\xd9";
  EXPECT_TRUE(lacks_jpeg_end(jpeg(thumbnail + scan)));
  EXPECT_FALSE(lacks_jpeg_end(jpeg(thumbnail + scan + "\xff\xd9")));
  EXPECT_TRUE(lacks_jpeg_end(jpeg(thumbnail)));
  EXPECT_TRUE(lacks_jpeg_end(jpeg("\xff\xe1\x7f\x7fshort")));
  EXPECT_FALSE(lacks_jpeg_end("\x89PNG\r\n"));
  EXPECT_FALSE(lacks_jpeg_end(""));
}

}  // namespace
}  // namespace crema
