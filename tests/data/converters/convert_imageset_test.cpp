#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/converters/converters.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::pgm;
using test::ppm;
using testing::ElementsAre;
using testing::HasSubstr;

Datum datum_of(const std::string& bytes) {
  Datum datum;
  EXPECT_TRUE(datum.ParseFromString(bytes));
  return datum;
}

std::vector<int> bytes_of(const std::string& text) {
  std::vector<int> values;
  for (const char c : text) values.push_back(static_cast<unsigned char>(c));
  return values;
}

class ConvertImageset : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    options_.root = folder_ / "images";
    options_.output = folder_ / "db";
  }
  void image(const std::string& name, const std::string& content) {
    folder_.write("images/" + name, content);
  }
  void list(const std::string& text) { options_.list = folder_.write("list.txt", text); }
  std::vector<Datum> convert() {
    report_ = convert_imageset(options_);
    std::vector<Datum> datums;
    for (const auto& [key, value] : test::read_database(options_.output)) {
      keys_.push_back(key);
      datums.push_back(datum_of(value));
    }
    return datums;
  }
  void expect_failure(std::initializer_list<std::string_view> words) {
    expect_error([&] { convert_imageset(options_); }, words);
    EXPECT_FALSE(fs::exists(options_.output));
  }

  test::ScratchFolder folder_;
  ConvertImagesetOptions options_;
  ConvertReport report_;
  std::vector<std::string> keys_;
  // One row of two pixels: (1, 2, 3) and (4, 5, 6) as R, G, B.
  const std::string colors_ = ppm(1, 2, "\1\2\3\4\5\6");
};

TEST_F(ConvertImageset, WritesPlanesInBlueGreenRed) {
  image("my cat.ppm", colors_);
  image("b.ppm", pgm(1, 2, "\x08\x09"));
  list("my cat.ppm 3\nb.ppm 9 \n");
  int64_t told = 0;
  options_.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++told);
    EXPECT_EQ(total, 2);
  };
  const auto datums = convert();
  ASSERT_EQ(datums.size(), 2u);
  EXPECT_THAT(keys_, ElementsAre("00000000_my cat.ppm", "00000001_b.ppm"));
  EXPECT_EQ(datums[0].channels(), 3);
  EXPECT_EQ(datums[0].height(), 1);
  EXPECT_EQ(datums[0].width(), 2);
  EXPECT_EQ(datums[0].label(), 3);
  EXPECT_FALSE(datums[0].encoded());
  EXPECT_THAT(bytes_of(datums[0].data()), ElementsAre(3, 6, 2, 5, 1, 4));
  EXPECT_THAT(bytes_of(datums[1].data()), ElementsAre(8, 9, 8, 9, 8, 9));
  EXPECT_EQ(report_.written, 2);
  EXPECT_EQ(told, 2);
}

TEST_F(ConvertImageset, GrayMakesOneChannel) {
  image("a.ppm", ppm(1, 1, "\x40\x40\x40"));
  list("a.ppm 0");
  options_.gray = true;
  const auto datums = convert();
  EXPECT_EQ(datums[0].channels(), 1);
  EXPECT_THAT(bytes_of(datums[0].data()), ElementsAre(0x40));
}

TEST_F(ConvertImageset, ShrinkingAveragesSoThatNoImageHidesAnother) {
  // Every second pixel white: picking pixels would see black or white only.
  std::string pixels;
  for (int i = 0; i < 64 * 64; ++i) pixels += i % 2 ? '\xff' : '\0';
  image("a.pgm", pgm(64, 64, pixels));
  list("a.pgm 0");
  options_.gray = true;
  options_.resize_height = 8;
  options_.resize_width = 16;
  const auto datums = convert();
  EXPECT_EQ(datums[0].height(), 8);
  EXPECT_EQ(datums[0].width(), 16);
  for (const int value : bytes_of(datums[0].data())) EXPECT_NEAR(value, 127.5, 1);
}

TEST_F(ConvertImageset, SidesMayShrinkAndGrowAtOnce) {
  image("a.pgm", pgm(4, 1, std::string("\0\0\xc8\xc8", 4)));
  list("a.pgm 0");
  options_.gray = true;
  options_.resize_height = 2;
  options_.resize_width = 3;
  EXPECT_THAT(bytes_of(convert()[0].data()), ElementsAre(0, 0, 0, 200, 200, 200));
  options_.output = folder_ / "none";
  options_.resize_width = 0;
  expect_failure({"2 x 0", "both --resize_height and --resize_width"});
}

TEST_F(ConvertImageset, EncodedKeepsTheFileWhereItCan) {
  const std::string color_png = test::encoded(colors_, "png");
  const std::string gray_png = test::encoded(pgm(1, 2, "\x08\x09"), "png");
  image("color.PNG", color_png);
  image("gray.png", gray_png);
  list("color.PNG 1\ngray.png 2\n");
  options_.encoded = true;
  const auto datums = convert();
  EXPECT_TRUE(datums[0].encoded());
  EXPECT_EQ(datums[0].data(), color_png);
  EXPECT_EQ(datums[0].label(), 1);
  EXPECT_EQ(datums[0].width(), 2);
  // A gray file among colour images would change the net's input: it is encoded anew.
  EXPECT_NE(datums[1].data(), gray_png);
  EXPECT_EQ(datums[1].channels(), 3);
}

