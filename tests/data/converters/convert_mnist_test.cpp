#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "data/converters/converters.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::string number(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string images_file(uint32_t count, uint32_t height, uint32_t width,
                        const std::string& pixels) {
  return number(2051) + number(count) + number(height) + number(width) + pixels;
}

std::string labels_file(uint32_t count, const std::string& labels) {
  return number(2049) + number(count) + labels;
}

std::string zipped(const ScratchFolder& folder, const std::string& content) {
  const std::string path = folder / "zipped";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return test::read_file(path);
}

class ConvertMnist : public testing::Test {
 protected:
  void set(const std::string& images, const std::string& labels) {
    options_.images = folder_.write("images", images);
    options_.labels = folder_.write("labels", labels);
    options_.output = folder_ / "db";
  }
  void expect_failure(std::initializer_list<std::string_view> words) {
    expect_error([&] { convert_mnist(options_); }, words);
    EXPECT_FALSE(fs::exists(folder_ / "db"));
    EXPECT_FALSE(fs::exists(folder_ / "db.tmp"));
  }
  ScratchFolder folder_;
  ConvertMnistOptions options_;
  const std::string images_ = images_file(2, 2, 3, "abcdefghijkl");
  const std::string labels_ = labels_file(2, "\x07\x02");
};

TEST_F(ConvertMnist, WritesDatumsPlainOrZipped) {
  for (const bool zip : {false, true}) {
    set(zip ? zipped(folder_, images_) : images_, zip ? zipped(folder_, labels_) : labels_);
    options_.output = folder_ / (zip ? "zip_db" : "plain_db");
    int64_t told = 0;
    options_.progress = [&](int64_t done, int64_t total) {
      EXPECT_EQ(done, ++told);
      EXPECT_EQ(total, 2);
    };
    EXPECT_EQ(convert_mnist(options_).written, 2);
    EXPECT_EQ(told, 2);

    const auto records = test::read_database(options_.output);
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[0].first, "00000000");
    EXPECT_EQ(records[1].first, "00000001");
    Datum datum;
    ASSERT_TRUE(datum.ParseFromString(records[1].second));
    EXPECT_EQ(datum.channels(), 1);
    EXPECT_EQ(datum.height(), 2);
    EXPECT_EQ(datum.width(), 3);
    EXPECT_EQ(datum.data(), "ghijkl");
    EXPECT_EQ(datum.label(), 2);
    EXPECT_FALSE(datum.encoded());
  }
}

TEST_F(ConvertMnist, DamagedFilesAreErrorsAndLeaveNothing) {
  set(labels_, images_);
  expect_failure({"begins with 2049 instead of 2051", "exchanged"});
  set("no header", labels_);
  expect_failure({"no IDX file of images"});
  set("<!DOCTYPE html>", labels_);
  expect_failure({"is not a file of a data set but a web page", "download it again"});
  set(images_, labels_file(3, "\1\2\3"));
  expect_failure({"2 images", "3 labels", "belong together"});
  set(images_.substr(0, images_.size() - 1), labels_);
  expect_failure({"images' ends before"});
  set(images_, labels_ + "x");
  expect_failure({"labels' holds more than its header says"});
  set(images_.substr(0, 9), labels_);
  expect_failure({"images' ends before"});
  set(images_file(0, 2, 3, ""), labels_file(0, ""));
  expect_failure({"holds no image"});
  set(images_file(2, 1u << 31, 3, ""), labels_);
  expect_failure({"2147483648 x 3"});
  const std::string zip = zipped(folder_, images_);
  set(zip.substr(0, zip.size() / 2), labels_);
  expect_failure({"images'", "get the file again"});
  std::string flipped = zip;
  flipped[zip.size() - 6] ^= 1;  // in the checksum
  set(flipped, labels_);
  expect_failure({"images' is damaged (incorrect data check); get the file again"});
  options_.images = folder_ / "missing";
  expect_failure({"cannot open", "missing"});
}

TEST_F(ConvertMnist, ReplacesADatabaseOnlyWhenAsked) {
  set(images_, labels_);
  convert_mnist(options_);
  expect_error([&] { convert_mnist(options_); }, {"exists already"});
  options_.overwrite = true;
  EXPECT_EQ(convert_mnist(options_).written, 2);
}

/// The real digits: the full set where it is, else those that ship.
TEST(ConvertMnistDigits, RoundTrip) {
  const fs::path full = test::shared_path("data/mnist");
  const bool have_full = fs::exists(full / "t10k-images-idx3-ubyte.gz");
  const fs::path digits = have_full ? full : test::source_path("data/mnist/mini");
  const ScratchFolder folder;
  const int64_t written = convert_mnist({.images = digits / "t10k-images-idx3-ubyte.gz",
                                         .labels = digits / "t10k-labels-idx1-ubyte.gz",
                                         .output = folder / "db"})
                              .written;
  EXPECT_EQ(written, have_full ? 10000 : 1000);

  const auto records = test::read_database(folder / "db");
  ASSERT_EQ(static_cast<int64_t>(records.size()), written);
  std::vector<int> seen(10);
  for (const auto& [key, value] : records) {
    Datum datum;
    ASSERT_TRUE(datum.ParseFromString(value)) << key;
    ASSERT_EQ(datum.data().size(), 28u * 28u) << key;
    ASSERT_TRUE(datum.label() >= 0 && datum.label() < 10) << key;
    ++seen[static_cast<size_t>(datum.label())];
  }
  for (const int times : seen) EXPECT_GT(times, written / 20);
}

}  // namespace
}  // namespace crema
