// crema convert-imageset by its flags.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/database.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class ConvertImagesetCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    write("a.pgm", pgm(8, 8, std::string(64, '\x10')));
    write("b.ppm", ppm(8, 8, std::string(192, '\x20')));
    list_ = write("list.txt", "a.pgm 3\nb.ppm 9\n");
  }
  /// Runs with the flags into the database `name`.
  Output convert(const std::string& flags, const std::string& name = "db") const {
    return run("convert_imageset " + flags + " " + path("") + " " + list_ + " " + path(name));
  }
  std::vector<Datum> records(const std::string& name = "db") const {
    std::vector<Datum> datums;
    for (const auto& [key, value] : read_database(path(name))) {
      datums.emplace_back();
      EXPECT_TRUE(datums.back().ParseFromString(value)) << key;
    }
    return datums;
  }

  std::string list_;
};

TEST_F(ConvertImagesetCliTest, ResizesInOneFlagOrTwo) {
  const Output output = convert("--resize 4x2", "one");
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("2 records written to " + path("one"))) << output.text;
  ASSERT_EQ(convert("--resize_width=4 --resize-height 2 --gray", "two").status, 0);
  for (const char* name : {"one", "two"}) {
    const auto datums = records(name);
    ASSERT_EQ(datums.size(), 2U);
    EXPECT_EQ(datums[1].width(), 4);
    EXPECT_EQ(datums[1].height(), 2);
    EXPECT_EQ(datums[1].label(), 9);
    EXPECT_EQ(datums[1].channels(), std::string(name) == "two" ? 1 : 3);
  }
  expect_refusal("convert-imageset --resize 4 r l o", {"--resize 4", "256x256"});
  expect_refusal("convert-imageset --resize 4x4 --resize_width 4 r l o", {"--resize", "exclude"});
}

TEST_F(ConvertImagesetCliTest, KeepsImagesEncoded) {
  list_ = write("list.txt", "b.ppm 9\n");
  const Output output = convert("--encoded", "as_it_is");
  ASSERT_EQ(output.status, 0) << output.text;
  ASSERT_EQ(records("as_it_is").size(), 1U);
  EXPECT_TRUE(records("as_it_is")[0].encoded());
  EXPECT_EQ(records("as_it_is")[0].data().substr(0, 2), "P6");
  ASSERT_EQ(convert("--encode_type=png", "png").status, 0);
  EXPECT_TRUE(records("png")[0].encoded());
  EXPECT_EQ(records("png")[0].data().substr(1, 3), "PNG");
}

TEST_F(ConvertImagesetCliTest, ChecksWithoutWriting) {
  const std::string arguments = "convert-imageset --check " + path("") + " " + list_;
  const Output good = run(arguments);
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_TRUE(good.says("0 bad images")) << good.text;
  write("b.ppm", "no image");
  const Output bad = run(arguments);
  EXPECT_EQ(bad.status, 1) << bad.text;
  EXPECT_TRUE(bad.says("b.ppm")) << bad.text;
  EXPECT_TRUE(bad.says("1 bad images")) << bad.text;
}

TEST_F(ConvertImagesetCliTest, WarnsOfWhatTrainingWillRefuse) {
  write("b.ppm", ppm(2, 4, std::string(24, '\x20')));
  list_ = write("list.txt", "a.pgm 3\nb.ppm -1\n");
  for (const Output& output :
       {convert(""), run("convert-imageset --check " + path("") + " " + list_)}) {
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("1 of 2 images differ in size")) << output.text;
    EXPECT_TRUE(output.says("1 of 2 labels are below 0")) << output.text;
  }
  expect_refusal("convert-imageset --shuffle --seed=-5 " + path("") + " " + list_ + " " + path("x"),
                 {"--seed -5"});
}

TEST_F(ConvertImagesetCliTest, BadImagesStopItOrAreLeftOut) {
  write("b.ppm", "no image");
  const Output stopped = convert("");
  EXPECT_EQ(stopped.status, 1) << stopped.text;
  EXPECT_TRUE(stopped.says("b.ppm")) << stopped.text;
  EXPECT_FALSE(fs::exists(path("db")));
  const Output skipped = convert("--skip_bad");
  EXPECT_EQ(skipped.status, 0) << skipped.text;
  EXPECT_TRUE(skipped.says("1 bad ones left out")) << skipped.text;
  EXPECT_EQ(records().size(), 1U);
  expect_refusal("convert-imageset r l", {"ROOT_FOLDER LIST_FILE OUTPUT", "2 arguments"});
}

}  // namespace
}  // namespace crema::test
