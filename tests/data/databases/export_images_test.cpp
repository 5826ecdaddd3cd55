#include "data/databases/export_images.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/converters/converters.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Records;

class ExportImages : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    options_.folder = folder_ / "images";
  }
  ConvertReport export_all(const Records& records) {
    const std::string path = folder_ / text("db", ++databases_);
    test::write_database(path, records);
    const auto source = open_database({.path = path, .logger = {}});
    options_.range = {0, source->count()};
    return export_images(*source, options_);
  }
  std::string list() const { return test::read_file(folder_ / "images/list.txt"); }
  /// The records that convert_imageset makes of what was exported.
  std::vector<Datum> back(bool gray = false) {
    convert_imageset({.root = folder_ / "images",
                      .list = folder_ / "images/list.txt",
                      .output = folder_ / "back",
                      .gray = gray});
    std::vector<Datum> datums;
    for (const auto& [key, value] : test::read_database(folder_ / "back")) {
      datums.emplace_back().ParseFromString(value);
    }
    return datums;
  }
  test::ScratchFolder folder_;
  ExportOptions options_;
  int databases_ = 0;
};

// rename() failed at the end, and all work was lost.
TEST_F(ExportImages, AnEmptyFolderMayBeReachedThroughALink) {
  const Records records = {{"0", test::byte_datum(3, 4, 5, 7, 0).SerializeAsString()}};
  std::filesystem::create_directory(folder_ / "images");
  std::filesystem::create_directory_symlink("images", folder_ / "link");
  options_.folder = folder_ / "link/";
  EXPECT_EQ(export_all(records).written, 1);
  EXPECT_EQ(list(), "0.png 7\n");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
}

TEST_F(ExportImages, TheFolderThatTheProgramIsInIsRefusedBeforeTheWork) {
  const Records records = {{"0", test::byte_datum(3, 4, 5, 7, 0).SerializeAsString()}};
  std::filesystem::create_directory(folder_ / "here");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "here");
  options_.folder = ".";
  int64_t done = 0;
  options_.progress = [&](int64_t count, int64_t) { done = count; };
  expect_error([&] { export_all(records); }, {"here'", "name a new one"});
  std::filesystem::current_path(before);
  EXPECT_EQ(done, 0);
}

TEST_F(ExportImages, RawRecordsBecomePngAndComeBackTheSame) {
  const Datum a = test::byte_datum(3, 4, 5, 7, 0), b = test::byte_datum(3, 2, 2, 1, 100);
  const ConvertReport report =
      export_all({{"00000", a.SerializeAsString()}, {"00001", b.SerializeAsString()}});
  EXPECT_EQ(report.written, 2);
  EXPECT_EQ(list(), "00000.png 7\n00001.png 1\n");
  const std::vector<Datum> datums = back();
  ASSERT_EQ(datums.size(), 2u);
  EXPECT_EQ(datums[0].data(), a.data());
  EXPECT_EQ(datums[0].label(), 7);
  EXPECT_EQ(datums[1].data(), b.data());
  EXPECT_EQ(datums[1].height(), 2);
}

TEST_F(ExportImages, RedAndBlueAreExchangedOnlyWhenAsked) {
  const Datum datum = test::byte_datum(3, 1, 1, 0, 10);  // 10, 11, 12
  options_.rgb = true;
  export_all({{"k", datum.SerializeAsString()}});
  EXPECT_EQ(back()[0].data(), "\x0c\x0b\x0a");
}

TEST_F(ExportImages, OneChannelAndJpeg) {
  Datum datum = test::byte_datum(1, 8, 8, 3);
  datum.set_data(std::string(64, '\x40'));
  options_.encode_type = "jpg";
  export_all({{"k", datum.SerializeAsString()}});
  EXPECT_EQ(list(), "k.jpg 3\n");
  EXPECT_EQ(test::read_file(folder_ / "images/k.jpg").substr(0, 2), "\xff\xd8");
  EXPECT_EQ(back(true)[0].data(), datum.data());
}

TEST_F(ExportImages, CompressedImagesStayAsTheyAre) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_label(4);
  datum.set_data(test::encoded(test::ppm(8, 8, std::string(192, 'x')), "jpg"));
  export_all({{"00000001_cats/tom.JPEG", datum.SerializeAsString()}});
  EXPECT_EQ(list(), "00000001_cats_tom.jpg 4\n");
  EXPECT_EQ(test::read_file(folder_ / "images/00000001_cats_tom.jpg"), datum.data());
}

TEST_F(ExportImages, KeysBecomeNamesThatCannotLeaveTheFolder) {
  const std::string record = test::byte_datum(1, 1, 1, 0).SerializeAsString();
  export_all({{"../../x", record},
              {"a/b", record},
              {"a b ", record},
              {"a_b", record},
              {std::string("\0\n", 2), record}});
  EXPECT_EQ(list(), "__.png 0\n_._.._x.png 0\na b_.png 0\na_b.png 0\na_b_2.png 0\n");
  EXPECT_EQ(back(true).size(), 5u);
}

TEST_F(ExportImages, WhatIsNoImageIsAnErrorAndLeavesNothing) {
  const std::string good = test::byte_datum(1, 1, 1, 2).SerializeAsString();
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(1);
  floats.add_float_data(0.5f);
  const Records records = {{"a", good},
                           {"b", test::byte_datum(2, 1, 1, 0).SerializeAsString()},
                           {"c", floats.SerializeAsString()},
                           {"d", "junk"}};
  expect_error([&] { export_all(records); }, {"'b' has 2 channels", "--skip_bad"});
  EXPECT_FALSE(fs::exists(folder_ / "images"));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
  }
  options_.skip_bad = true;
  const ConvertReport report = export_all(records);
  EXPECT_EQ(report.written, 1);
  EXPECT_EQ(report.bad, 3);
  EXPECT_EQ(list(), "a.png 2\n");
  expect_error([&] { export_all(records); }, {"images' exists already", "name a new one"});
  options_.folder = folder_ / "other";
  expect_error([&] { export_all({{"d", "junk"}}); }, {"none of the records"});
  options_.folder = folder_ / "no/such";
  expect_error([&] { export_all(records); }, {"there is no folder", "make it first"});
  options_.encode_type = "gif";
  expect_error([&] { export_all(records); }, {"'gif'", "png or jpg"});
}

}  // namespace
}  // namespace crema