TEST_F(ConvertImageset, EncodeTypeAndResizeEncodeAnew) {
  image("a.ppm", colors_);
  list("a.ppm 1");
  options_.encode_type = "png";  // implies encoded
  Datum datum = convert()[0];
  EXPECT_TRUE(datum.encoded());
  EXPECT_THAT(datum.data(), HasSubstr("PNG"));

  options_.output = folder_ / "small";
  options_.resize_height = options_.resize_width = 1;
  datum = convert()[0];
  EXPECT_EQ(datum.width(), 1);
  EXPECT_THAT(datum.data(), HasSubstr("PNG"));

  options_.output = folder_ / "none";
  options_.encode_type = "nonsense";
  expect_failure({"cannot encode an image as 'nonsense'"});
  options_.encode_type = "";
  options_.encoded = true;
  // Files are told by what they hold.
  options_.resize_height = options_.resize_width = 0;
  image("no_extension", colors_);
  image("named_otherwise.jpg", colors_);
  list("no_extension 1\nnamed_otherwise.jpg 2\n");
  for (const Datum& kept : convert()) EXPECT_EQ(kept.data(), colors_);
}

TEST_F(ConvertImageset, ShuffleKeepsEachLineOnceInAnOrderOfItsSeed) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    image(text(i, ".ppm"), colors_);
    lines += text(i, ".ppm ", i, "\n");
  }
  list(lines);
  options_.shuffle = true;
  options_.check_size = true;
  const auto order = [&](uint64_t seed) {
    options_.seed = seed;
    options_.overwrite = true;
    std::vector<int> labels;
    for (const Datum& datum : convert()) labels.push_back(datum.label());
    return labels;
  };
  const auto one = order(1), again = order(1), two = order(2);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, two);
  EXPECT_FALSE(std::is_sorted(one.begin(), one.end()));
  EXPECT_EQ(std::set<int>(one.begin(), one.end()).size(), 20u);
}

TEST_F(ConvertImageset, BadImagesAreErrorsThatNameLineAndFile) {
  image("a.ppm", colors_);
  image("text.jpg", "no image");
  list("a.ppm 1\nmissing.jpg 2\n");
  expect_failure({"list.txt:2", "images/missing.jpg", "cannot open"});
  list("a.ppm 1\n\ntext.jpg 2\n");
  expect_failure({"list.txt:3", "images/text.jpg", "cannot be decoded"});
  image("large.ppm", ppm(1, 1, "abc"));
  list("a.ppm 1\nlarge.ppm 2\n");
  EXPECT_EQ(convert().size(), 2u);
  options_.output = folder_ / "none";
  options_.check_size = true;
  expect_failure({"list.txt:2", "3x1x1", "3x1x2"});
}

TEST_F(ConvertImageset, SkipBadLeavesThemOutAndCounts) {
  image("a.ppm", colors_);
  image("text.jpg", "no image");
  list("text.jpg 5\na.ppm 1\nmissing.jpg 2\n");
  options_.skip_bad = true;
  EXPECT_EQ(convert().size(), 1u);
  EXPECT_THAT(keys_, ElementsAre("00000001_a.ppm"));
  EXPECT_EQ(report_.bad, 2);
  ASSERT_EQ(report_.problems.size(), 2u);
  EXPECT_THAT(report_.problems[1], HasSubstr("list.txt:3"));
  list("text.jpg 5\n");
  options_.output = folder_ / "none";
  expect_failure({"none of the 1 images", "text.jpg"});
}

TEST_F(ConvertImageset, CheckFindsAllBadImagesAndWritesNothing) {
  image("a.ppm", colors_);
  image("text.jpg", "no image");
  list("text.jpg 5\na.ppm 1\nmissing.jpg 2\n");
  options_.check_only = true;
  report_ = convert_imageset(options_);
  EXPECT_EQ(report_.bad, 2);
  EXPECT_EQ(report_.written, 0);
  EXPECT_FALSE(fs::exists(options_.output));
}

// Training found out, at the first record of another size.
TEST_F(ConvertImageset, WarnsOfImagesOfSeveralSizes) {
  image("a.ppm", colors_);
  image("b.ppm", ppm(1, 1, "abc"));
  image("c.ppm", ppm(2, 1, "abcdef"));
  list("a.ppm 1\n\nb.ppm 2\na.ppm 3\nc.ppm 4\n");
  EXPECT_EQ(convert().size(), 4u);
  const auto told = ElementsAre(testing::AllOf(
      HasSubstr("2 of 4 images"), HasSubstr("'a.ppm' (" + options_.list + ":1) of 1 x 2 pixels"),
      HasSubstr("'b.ppm' (" + options_.list + ":3) of 1 x 1 pixels"), HasSubstr("--resize_height"),
      HasSubstr("crop_size")));
  const auto of_encoded = ElementsAre(HasSubstr("do not resize"));
  EXPECT_THAT(report_.warnings, told);
  EXPECT_THAT(report_.warnings, testing::Not(of_encoded));
  options_.check_only = true;
  EXPECT_THAT(convert_imageset(options_).warnings, told);
  options_.resize_height = options_.resize_width = 2;
  EXPECT_THAT(convert_imageset(options_).warnings, testing::IsEmpty());
  options_.resize_height = options_.resize_width = 0;
  // Nobody brings encoded records to one size later.
  for (const auto& [encoded, type] : {std::pair(true, ""), std::pair(false, "ppm")}) {
    options_.encoded = encoded;
    options_.encode_type = type;
    const ConvertReport report = convert_imageset(options_);
    EXPECT_THAT(report.warnings, told);
    EXPECT_THAT(report.warnings, of_encoded);
  }
}

