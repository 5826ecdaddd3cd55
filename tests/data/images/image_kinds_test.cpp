// Files are told by what they hold: kinds that are not supported are named, and what libraries say
// of damaged ones is in the message, not on stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <sstream>
#include <streambuf>
#include <thread>

#include "crema/error.hpp"
#include "data/images/image_decoder.hpp"
#include "data/images/image_name.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::HasSubstr;

TEST(ImageKinds, ThoseNotSupportedAreNamed) {
  const auto box = [](const char* brand) {
    return text(std::string("\0\0\0\x20", 4), "ftyp", brand);
  };
  const std::vector<std::pair<std::string, const char*>> kinds = {
      {box("avif"), "it is an AVIF image, which is not supported; convert it to PNG or JPEG"},
      {box("avis"), "an AVIF image"},
      {box("heic"), "an HEIC image"},
      {box("hevc"), "an HEIC image"},
      {box("mif1"), "an HEIF image"},
      {box("isom"), "a video (MP4)"},
      {box("mp42"), "a video (MP4)"},
      {box("qt  "), "a video (QuickTime)"},
      {"\xff\x0a\x7f", "a JPEG XL image"},
      {text(std::string("\0\0\0\x0cJXL \r\n\x87\n", 12), "ftypjxl "), "a JPEG XL image"},
      {"<svg xmlns='http://www.w3.org/2000/svg'/>", "an SVG image"},
      {"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- made by hand -->\n<svg width='1'>", "an SVG image"},
      {"<!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' 'a.dtd'><svg>", "an SVG image"},
      {"%PDF-1.7\n%", "a PDF document, which is not supported; convert its pages"},
      {"%!PS-Adobe-3.0", "a PostScript document"},
      {std::string("8BPS\0\1", 6), "a Photoshop image"},
      {"RIFF1234AVI LIST", "a video (AVI), which is not supported; convert its frames"},
      {"\x1a\x45\xdf\xa3 webm", "a video (Matroska or WebM)"},
      {std::string("\0\0\1\0\1\0", 6), "a Windows icon"},
      {"\x76\x2f\x31\x01 ", "an OpenEXR image"},
      {text(std::string(128, '\0'), "DICM"), "a DICOM image"},
      {std::string("II+\0\x08\0\0\0", 8), "a BigTIFF image"},
      {"<!DOCTYPE html>\n<html>", "it is a web page, and no image; download it again"},
      {"\n<HTML><body>404", "a web page"},
      {"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "a web page"},
      {"404: Not Found", "a web page"},
      {"version https://git-lfs.github.com/spec/v1\n",
       "it is a Git LFS pointer in the place of the file, and no image; fetch the file itself"},
      {"PK\x03\x04 zip", "a zip archive"},
  };
  ImageDecoder decoder;
  for (const auto& [file, what] : kinds) {
    expect_error([&] { decoder.open(file, ColorMode::color); }, {what});
  }
  expect_error([&] { decoder.open("plain text", ColorMode::color); },
               {"cannot be decoded", "begins as none of JPEG, PNG, GIF"});
  expect_error([&] { decoder.open("<note/>", ColorMode::color); }, {"begins as none"});
  // The mark of a PNG file alone tells it.
  const std::string png = "\x89PNG\r\n\x1a\n";
  EXPECT_NO_THROW(check_is_image(png));
  expect_error([&] { decoder.open(png, ColorMode::color); }, {"the PNG file is cut off after 8"});
  EXPECT_EQ(image_extension("A.TIFF"), "tif");
  for (const char* name : {"a.gif", "b.JPEG", "c.tiff"}) EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"a.avif", "b.svg", "c"}) EXPECT_FALSE(is_image_name(name)) << name;
}

TEST(ImageKinds, DamagedFilesOfEachPrintNothing) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  std::string rgb;
  for (const uint8_t byte : test::picture(40, 50, 3)) rgb += static_cast<char>(byte);
  const std::string ppm = test::ppm(40, 50, rgb);
  ImageDecoder decoder;
  for (const char* type : {"bmp", "tif", "webp", "jp2", "png", "jpg", "ppm"}) {
    std::string file;
    try {
      file = test::encoded(ppm, type);
    } catch (const Error&) {
      continue;  // OpenCV was built without it
    }
    ASSERT_NO_THROW(decoder.open(file, ColorMode::color)) << type;
    testing::internal::CaptureStderr();
    int errors = 0;
    for (const size_t part : {1, 2, 5, 8}) {
      for (const bool cut : {false, true}) {
        std::string damaged = file;
        const size_t at = std::max<size_t>(12, file.size() * part / 10);
        if (cut) {
          damaged.resize(at);
        } else {
          damaged.replace(at, 40, 40, '\xa5');
        }
        try {
          decoder.open(damaged, ColorMode::color);
          decoder.whole();
        } catch (const Error& error) {
          ++errors;
          EXPECT_THAT(error.message(), testing::Not(HasSubstr("imdecode"))) << type;
        }
      }
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << type;
    EXPECT_GT(errors, 0) << type;
  }
  // What OpenCV says is part of the message.
  const std::string tiff = test::tiff_file(std::vector<uint16_t>(12, 3), 2, 2).substr(0, 150);
  expect_error([&] { decoder.open(tiff, ColorMode::color); },
               {"cannot be decoded: it is damaged (OpenCV TIFF(line "});
}

// The buffer of std::cerr is divided between threads while one decodes.
TEST(ImageKinds, OtherThreadsAreHeardMeanwhile) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const std::string tiff = test::tiff_file(std::vector<uint16_t>(12, 3), 2, 2).substr(0, 150);
  testing::internal::CaptureStderr();
  std::thread other([] {
    for (int i = 0; i < 100; ++i) std::cerr << "heard\n";
  });
  ImageDecoder decoder;
  for (int i = 0; i < 20; ++i) EXPECT_THROW(decoder.open(tiff, ColorMode::color), Error);
  other.join();
  std::cerr << "here, too\n";
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "heard\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), expected + "here, too\n");
}

/// Hands its text to the buffer that was there before.
class Tee final : public std::streambuf {
 public:
  explicit Tee(std::streambuf* before) : before_(before) {}
  std::string text;

 protected:
  int_type overflow(int_type byte) override {
    text += traits_type::to_char_type(byte);
    return before_->sputc(traits_type::to_char_type(byte));
  }

 private:
  std::streambuf* before_;
};

// The divider stood before the buffer of the program, which ended before it.
TEST(ImageKinds, AProgramMayReplaceTheBufferOfStderr) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const std::string tiff = test::tiff_file(std::vector<uint16_t>(12, 3), 2, 2).substr(0, 150);
  ImageDecoder decoder;
  const auto decode = [&] { EXPECT_THROW(decoder.open(tiff, ColorMode::color), Error); };
  decode();
  std::streambuf* const before = std::cerr.rdbuf();
  std::stringbuf own;
  std::cerr.rdbuf(&own);
  decode();
  EXPECT_EQ(std::cerr.rdbuf(), &own);
  std::cerr.rdbuf(before);
  decode();
  EXPECT_EQ(std::cerr.rdbuf(), before);
  own.str("");
  testing::internal::CaptureStderr();
  std::cerr << "heard\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "heard\n");
  EXPECT_EQ(own.str(), "");
  Tee tee(before);
  testing::internal::CaptureStderr();
  std::cerr.rdbuf(&tee);
  decode();
  tee.text.clear();
  std::cerr << "by both\n";
  std::cerr.rdbuf(before);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "by both\n");
  EXPECT_EQ(tee.text, "by both\n");
}

}  // namespace
}  // namespace crema
