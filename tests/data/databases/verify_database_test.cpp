#include "data/databases/verify_database.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/parallel.hpp"
#include "data/records/datum.hpp"
#include "support/annotated.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/jpeg_file.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::Records;
using test::ScratchFolder;

class VerifyDatabase : public testing::Test {
 protected:
  VerifyReport verify(const Records& records, const VerifyOptions& options = {}) {
    const std::string path = folder_ / text("db", ++databases_);
    test::write_database(path, records);
    return verify_database(*open_database({.path = path, .logger = {}}), options);
  }
  static std::string raw(int label, int width = 3) {
    return test::byte_datum(1, 2, width, label).SerializeAsString();
  }
  ScratchFolder folder_;
  int databases_ = 0;
};

TEST_F(VerifyDatabase, CountsKindsShapesAndLabels) {
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(1);
  floats.add_float_data(2);
  floats.add_float_label(0.5);
  int64_t told = 0;
  VerifyOptions options;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++told);
    EXPECT_EQ(total, 4);
  };
  const VerifyReport report = verify(
      {{"a", raw(1)}, {"b", raw(0)}, {"c", raw(1)}, {"d", floats.SerializeAsString()}}, options);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(told, 4);
  EXPECT_EQ(report.records, 4);
  EXPECT_EQ(report.raw, 3);
  EXPECT_EQ(report.floats, 1);
  EXPECT_EQ(report.float_labels, 1);
  EXPECT_EQ(report.labels, (std::map<int64_t, int64_t>{{0, 1}, {1, 2}}));
  ASSERT_EQ(report.shapes.size(), 2u);
  EXPECT_EQ(report.shapes.at({1, 2, 3}).count, 3);
  EXPECT_EQ(report.shapes.at({1, 1, 1}).first_key, "d");
  ASSERT_EQ(report.warnings.size(), 2u);
  EXPECT_NE(report.warnings[0].find("2 sizes"), std::string::npos);
  EXPECT_NE(report.warnings[1].find("some floats"), std::string::npos);
}

TEST_F(VerifyDatabase, FindsEveryBadRecordOnAnyNumberOfThreads) {
  Records records;
  for (int i = 0; i < 300; ++i) {
    records.emplace_back(text("k", 1000 + i), i % 100 == 7 ? "junk" : raw(i % 10));
  }
  Datum cut = test::byte_datum(3, 4, 5, 0);
  cut.set_data(cut.data().substr(1));
  records.emplace_back("k2000", cut.SerializeAsString());
  for (const int threads : {1, 2, 5}) {
    const ThreadScope scope(threads);
    const VerifyReport report = verify(records);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.bad, 4);
    ASSERT_EQ(report.problems.size(), 4u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NE(report.problems[i].find(text("'k", 1007 + 100 * i, "'")), std::string::npos);
    }
    EXPECT_NE(report.problems[3].find("holds 59 bytes instead of 60"), std::string::npos);
    EXPECT_EQ(report.raw, 297);
  }
}

TEST_F(VerifyDatabase, ChecksLabelsAndSizesWhenAsked) {
  const Records records = {{"a", raw(0)}, {"b", raw(5)}, {"c", raw(-1)}, {"d", raw(1, 4)}};
  const VerifyReport free = verify(records);
  EXPECT_TRUE(free.ok());
  ASSERT_EQ(free.warnings.size(), 3u);
  EXPECT_NE(free.warnings[1].find("labels go down to -1"), std::string::npos);
  EXPECT_NE(free.warnings[2].find("labels go up to 5"), std::string::npos);

  const VerifyReport strict = verify(records, {.classes = 5, .one_size = true});
  EXPECT_EQ(strict.bad, 3);
  ASSERT_EQ(strict.problems.size(), 3u);
  EXPECT_EQ(strict.problems[0], "record 'b': its label 5 is not in 0 to 4");
  EXPECT_EQ(strict.problems[1], "record 'c': its label -1 is not in 0 to 4");
  EXPECT_EQ(strict.problems[2], "record 'd': it is of 1x2x4, the first one, 'a', of 1x2x3");
  expect_error([&] { verify(records, {.classes = -1}); }, {"-1 classes"});
}

