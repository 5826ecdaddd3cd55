// EXIF's orientation: whatever a file says, and whichever decoder reads it, the pixels are those of
// the upright picture, and so are sizes and windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "crema/error.hpp"
#include "data/batches/image_input.hpp"
#include "data/converters/converters.hpp"
#include "data/databases/export_images.hpp"
#include "data/databases/record_info.hpp"
#include "data/images/image_codec.hpp"
#include "data/images/image_decoder.hpp"
#include "data/images/image_header.hpp"
#include "data/images/jpeg_decoder.hpp"
#include "data/records/datum.hpp"
#include "data/transform/image_mean.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::exif;
using test::jpeg_file;
using test::picture;

constexpr int kHeight = 37, kWidth = 52;

struct Pixels {
  Shape shape;
  std::vector<int> values;  // (H, W, C)
  bool operator==(const Pixels&) const = default;
};

Pixels copy_of(const Image& image) {
  Pixels pixels{image.shape(), {}};
  for (int64_t i = 0; i < image.count(); ++i) pixels.values.push_back(image.bytes[i]);
  return pixels;
}

/// The table of EXIF: which row and column of the file a pixel of the picture is.
Pixels turned(const Pixels& stored, int orientation) {
  const int64_t channels = stored.shape[0], height = stored.shape[1], width = stored.shape[2];
  const bool sideways = orientation >= 5;
  Pixels out{{channels, sideways ? width : height, sideways ? height : width}, {}};
  for (int64_t y = 0; y < out.shape[1]; ++y) {
    for (int64_t x = 0; x < out.shape[2]; ++x) {
      int64_t row = y, column = x;
      switch (orientation) {
        case 2:
          column = width - 1 - x;
          break;
        case 3:
          row = height - 1 - y;
          column = width - 1 - x;
          break;
        case 4:
          row = height - 1 - y;
          break;
        case 5:
          row = x;
          column = y;
          break;
        case 6:
          row = height - 1 - x;
          column = y;
          break;
        case 7:
          row = height - 1 - x;
          column = width - 1 - y;
          break;
        case 8:
          row = x;
          column = width - 1 - y;
          break;
        default:
          break;
      }
      for (int64_t c = 0; c < channels; ++c)
        out.values.push_back(
            stored.values[static_cast<size_t>((row * width + column) * channels + c)]);
    }
  }
  return out;
}

/// A window of the pixels.
Pixels part(const Pixels& whole, const ImageWindow& window) {
  Pixels out{{whole.shape[0], window.height, window.width}, {}};
  for (int64_t y = window.top; y < window.top + window.height; ++y) {
    for (int64_t x = window.left; x < window.left + window.width; ++x) {
      for (int64_t c = 0; c < whole.shape[0]; ++c)
        out.values.push_back(
            whole.values[static_cast<size_t>((y * whole.shape[2] + x) * whole.shape[0] + c)]);
    }
  }
  return out;
}

class Orientations : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLibjpeg || !test::kBuiltWithOpenCv)
      GTEST_SKIP()
          << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  }
  int number() const { return std::get<0>(GetParam()); }
  std::string tag() const { return exif(number(), std::get<1>(GetParam())); }
  std::string jpeg(const std::string& tag) const {
    const std::string plain = jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth);
    return tag.empty() ? plain : test::jpeg_with_exif(plain, tag);
  }
  static std::vector<uint16_t> samples() {
    const auto bytes = picture(kHeight, kWidth, 3);
    return {bytes.begin(), bytes.end()};
  }
  /// The whole file by ImageDecoder, after the size that open() gives.
  static Pixels decode(const std::string& file, ColorMode mode) {
    ImageDecoder decoder;
    const Image opened = decoder.open(file, mode);
    const Image image = decoder.whole();
    EXPECT_EQ(opened.shape(), image.shape()) << "the size without decoding";
    return copy_of(image);
  }
  /// Both files have the same pixels, `other` with the orientation.
  void expect_turned(const std::string& plain, const std::string& other) const {
    for (const ColorMode mode : {ColorMode::as_stored, ColorMode::color, ColorMode::gray}) {
      EXPECT_EQ(decode(other, mode), turned(decode(plain, mode), number()))
          << "mode " << static_cast<int>(mode);
      ImageCodec codec;
      EXPECT_EQ(copy_of(codec.decode(other, mode)), turned(decode(plain, mode), number()))
          << "by OpenCV, mode " << static_cast<int>(mode);
    }
  }
};

