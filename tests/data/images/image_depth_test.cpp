// Images of more than 8 bits a channel: kept in records of floats, or their loss is said; and
// palettes that become gray.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/converters/converters.hpp"
#include "data/databases/export_images.hpp"
#include "data/databases/record_info.hpp"
#include "data/databases/verify_database.hpp"
#include "data/transform/image_mean.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ImageDepth : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    const std::vector<uint16_t> deep = {0x1234, 0xffff, 0, 0x8001, 257, 3};
    folder_.write("deep.png", test::png_file(deep, 2, 3, {.color = 0, .depth = 16}));
    folder_.write("deep.tif", test::tiff_file(deep, 2, 3, {.channels = 1, .bits = 16}));
    folder_.write("color.png", test::png_file(deep, 1, 2, {.depth = 16}));
    folder_.write("flat.png", test::png_file({1, 2, 3, 4, 5, 6}, 2, 3, {.color = 0}));
    options_.root = folder_.path().string();
    options_.output = folder_ / "db";
    options_.gray = true;
    options_.overwrite = true;
  }
  std::vector<Datum> convert(const std::string& lines) {
    options_.list = folder_.write("list.txt", lines);
    report_ = convert_imageset(options_);
    std::vector<Datum> datums;
    for (const auto& [key, value] : test::read_database(options_.output)) {
      datums.emplace_back();
      datums.back().ParseFromString(value);
    }
    return datums;
  }
  test::ScratchFolder folder_;
  ConvertImagesetOptions options_;
  ConvertReport report_;
};

TEST_F(ImageDepth, IsKeptInFloatsWhereAskedFor) {
  options_.keep_depth = true;
  for (const Datum& datum : convert("deep.png 1\ndeep.tif 2\n")) {
    EXPECT_THAT(datum.float_data(), ElementsAre(0x1234, 0xffff, 0, 0x8001, 257, 3));
    EXPECT_TRUE(datum.data().empty());
    EXPECT_EQ(datum.height(), 2);
    EXPECT_EQ(datum.width(), 3);
  }
  EXPECT_THAT(report_.warnings, IsEmpty());
  options_.gray = false;
  // Planes of blue, green, red.
  EXPECT_THAT(convert("color.png 1\n")[0].float_data(),
              ElementsAre(0, 3, 0xffff, 257, 0x1234, 0x8001));
  options_.gray = true;
  options_.resize_height = 1;
  options_.resize_width = 3;
  EXPECT_THAT(convert("deep.png 1\n")[0].float_data(),
              ElementsAre((0x1234 + 0x8001) / 2.0f, (0xffff + 257) / 2.0f, 1.5f));
}

TEST_F(ImageDepth, IsSaidToBeLostElsewhere) {
  EXPECT_EQ(convert("flat.png 0\ndeep.png 1\ndeep.tif 2\n")[1].data(),
            std::string("\x12\xff\0\x80\1\0", 6));
  EXPECT_THAT(report_.warnings,
              ElementsAre(AllOf(HasSubstr("2 of 3 images"), HasSubstr("'deep.png'"),
                                HasSubstr("list.txt:2"),
                                HasSubstr("--keep_depth makes records of all bits"))));
  options_.encoded = true;
  convert("deep.png 1\n");
  EXPECT_THAT(report_.warnings,
              ElementsAre(AllOf(HasSubstr("1 of 1 images"),
                                HasSubstr("--keep_depth, without --encoded and --encode_type, "
                                          "makes records of all bits"))));
}

TEST_F(ImageDepth, OneDatabaseHasOneKind) {
  options_.keep_depth = true;
  EXPECT_FALSE(convert("flat.png 1\n")[0].data().empty()) << "8 bits stay bytes";
  options_.list = folder_.write("list.txt", "deep.png 1\nflat.png 1\n");
  expect_error([&] { convert_imageset(options_); },
               {"list.txt:2", "flat.png", "8 bits", "'deep.png'", "--keep_depth"});
  options_.encoded = true;
  expect_error([&] { convert_imageset(options_); }, {"--keep_depth", "--encoded"});
}