TEST_F(VerifyDatabase, FloatLabelsAreClassesWhereTheyAreOne) {
  const auto labelled = [](std::initializer_list<float> labels) {
    Datum datum = test::byte_datum(1, 2, 3, 0);
    datum.clear_label();
    for (const float label : labels) datum.add_float_label(label);
    return datum.SerializeAsString();
  };
  const Records records = {{"a", labelled({4})},  {"b", labelled({0.5})},     {"c", labelled({5})},
                           {"d", labelled({-1})}, {"e", labelled({7, 0.25})}, {"f", raw(1)}};
  EXPECT_TRUE(verify(records).ok());
  const VerifyReport report = verify(records, {.classes = 5});
  EXPECT_EQ(report.bad, 3);
  ASSERT_EQ(report.problems.size(), 3u);
  EXPECT_EQ(report.problems[0], "record 'b': its label 0.5 is no whole number from 0 to 4");
  EXPECT_EQ(report.problems[1], "record 'c': its label 5 is no whole number from 0 to 4");
  EXPECT_EQ(report.problems[2], "record 'd': its label -1 is no whole number from 0 to 4");
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.warnings[0], "1 records have several labels, which are not checked (--classes)");
  EXPECT_EQ(report.label_numbers.at(1).count, 5);
  EXPECT_EQ(report.label_numbers.at(2).first_key, "e");
}

TEST_F(VerifyDatabase, ValuesThatAreNotFiniteAndMissingLabelsAreFound) {
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1);
  datum.set_width(1);
  datum.add_float_data(INFINITY);
  Datum label = test::byte_datum(1, 2, 3, 0);
  label.clear_label();
  label.add_float_label(NAN);
  Datum both = test::byte_datum(1, 2, 3, 0);
  both.add_float_label(1);
  Datum none = test::byte_datum(1, 2, 3, 0);
  none.clear_label();
  const VerifyReport report = verify({{"a", datum.SerializeAsString()},
                                      {"b", label.SerializeAsString()},
                                      {"c", none.SerializeAsString()},
                                      {"d", raw(0)},
                                      {"e", both.SerializeAsString()}});
  EXPECT_EQ(report.bad, 3);
  EXPECT_NE(report.problems[0].find("record 'a': its float_data"), std::string::npos);
  EXPECT_NE(report.problems[1].find("record 'b': its label is nan"), std::string::npos);
  EXPECT_NE(report.problems[2].find("'e': its Datum has label and float_label"), std::string::npos);
  EXPECT_EQ(report.without_label, 1);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("1 records have no label"), std::string::npos);
}

TEST_F(VerifyDatabase, BoxesOfTheBackgroundAreAWarning) {
  const VerifyReport report = verify(test::annotated_records(
      {test::boxed_rectangle(8, 8, {0, 0, 4, 4}, 0), test::boxed_rectangle(8, 8, {0, 0, 4, 4})}));
  EXPECT_EQ(report.bad, 0);
  EXPECT_EQ(report.box_labels.at(0), 1);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("1 boxes have the label 0"), std::string::npos);
}

TEST_F(VerifyDatabase, CompressedImagesAreDecoded) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  Datum datum;
  datum.set_encoded(true);
  const std::string file = test::encoded(test::ppm(8, 8, std::string(192, 'x')), "jpg");
  datum.set_data(file);
  const std::string good = datum.SerializeAsString();
  datum.set_data(file.substr(0, file.size() / 2));
  const VerifyReport report = verify({{"good", good}, {"half", datum.SerializeAsString()}});
  EXPECT_EQ(report.encoded, 1);
  EXPECT_EQ(report.bad, 1);
  EXPECT_NE(report.problems.at(0).find("'half'"), std::string::npos);
}