TEST_P(Orientations, OfJpegs) {
  expect_turned(jpeg(""), jpeg(tag()));
  // Without its end marker it is OpenCV's.
  const std::string file = jpeg(tag());
  EXPECT_EQ(decode(file.substr(0, file.size() - 2), ColorMode::color),
            turned(decode(jpeg(""), ColorMode::color), number()));
}

TEST_P(Orientations, OfPngs) {
  if (std::get<1>(GetParam())) return;
  for (const bool interlaced : {false, true}) {
    expect_turned(
        test::png_file(samples(), kHeight, kWidth, {.interlaced = interlaced}),
        test::png_file(samples(), kHeight, kWidth, {.interlaced = interlaced, .exif = tag()}));
  }
}

TEST_P(Orientations, OfTiffs) {
  const bool big = std::get<1>(GetParam());
  expect_turned(
      test::tiff_file(samples(), kHeight, kWidth, {.big_endian = big}),
      test::tiff_file(samples(), kHeight, kWidth, {.orientation = number(), .big_endian = big}));
}

TEST_P(Orientations, OfWebps) {
  std::string rgb;
  for (const uint16_t sample : samples()) rgb += static_cast<char>(sample);
  const std::string plain = test::encoded(test::ppm(kHeight, kWidth, rgb), "webp");
  expect_turned(plain, test::webp_with_exif(plain, kHeight, kWidth, tag()));
}

TEST_P(Orientations, OfPartsOfJpegs) {
  const std::string file = jpeg(tag());
  const Pixels whole = turned(decode(jpeg(""), ColorMode::color), number());
  for (int at = 0; at < 24; ++at) {
    const ImageWindow window{
        .top = at % 13, .left = (at * 7) % 11, .height = 1 + (at * 5) % 20, .width = 1 + at};
    ImageDecoder decoder;
    decoder.open(file, ColorMode::color);
    EXPECT_EQ(copy_of(decoder.changed({Cut{window}})), part(whole, window)) << at;
    JpegDecoder jpegs;
    ASSERT_TRUE(jpegs.open(file, ColorMode::color));
    const auto image = jpegs.pixels(window);
    ASSERT_TRUE(image);
    const ImageWindow inside{.top = window.top - image->top,
                             .left = window.left - image->left,
                             .height = window.height,
                             .width = window.width};
    EXPECT_EQ(part(copy_of(*image), inside), part(whole, window)) << at;
  }
}

TEST_P(Orientations, OfJpegsAtAFractionOfTheirSize) {
  const std::string plain = jpeg(""), file = jpeg(tag());
  for (const int eighths : {1, 2, 4}) {
    const auto scaled = [&](const std::string& bytes) {
      JpegDecoder decoder;
      const auto opened = decoder.open(bytes, ColorMode::color);
      EXPECT_TRUE(opened);
      return copy_of(*decoder.pixels({.height = (opened->height * eighths + 7) / 8,
                                      .width = (opened->width * eighths + 7) / 8},
                                     eighths));
    };
    EXPECT_EQ(scaled(file), turned(scaled(plain), number())) << eighths;
  }
}

