// Which JPEG files a device is asked for, and what happens where it refuses. The device of these
// tests decodes on the host, and inverts what it gives.
#include "backend/device_jpeg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <utility>

#include "crema/context.hpp"
#include "data/batches/datum_loader.hpp"
#include "data/databases/open_database.hpp"
#include "data/images/image_decoder.hpp"
#include "proto/datum.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::jpeg_file;
using test::JpegKind;
using test::picture;

constexpr int kHeight = 41, kWidth = 53;

struct DeviceCalls {
  std::atomic<int> decoded = 0, refused = 0;
};

class InvertingJpeg : public DeviceJpeg {
 public:
  InvertingJpeg(DeviceCalls& calls, bool refuses) : calls_(calls), refuses_(refuses) {}

  bool decode(std::string_view file, int channels, const JpegPart& part, uint8_t* to) override {
    if (refuses_ || !host_.open(file, channels == 1 ? ColorMode::gray : ColorMode::color)) {
      ++calls_.refused;
      std::fill_n(to, channels * part.height * part.width, uint8_t{99});
      return false;
    }
    ++calls_.decoded;
    const auto image = host_.pixels({part.top, part.left, part.height, part.width});
    // The file as it is stored: the host turns it afterwards.
    for (int64_t h = 0; h < part.height; ++h) {
      for (int64_t w = 0; w < part.width * channels; ++w) {
        const int64_t row = (part.top + h - image->top) * image->width;
        const int64_t column = (part.left - image->left) * channels + w;
        to[h * part.width * channels + w] =
            static_cast<uint8_t>(255 - image->bytes[row * channels + column]);
      }
    }
    return true;
  }

 private:
  DeviceCalls& calls_;
  bool refuses_;
  JpegDecoder host_;
};

class DeviceJpegs : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLibjpeg)
      GTEST_SKIP() << "needs libjpeg-turbo: configure with CREMA_LIBJPEG=ON";
  }

  /// The pixels of the window, dense.
  static std::vector<int> pixels(ImageDecoder& decoder, const std::string& file, ColorMode mode,
                                 const ImageWindow& window, int eighths = 8) {
    decoder.open(file, mode);
    const Image part = decoder.pixels(window, eighths);
    std::vector<int> values;
    for (int64_t h = window.top - part.top; h < window.top - part.top + window.height; ++h) {
      for (int64_t w = window.left - part.left; w < window.left - part.left + window.width; ++w) {
        for (int64_t c = 0; c < part.channels; ++c)
          values.push_back(part.bytes[(h * part.width + w) * part.channels + c]);
      }
    }
    return values;
  }

  /// Whether the device gave the pixels: all are those of the host, inverted or not.
  bool comes_from_device(const JpegKind& kind, ColorMode mode, int eighths = 8) {
    const std::string file =
        jpeg_file(picture(kHeight, kWidth, kind.channels), kHeight, kWidth, kind);
    const ImageWindow window{.top = 2, .left = 3, .height = 3, .width = 2};
    ImageDecoder host;
    ImageDecoder decoder(std::make_unique<InvertingJpeg>(calls_, false));
    const std::vector<int> expected = pixels(host, file, mode, window, eighths);
    const int before = calls_.decoded;
    std::vector<int> found = pixels(decoder, file, mode, window, eighths);
    const bool asked = calls_.decoded > before;
    if (asked) {
      for (int& value : found) value = 255 - value;
    }
    EXPECT_EQ(found, expected);
    return asked;
  }

  DeviceCalls calls_;
};

TEST_F(DeviceJpegs, SequentialFilesAreTheDevices) {
  for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    const JpegKind kind{.across = across, .down = down, .restart = 3};
    EXPECT_TRUE(comes_from_device(kind, ColorMode::color));
    EXPECT_TRUE(comes_from_device(kind, ColorMode::as_stored));
    EXPECT_TRUE(comes_from_device(kind, ColorMode::gray));
  }
  EXPECT_TRUE(comes_from_device({.channels = 1}, ColorMode::gray));
  EXPECT_TRUE(comes_from_device({.channels = 1}, ColorMode::as_stored));
}

