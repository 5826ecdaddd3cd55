#include "data/transform/image_mean.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/parallel.hpp"
#include "proto/blob.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::Records;
using test::ScratchFolder;

class ImageMeanTest : public testing::Test {
 protected:
  ImageMean mean_of(const Records& records, ColorMode color = ColorMode::as_stored) {
    const std::string path = folder_ / text("db", ++databases_);
    test::write_database(path, records);
    return image_mean(*open_database({.path = path, .logger = {}}), color);
  }
  static std::string raw(int height, int width, const std::string& pixels) {
    Datum datum = test::byte_datum(1, height, width, 0);
    datum.set_data(pixels);
    return datum.SerializeAsString();
  }
  ScratchFolder folder_;
  int databases_ = 0;
};

TEST_F(ImageMeanTest, IsExactForBytes) {
  Records records;
  for (int i = 0; i < 3; ++i) {
    records.emplace_back(text("k", i), raw(1, 2, {static_cast<char>(i), '\xff'}));
  }
  records.emplace_back("k3", raw(1, 2, {'\x07', '\xfe'}));
  const ImageMean mean = mean_of(records);
  EXPECT_EQ(mean.records, 4);
  EXPECT_EQ(mean.shape, (Shape{1, 1, 2}));
  EXPECT_EQ(mean.values, (std::vector<double>{2.5, 254.75}));
  EXPECT_EQ(mean.channel_means, std::vector<double>{128.625});
  BlobProto blob;
  mean.save(blob);
  EXPECT_EQ(blob.num(), 1);
  EXPECT_EQ(blob.channels(), 1);
  EXPECT_EQ(blob.height(), 1);
  EXPECT_EQ(blob.width(), 2);
  EXPECT_FALSE(blob.has_shape());
  ASSERT_EQ(blob.data_size(), 2);
  EXPECT_EQ(blob.data(1), 254.75f);
}

TEST_F(ImageMeanTest, IsTheSameOnAnyNumberOfThreads) {
  Records records;
  for (int i = 0; i < 200; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(1);
    datum.set_width(1);
    datum.add_float_data(1.0f / static_cast<float>(i + 1));
    records.emplace_back(text("k", 1000 + i), datum.SerializeAsString());
  }
  double expected = 0;
  for (int i = 0; i < 200; ++i) expected += static_cast<double>(1.0f / static_cast<float>(i + 1));
  for (const int threads : {1, 2, 5}) {
    const ThreadScope scope(threads);
    EXPECT_EQ(mean_of(records).values[0], expected / 200);
  }
}

TEST_F(ImageMeanTest, DecodesCompressedImages) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(test::encoded(test::ppm(1, 2, "abcdef"), "png"));  // RGB
  const ImageMean mean = mean_of({{"k", datum.SerializeAsString()}});
  EXPECT_EQ(mean.shape, (Shape{3, 1, 2}));
  EXPECT_EQ(mean.values, (std::vector<double>{'c', 'f', 'b', 'e', 'a', 'd'}));
  EXPECT_EQ(mean_of({{"k", datum.SerializeAsString()}}, ColorMode::gray).shape, (Shape{1, 1, 2}));
}

TEST_F(ImageMeanTest, RecordsThatDoNotFitAreErrorsWithTheirKey) {
  const std::string good = raw(1, 2, "ab");
  expect_error(
      [&] {
        mean_of({{"first", good}, {"second", raw(2, 1, "ab")}});
      },
      {"record 'second' is of 1x2x1", "'first', of 1x1x2", "convert-imageset --resize"});
  expect_error([&] { mean_of({{"a", good}, {"b", "junk"}}); }, {"record 'b'", "Datum"});
  Datum nan;
  nan.set_channels(1);
  nan.set_height(1);
  nan.set_width(1);
  nan.add_float_data(NAN);
  expect_error([&] { mean_of({{"n", nan.SerializeAsString()}}); }, {"record 'n'", "nan"});
}

}  // namespace
}  // namespace crema