// AnnotatedData and Data decode records as they are stored, unless they say otherwise.
TEST_P(Orientations, OfEncodedRecords) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(jpeg(tag()));
  const std::string record = datum.SerializeAsString();
  DatumDecoder decoder(ColorMode::as_stored);
  const Pixels expected = turned(decode(jpeg(""), ColorMode::as_stored), number());
  EXPECT_EQ(decoder.open({"k", record}).shape(), expected.shape);
  EXPECT_EQ(decoder.original().height, expected.shape[1]);
  EXPECT_EQ(copy_of(decoder.decode({"k", record})), expected);
  EXPECT_EQ(inspect_record({"k", record}, decoder).shape, expected.shape) << "as db list shows it";
}

TEST_P(Orientations, OfConvertedImages) {
  const test::ScratchFolder folder;
  folder.write("a.jpg", jpeg(tag()));
  const Pixels expected = turned(decode(jpeg(""), ColorMode::color), number());
  for (const bool encoded : {false, true}) {
    const std::string output = folder / text("db", encoded);
    convert_imageset({.root = folder.path().string(),
                      .list = folder.write("list.txt", "a.jpg 1\n"),
                      .output = output,
                      .encoded = encoded});
    Datum datum;
    datum.ParseFromString(test::read_database(output).front().second);
    EXPECT_EQ((Shape{datum.channels(), datum.height(), datum.width()}), expected.shape);
    EXPECT_EQ(datum.encoded(), encoded);
    const ImageMean mean = image_mean(*open_database({.path = output}));
    EXPECT_EQ(mean.shape, expected.shape);
    // Planes of channels.
    for (const int64_t at : {0, kWidth + 3, kHeight * kWidth - 1})
      EXPECT_EQ(mean.values[static_cast<size_t>(at)], expected.values[static_cast<size_t>(3 * at)]);
  }
}

// Boxes are relative to the upright picture, in the database and in the files of an export.
TEST_P(Orientations, OfExportedBoxes) {
  const test::ScratchFolder folder;
  folder.write("a.jpg", jpeg(tag()));
  folder.write("a.txt", "1 4 8 20 30\n");
  ConvertAnnotationsOptions options{.root = folder.path().string(),
                                    .list = folder.write("list.txt", "a.jpg a.txt\n"),
                                    .output = folder / "db",
                                    .label_type = "txt",
                                    .encoded = true};
  convert_annotations(options);
  export_images(*open_database({.path = folder / "db"}),
                {.range = {0, 1}, .folder = folder / "out"});
  options.root = folder / "out";
  options.list = folder / "out/list.txt";
  options.output = folder / "again";
  convert_annotations(options);
  EXPECT_EQ(test::read_database(folder / "again")[0].second,
            test::read_database(folder / "db")[0].second);
}

TEST_P(Orientations, OfImagesOfANet) {
  const test::ScratchFolder folder;
  const std::string path = folder.write("a.jpg", jpeg(tag()));
  const Pixels expected = turned(decode(jpeg(""), ColorMode::color), number());
  ImageInput input({.sample = expected.shape});
  std::vector<float> values(static_cast<size_t>(expected.shape.count()));
  const ImageSize size = input.read(path, values.data());
  EXPECT_EQ(size.height, expected.shape[1]) << "in whose pixels detect gives boxes";
  EXPECT_EQ(size.width, expected.shape[2]);
  for (size_t i = 0; i < values.size(); i += 3)
    ASSERT_EQ(values[i / 3], static_cast<float>(expected.values[i]));
}

INSTANTIATE_TEST_SUITE_P(All, Orientations, testing::Combine(testing::Range(1, 9), testing::Bool()),
                         [](const auto& test) {
                           return text(std::get<0>(test.param),
                                       std::get<1>(test.param) ? "_big_endian" : "_little_endian");
                         });