TEST_F(DeviceJpegs, TheHostTurnsWhatTheDeviceGives) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    // The stand-in reads the orientation too, and would turn twice: files of its own have none.
    const std::string file = jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth, {});
    const std::string turned =
        jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth, {.orientation = orientation});
    struct Upright : DeviceJpeg {
      std::string file;
      InvertingJpeg inner;
      Upright(std::string of, DeviceCalls& calls) : file(std::move(of)), inner(calls, false) {}
      bool decode(std::string_view, int channels, const JpegPart& part, uint8_t* to) override {
        return inner.decode(file, channels, part, to);
      }
    };
    ImageDecoder host, decoder(std::make_unique<Upright>(file, calls_));
    const ImageWindow window{.top = 4, .left = 7, .height = 20, .width = 30};
    std::vector<int> expected = pixels(host, turned, ColorMode::color, window);
    for (int& value : expected) value = 255 - value;
    EXPECT_EQ(pixels(decoder, turned, ColorMode::color, window), expected) << orientation;
  }
  EXPECT_EQ(calls_.decoded, 8);
}

TEST_F(DeviceJpegs, OtherFilesAreTheHosts) {
  EXPECT_FALSE(comes_from_device({.progressive = true}, ColorMode::color));
  EXPECT_FALSE(comes_from_device({.channels = 1}, ColorMode::color)) << "gray to colours";
  EXPECT_FALSE(comes_from_device({}, ColorMode::color, 4)) << "half of the size";
  if (test::kBuiltWithOpenCv) {
    EXPECT_FALSE(comes_from_device({.channels = 4}, ColorMode::color)) << "CMYK";
  }
  EXPECT_EQ(calls_.refused, 0);
}

TEST_F(DeviceJpegs, WhatTheDeviceRefusesIsTheHosts) {
  const std::string file = jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth);
  const ImageWindow whole{.height = kHeight, .width = kWidth};
  ImageDecoder host, decoder(std::make_unique<InvertingJpeg>(calls_, true));
  EXPECT_EQ(pixels(decoder, file, ColorMode::color, whole),
            pixels(host, file, ColorMode::color, whole));
  EXPECT_EQ(calls_.refused, 1);
  // The same errors as without a device.
  std::string damaged = file;
  damaged[file.size() / 2] = '\xff';
  damaged[file.size() / 2 + 1] = '\xd9';
  expect_error([&] { pixels(decoder, damaged, ColorMode::color, whole); },
               {"damaged", "premature end of data"});
  expect_error([&] { pixels(decoder, file.substr(0, 100), ColorMode::color, whole); }, {"cut off"});
  EXPECT_EQ(calls_.refused, 2) << "a file that is cut off is no device's";
  EXPECT_EQ(pixels(decoder, file, ColorMode::color, whole),
            pixels(host, file, ColorMode::color, whole));
}

TEST_F(DeviceJpegs, EachLoaderHasOneOfItsOwn) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth));
  const test::ScratchFolder folder;
  test::write_database(folder / "db", {{"a", datum.SerializeAsString()}});
  DatumLoading loading{.source = open_database({.path = folder / "db"})};
  loading.transform = std::make_shared<Transform>(TransformationParameter(), Phase::test);
  loading.format = first_format(loading);
  const std::atomic<bool> stop = false;
  ImageBatch expected, found;
  expected.samples = found.samples = {{.record = 0}};
  DatumLoader(loading).load(expected, stop);
  int made = 0;
  loading.make_jpeg = [&] {
    ++made;
    return std::make_unique<InvertingJpeg>(calls_, false);
  };
  DatumLoader first(loading), second(loading);
  EXPECT_EQ(made, 2);
  first.load(found, stop);
  EXPECT_EQ(calls_.decoded, 1);
  for (uint8_t& value : expected.bytes) value = static_cast<uint8_t>(255 - value);
  EXPECT_EQ(found.bytes, expected.bytes);
  // A device that is not there.
  loading.make_jpeg = [] { return nullptr; };
  DatumLoader(loading).load(found, stop);
  for (uint8_t& value : expected.bytes) value = static_cast<uint8_t>(255 - value);
  EXPECT_EQ(found.bytes, expected.bytes);
}

TEST(DeviceJpeg, TheDeviceOfTheTestsHasNone) {
  FakeDevice device;
  std::string why;
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  EXPECT_EQ(make_device_jpeg(device, why), nullptr);
  EXPECT_THAT(why, testing::HasSubstr("without CUDA"));
}

}  // namespace
}  // namespace crema