TEST_F(ConvertImageset, DamagedJpegsAreBadImages) {
  if (!test::kBuiltWithLibjpeg)
    GTEST_SKIP() << "needs libjpeg-turbo: configure with CREMA_LIBJPEG=ON";
  std::string file = test::jpeg_file(test::picture(120, 160, 3), 120, 160);
  image("whole.jpg", file);
  image("zeros.jpg", file.replace(file.size() / 2, 100, 100, '\0'));
  list("whole.jpg 1\nzeros.jpg 2\nzeros.jpg 3\n");
  for (const bool encoded : {false, true}) {
    options_.encoded = encoded;
    options_.skip_bad = false;
    expect_error([&] { convert(); }, {options_.list + ":2", "zeros.jpg", "damaged (Corrupt JPEG"});
    options_.skip_bad = true;
    EXPECT_EQ(convert().size(), 1u);
    EXPECT_EQ(report_.bad, 2);
    options_.overwrite = true;
  }
}

TEST_F(ConvertImageset, WarnsOfLabelsBelowZero) {
  image("a.ppm", colors_);
  list("a.ppm 0\na.ppm -1\nmissing.ppm -1\na.ppm -2\n");
  options_.skip_bad = true;
  EXPECT_EQ(convert()[1].label(), -1);
  EXPECT_THAT(report_.warnings,
              ElementsAre(testing::AllOf(HasSubstr("2 of 3 labels are below 0"),
                                         HasSubstr("-1 of 'a.ppm' (" + options_.list + ":2)"),
                                         HasSubstr("ignore_label"))));
}

TEST_F(ConvertImageset, WarnsOfLabelsThatF32DoesNotHold) {
  image("a.ppm", colors_);
  list("a.ppm 16777216\na.ppm 16777217\n");
  EXPECT_EQ(convert()[1].label(), 16777217);
  EXPECT_THAT(report_.warnings,
              ElementsAre(testing::AllOf(HasSubstr("1 of 2 labels have no exact value in f32"),
                                         HasSubstr("16777217 of 'a.ppm' (" + options_.list))));
}

TEST_F(ConvertImageset, LongNamesKeepTheirEndInTheKey) {
  const std::string name = std::string(200, 'd') + "/" + std::string(200, 'e') + "/" +
                           std::string(150, 'f') + "_the_end.ppm";
  image(name, colors_);
  list(name + " 1");
  convert();
  EXPECT_EQ(keys_[0].size(), 511u);
  EXPECT_THAT(keys_[0], testing::StartsWith("00000000_d"));
  EXPECT_THAT(keys_[0], testing::EndsWith("_the_end.ppm"));
}

TEST_F(ConvertImageset, RecordsBeyondTheirLargestSizeAreRefused) {
  image("a.ppm", colors_);
  list("a.ppm 1");
  options_.resize_height = options_.resize_width = 30000;  // 2.7e9 bytes; an int32 has 2.1e9
  expect_failure({"3 x 30000 x 30000", "too large for a record", "--resize", "--encoded"});
  options_.check_only = true;
  expect_failure({"too large for a record"});
}

TEST_F(ConvertImageset, WritesEitherKindOfDatabase) {
  image("a.ppm", colors_);
  list("a.ppm 1");
  options_.backend = "sqlite";
  expect_failure({"backend 'sqlite'", "there are lmdb, leveldb"});
  if (!test::kBuiltWithLevelDb) GTEST_SKIP() << "needs LevelDB: configure with CREMA_LEVELDB=ON";
  options_.backend = "LevelDB";
  EXPECT_EQ(convert()[0].label(), 1);
  EXPECT_TRUE(fs::exists(options_.output + "/CURRENT"));
}

TEST_F(ConvertImageset, WritesSeveralLabels) {
  image("a.ppm", colors_);
  list("a.ppm 0.5 3\na.ppm -1 2e3\n");
  const std::vector<Datum> datums = convert();
  EXPECT_THAT(datums[0].float_label(), ElementsAre(0.5f, 3));
  EXPECT_THAT(datums[1].float_label(), ElementsAre(-1, 2000));
  EXPECT_FALSE(datums[0].has_label());
  EXPECT_TRUE(report_.warnings.empty());
}

}  // namespace
}  // namespace crema