TEST(ExifOrientation, DamagedOnesAreIgnored) {
  const std::string good = exif(6);
  const auto stays = [](const std::string& tiff) { return exif_orientation(tiff).is_upright(); };
  EXPECT_FALSE(stays(good));
  for (size_t size = 0; size < 8 + 2 + 12; ++size)
    EXPECT_TRUE(stays(good.substr(0, size))) << "cut off after " << size;
  const auto changed = [&](size_t at, char value) {
    std::string tiff = good;
    tiff[at] = value;
    return tiff;
  };
  EXPECT_TRUE(stays(changed(0, 'X'))) << "byte order";
  EXPECT_TRUE(stays(changed(1, 'M'))) << "byte order";
  EXPECT_TRUE(stays(changed(2, 43))) << "the number of TIFF";
  EXPECT_TRUE(stays(changed(7, '\x7f'))) << "place of the directory";
  EXPECT_TRUE(stays(changed(4, 4))) << "the directory in the head";
  EXPECT_TRUE(stays(changed(8, 0))) << "no entry";
  EXPECT_FALSE(stays(changed(9, '\x7f'))) << "the entry is there, though others are not";
  EXPECT_TRUE(stays(changed(12, 2))) << "a tag of text";
  for (const int number : {0, 1, 9, 200}) EXPECT_TRUE(stays(exif(number))) << number;
}

TEST(ExifOrientation, DamagedSegmentsAreIgnored) {
  if (!test::kBuiltWithLibjpeg) GTEST_SKIP() << "needs libjpeg-turbo: CREMA_LIBJPEG=ON";
  const std::string plain = jpeg_file(picture(kHeight, kWidth, 3), kHeight, kWidth);
  const auto shape_of = [](const std::string& file) {
    ImageDecoder decoder;
    return decoder.open(file, ColorMode::as_stored).shape();
  };
  const Shape upright{3, kHeight, kWidth};
  EXPECT_EQ(shape_of(test::jpeg_with_exif(plain, exif(6))), (Shape{3, kWidth, kHeight}));
  EXPECT_EQ(shape_of(test::jpeg_with_exif(plain, exif(6).substr(0, 12))), upright);
  EXPECT_EQ(shape_of(test::jpeg_with_exif(plain, "")), upright);
  EXPECT_EQ(shape_of(test::jpeg_with_exif(plain, std::string(40, '\xff'))), upright);
  // The first one counts, and bytes of 0xff between segments do not.
  std::string padded = test::jpeg_with_exif(plain, exif(6));
  padded.insert(2, "\xff\xff");
  EXPECT_EQ(shape_of(padded), (Shape{3, kWidth, kHeight}));
  EXPECT_EQ(shape_of(test::jpeg_with_exif(test::jpeg_with_exif(plain, exif(3)), exif(6))),
            (Shape{3, kWidth, kHeight}));
  // A thumbnail has an orientation of its own, in the second directory.
  std::string thumbnail = exif(1);
  thumbnail.replace(22, 4, std::string("\x1a\0\0\0", 4));
  thumbnail += exif(6).substr(8);
  EXPECT_EQ(shape_of(test::jpeg_with_exif(plain, thumbnail)), upright);
}

TEST(ExifOrientation, OfPngsCountsIfItIsWhole) {
  const std::vector<uint16_t> samples(static_cast<size_t>(3 * 4 * 5), 7);
  std::string file = test::png_file(samples, 4, 5, {.exif = exif(6)});
  ImageDecoder decoder;
  EXPECT_EQ(decoder.open(file, ColorMode::color).shape(), (Shape{3, 5, 4}));
  const size_t at = file.find("eXIf");
  file[at + 4 + 18] = 8;  // another orientation than the checksum's
  EXPECT_EQ(decoder.open(file, ColorMode::color).shape(), (Shape{3, 4, 5}));
  // Behind the pixels it counts, too.
  std::string behind = test::png_file(samples, 4, 5);
  behind.insert(behind.size() - 12, test::png_chunk("eXIf", exif(6)));
  EXPECT_EQ(decoder.open(behind, ColorMode::color).shape(), (Shape{3, 5, 4}));
}

}  // namespace
}  // namespace crema
