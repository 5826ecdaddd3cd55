// Data changes and mixes its images and labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "layers/data_layer.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using test::Source;
using testing::ElementsAre;

class DataAugmentation : public test::DataLayerTest {};

/// Two labels of images whose pixels are all 100, or all 200.
std::string two_colours(const std::string& path) {
  test::Records records;
  for (int i = 0; i < 8; ++i) {
    Datum datum = test::byte_datum(1, 8, 8, i % 2);
    datum.set_data(std::string(64, static_cast<char>(i % 2 ? 200 : 100)));
    records.emplace_back("k" + std::to_string(i), datum.SerializeAsString());
  }
  test::write_database(path, records);
  return "source: '" + path + "' backend: LMDB batch_size: 4 ";
}

TEST_F(DataAugmentation, LabelsBecomeOneHotVectors) {
  const std::string db = two_colours(folder_ / "two");
  Source source(data_param(db, "num_labels: 3"));
  EXPECT_EQ(source.label().shape(), (Shape{4, 3}));
  source.forward();
  EXPECT_THAT(source.label().values<float>(), ElementsAre(1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0));
  Source few(data_param(database(4) + "batch_size: 4", "num_labels: 2"));
  expect_error([&] { few.forward(); }, {"record '00000002'", "its label 2", "raise num_labels"});
}

TEST_F(DataAugmentation, MixupMixesPixelsAndLabelsAlike) {
  const std::string db = two_colours(folder_ / "two");
  Source source(data_param(db, "num_labels: 2 mixup_param { alpha: 1 }"));
  bool between = false;
  for (int batch = 0; batch < 5; ++batch) {
    source.forward();
    for (int64_t n = 0; n < 4; ++n) {
      const double share = source.label().at(2 * n + 1);
      EXPECT_NEAR(source.label().at(2 * n), 1 - share, 1e-6);
      EXPECT_NEAR(source.data().at(64 * n), 100 + 100 * share, 1e-3);
      between = between || (share > 0.01 && share < 0.99);
    }
  }
  EXPECT_TRUE(between);
  Source testing(data_param(db, "num_labels: 2 mixup_param { alpha: 1 }"), {}, Phase::test);
  testing.forward();
  EXPECT_THAT(testing.label().values<float>(), ElementsAre(1, 0, 0, 1, 1, 0, 0, 1));
}

TEST_F(DataAugmentation, CutmixTakesARectangleOfItsShare) {
  const std::string db = two_colours(folder_ / "two");
  Source source(data_param(db, "num_labels: 2 cutmix_param { alpha: 1 }"));
  bool between = false;
  for (int batch = 0; batch < 5; ++batch) {
    source.forward();
    for (int64_t n = 0; n < 4; ++n) {
      int bright = 0;
      for (int64_t i = 0; i < 64; ++i) bright += source.data().at(64 * n + i) == 200;
      EXPECT_NEAR(source.label().at(2 * n + 1), bright / 64.0, 1e-6);
      between = between || (bright > 0 && bright < 64);
    }
  }
  EXPECT_TRUE(between);
}

TEST_F(DataAugmentation, ErasesInEveryType) {
  const std::string db = database(4, 2, 8, 8) + "batch_size: 1 ";
  const std::string erase =
      "erase_param { prob: 1 min_area: 0.25 max_area: 0.25 value: 250 value: 251 }";
  Source source(data_param(db, "mirror: true mean_value: 200 " + erase));
  for (int n = 0; n < 4; ++n) {
    source.forward();
    const auto values = source.data().values<float>();
    EXPECT_NEAR(std::count(values.begin(), values.begin() + 64, 50.f), 16, 5);
    EXPECT_EQ(std::count(values.begin() + 64, values.end(), 51.f),
              std::count(values.begin(), values.begin() + 64, 50.f));
  }
  test::write_counting_database(folder_ / "gray", 4, 1, 8, 8);
  Source wrong(
      data_param("source: '" + (folder_ / "gray") + "' backend: LMDB batch_size: 1", erase));
  expect_error([&] { wrong.forward(); }, {"record '00000000'", "2 values for 1 channels"});
}

TEST_F(DataAugmentation, AugmentedBatchesAreTheSameForAnyNumberOfThreads) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const std::string transform =
      "crop_size: 6 mirror: true num_labels: 30 mixup_param { alpha: 0.4 } erase_param {} "
      "random_crop_param {} rotate_param { max_degrees: 20 } blur_param {} "
      "distort_param { brightness_prob: 1 brightness_delta: 32 contrast_prob: 0.5 "
      "contrast_lower: 0.5 contrast_upper: 1.5 hue_prob: 0.5 hue_delta: 18 }";
  const std::string db = database(30, 3, 9, 12) + "batch_size: 5 ";
  const auto values = [&](const std::string& threads) {
    return Source(data_param(db + threads, transform)).values(8);
  };
  const auto one = values("threads: 1");
  EXPECT_EQ(one, values("threads: 4"));
  Source resumed(data_param(db, transform));
  resumed.layer().set_cursor({.epoch = 0, .position = 20});
  const auto later = resumed.values(4);
  EXPECT_TRUE(std::equal(later.begin(), later.end(), one.begin() + 4 * 5 * 3 * 36));
}

TEST_F(DataAugmentation, ResizesAndCropsOfTwoSides) {
  if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  Source source(data_param(database(4, 1, 4, 4) + "batch_size: 2",
                           "resize_param { height: 2 width: 2 } crop_h: 1 crop_w: 2"),
                {}, Phase::test);
  source.forward();
  EXPECT_EQ(source.data().shape(), (Shape{2, 1, 1, 2}));
  // Averages of 0 1 4 5 and 2 3 6 7, rounded to even.
  EXPECT_NEAR(source.data().at(0), 2.5, 0.5);
  EXPECT_NEAR(source.data().at(1), 4.5, 0.5);
}

TEST_F(DataAugmentation, FloatRecordsAreNotAugmented) {
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1);
  datum.set_width(2);
  datum.add_float_data(0.5f);
  datum.add_float_data(1.5f);
  test::write_database(folder_ / "floats", {{"k", datum.SerializeAsString()}});
  const std::string db = "source: '" + (folder_ / "floats") + "' backend: LMDB batch_size: 1";
  expect_error([&] { Source(data_param(db, "resize_param { height: 2 width: 2 }")); },
               {"record 'k'", "floats", "transform_param"});
}

}  // namespace
}  // namespace crema
