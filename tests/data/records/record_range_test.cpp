#include "data/records/record_range.hpp"

#include <gtest/gtest.h>

#include "data/records/datum.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

class RecordRangeTest : public testing::Test {
 protected:
  RecordRangeTest() {
    test::Records records;
    for (int i = 0; i < 100; ++i) records.emplace_back(text("k", 1000 + 2 * i), "v");
    records.emplace_back(std::string("z\0\x7f", 3), "v");
    test::write_database(folder_ / "db", records);
    source_ = open_database({.path = folder_ / "db", .logger = {}});
  }
  void expect_range(std::string_view text, int64_t first, int64_t last) {
    const RecordRange range = numbered_range(*source_, text);
    EXPECT_EQ(range.first, first) << text;
    EXPECT_EQ(range.last, last) << text;
  }
  test::ScratchFolder folder_;
  std::shared_ptr<RecordSource> source_;
};

TEST_F(RecordRangeTest, ByNumber) {
  expect_range("", 0, 101);
  expect_range("7", 7, 8);
  expect_range("-1", 100, 101);
  expect_range("10:20", 10, 20);
  expect_range("10:", 10, 101);
  expect_range(":20", 0, 20);
  expect_range("-5:", 96, 101);
  expect_range(":-1", 0, 100);
  expect_range("90:1000", 90, 101);
  expect_range("90:9223372036854775807", 90, 101);
  for (const char* text :
       {"101", "-102", "20:10", "5:5", "200:", "9223372036854775807", "-9223372036854775808"}) {
    expect_error([&] { numbered_range(*source_, text); }, {text, "numbered 0 to 100"});
  }
  for (const char* text : {"x", "1:x", "1:2:3", "1.5", "9999999999999999999999"}) {
    expect_error([&] { numbered_range(*source_, text); }, {text, "is no number", "--key"});
  }
}

TEST_F(RecordRangeTest, ByKey) {
  EXPECT_EQ(find_key(*source_, "k1000"), 0);
  EXPECT_EQ(find_key(*source_, "k1198"), 99);
  EXPECT_EQ(first_from_key(*source_, "k1001"), 1);
  EXPECT_EQ(first_from_key(*source_, ""), 0);
  EXPECT_EQ(first_from_key(*source_, "zz"), 101);
  expect_error([&] { find_key(*source_, "k1001"); },
               {"'k1001'", "behind 'k1000'", "before 'k1002'"});
  expect_error([&] { find_key(*source_, "a"); }, {"before 'k1000'"});
  expect_error([&] { find_key(*source_, "zz"); }, {"behind 'z\\x00\\x7f'"});
}

TEST_F(RecordRangeTest, KeysOfAnyBytesCanBeWritten) {
  for (const std::string& key :
       {std::string("z\0\x7f", 3), std::string("a\\x41"), std::string("\\"), std::string(300, 'k')})
    EXPECT_EQ(unprintable_key(escaped_key(key)), key);
  EXPECT_EQ(find_key(*source_, unprintable_key("z\\x00\\x7f")), 100);
  EXPECT_EQ(unprintable_key("a\\xg0\\x1"), "a\\xg0\\x1");
}

}  // namespace
}  // namespace crema