TEST_F(ImageDepth, IsShownAndChecked) {
  Datum deep;
  deep.set_encoded(true);
  deep.set_data(test::read_file(folder_ / "deep.png"));
  const std::string record = deep.SerializeAsString();
  DatumDecoder decoder(ColorMode::as_stored, {}, Depth::own);
  EXPECT_EQ(inspect_record({"k", record}, decoder).kind(), "png, 16 bits");
  test::write_database(folder_ / "deep", {{"k", record}});
  const auto source = open_database({.path = folder_ / "deep"});
  const VerifyReport stored = verify_database(*source);
  EXPECT_EQ(stored.bad, 1) << "as data layers refuse it";
  const VerifyReport gray = verify_database(*source, {.color = ColorMode::gray});
  EXPECT_EQ(gray.bad, 0);
  EXPECT_EQ(gray.deep, 1);
  EXPECT_THAT(gray.warnings, ElementsAre(HasSubstr("more than 8 bits")));
  EXPECT_EQ(image_mean(*source, ColorMode::gray).deep, 1);
}

TEST_F(ImageDepth, GoesOutAsItCameIn) {
  options_.keep_depth = true;
  convert("deep.png 1\n");
  const std::string first = options_.output;
  const auto source = open_database({.path = first});
  export_images(*source, {.range = {0, 1}, .folder = folder_ / "out"});
  options_.root = folder_ / "out";
  options_.list = folder_ / "out/list.txt";
  options_.output = folder_ / "again";
  EXPECT_EQ(convert_imageset(options_).written, 1);
  EXPECT_EQ(test::read_database(first)[0].second, test::read_database(options_.output)[0].second);
}

TEST_F(ImageDepth, PalettesThatBecomeGrayAreCounted) {
  const std::string palette("\0\0\0\x80\0\0", 6);
  folder_.write("map.png", test::png_file({0, 1, 1, 0}, 2, 2, {.color = 3, .palette = palette}));
  const std::string lines = "map.png 1\nmap.png 1\nflat.png 1\n";
  EXPECT_EQ(convert(lines)[0].data(), std::string("\0\x26\x26\0", 4));
  ASSERT_FALSE(report_.warnings.empty());
  EXPECT_THAT(report_.warnings[0], AllOf(HasSubstr("2 of 3 images"), HasSubstr("palette"),
                                         HasSubstr("'map.png'"), HasSubstr("DenseImageData")));
  options_.gray = false;
  convert("map.png 1\nmap.png 1\n");
  EXPECT_THAT(report_.warnings, IsEmpty()) << "colour-mapped photographs in colour";
}

TEST_F(ImageDepth, AWayOfResizingIsTakenByItsName) {
  // Of 8 columns, bilinear takes those nearest to the centres of two new pixels, 1.5 and 5.5.
  std::vector<uint16_t> columns;
  for (int i = 0; i < 8; ++i) columns.push_back(i % 4 == 1 ? 250 : 10);
  folder_.write("columns.png", test::png_file(columns, 1, 8, {.color = 0}));
  options_.resize_height = 1;
  options_.resize_width = 2;
  const auto value = [&](const std::string& mode) {
    options_.interp = mode;
    return int{static_cast<uint8_t>(convert("columns.png 1\n")[0].data()[0])};
  };
  EXPECT_EQ(value(""), 70);
  EXPECT_EQ(value("linear"), 130);
  EXPECT_EQ(value("AREA"), 70);
  EXPECT_EQ(value("nearest"), 10);
  expect_error([&] { value("sharp"); }, {"--interp=sharp"});
  options_.resize_height = options_.resize_width = 0;
  expect_error([&] { value("linear"); }, {"--interp", "--resize"});
}

}  // namespace
}  // namespace crema