TEST_F(VerifyDatabase, DamagedDataOfAnImageAreFound) {
  if (!test::kBuiltWithOpenCv || !test::kBuiltWithLibjpeg)
    GTEST_SKIP()
        << "needs OpenCV and libjpeg-turbo: configure with CREMA_OPENCV=ON and CREMA_LIBJPEG=ON";
  Datum datum;
  datum.set_encoded(true);
  std::string file = test::jpeg_file(test::picture(120, 160, 3), 120, 160);
  datum.set_data(file);
  const std::string good = datum.SerializeAsString();
  file.replace(file.size() / 2, 100, 100, '\0');
  datum.set_data(file);
  const std::string damaged = datum.SerializeAsString();
  for (const ColorMode mode : {ColorMode::as_stored, ColorMode::color}) {
    const VerifyReport report = verify({{"good", good}, {"zeros", damaged}}, {.color = mode});
    EXPECT_EQ(report.encoded, 1);
    EXPECT_EQ(report.bad, 1);
    ASSERT_EQ(report.problems.size(), 1u);
    EXPECT_NE(report.problems[0].find("record 'zeros': the image is damaged (Corrupt JPEG data"),
              std::string::npos)
        << report.problems[0];
  }
}

/// Records on the pages of their keys, and records on pages of their own; three levels of pages.
class DamagedDatabase : public testing::Test {
 protected:
  DamagedDatabase() {
    for (int i = 0; i < 400; ++i) {
      const int side = i % 3 == 0 ? 60 : 8;
      records_.emplace_back(std::string(200, 'k') + std::to_string(1000 + i),
                            test::byte_datum(1, side, side, i % 10).SerializeAsString());
    }
    test::write_database(path_, records_);
    file_ = test::read_file(path_ + "/data.mdb");
  }
  void set_file(const std::string& bytes) {
    std::filesystem::remove(path_ + "/lock.mdb");
    folder_.write("db/data.mdb", bytes);
  }
  /// Whether a pass over the database notices the damage. It has to survive it, and to find all
  /// records but one that the damage is in.
  bool notices(const std::string& bytes) {
    set_file(bytes);
    try {
      const auto source = open_database({.path = path_, .logger = {}});
      EXPECT_EQ(source->count(), 400);
      EXPECT_LE(test::different_records(*source->reader(ReadOrder::forward), records_), 1);
      return !verify_database(*source).ok();
    } catch (const Error&) {
      return true;
    }
  }
  uint16_t kind_of_page(size_t page) const {
    uint16_t flags;
    std::memcpy(&flags, file_.data() + page * kPage + 10, sizeof flags);
    return flags;
  }

  static constexpr size_t kPage = 4096;
  test::ScratchFolder folder_;
  const std::string path_ = folder_ / "db";
  test::Records records_;
  std::string file_;
};

TEST_F(DamagedDatabase, AWholeDatabasePasses) {
  EXPECT_FALSE(notices(file_));
  bool has_branch = false, has_value_pages = false;
  for (size_t page = 2; page < file_.size() / kPage; ++page) {
    has_branch |= kind_of_page(page) == 1;
    has_value_pages |= kind_of_page(page) == 4;
  }
  EXPECT_TRUE(has_branch && has_value_pages);
}

/// Bytes of a page: first, first + step, ... below last.
struct BytesOfPage {
  size_t first, last, step;
};

/// liblmdb alone ends the process at some of these.
TEST_F(DamagedDatabase, NoFlippedByteOfAPageOfKeysEndsTheProcess) {
  int tried = 0, noticed = 0;
  size_t at = 0;
  const auto flip = [&](size_t place, char bits) {
    std::string damaged = file_;
    damaged[place] = static_cast<char>(damaged[place] ^ bits);
    ++tried;
    SCOPED_TRACE(text("byte ", place));
    noticed += notices(damaged);
  };
  for (size_t page = 0; page < file_.size() / kPage; ++page) {
    const bool of_keys = page < 2 || kind_of_page(page) == 1 || kind_of_page(page) == 2;
    if (!of_keys) continue;
    // The first bytes, where sizes and places are: all of some pages, a few of the others; and of
    // each page every 331st of the rest.
    const BytesOfPage head = page <= 8 ? BytesOfPage{0, 160, 1} : BytesOfPage{7, 24, 5};
    const BytesOfPage rest{160, kPage, 331};
    for (size_t i = head.first; i < head.last; i += head.step)
      flip(page * kPage + i, ++at % 2 == 0 ? '\x01' : '\x80');
    for (size_t i = rest.first; i < rest.last; i += rest.step) flip(page * kPage + i, '\x10');
  }
  EXPECT_GT(tried, 1000);
  EXPECT_GT(noticed, tried / 4);
}

}  // namespace
}  // namespace crema
