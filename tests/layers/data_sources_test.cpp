// Data and ImageData over every kind of source: what they have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "data/records/image_list.hpp"
#include "data/records/record_labels.hpp"
#include "data/records/text_list.hpp"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "support/source_run.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::source_of;
using testing::ElementsAre;
using testing::HasSubstr;

struct ImagesLike {
  int side = 1;
  std::string labels = "";  // of an image, behind its class; a folder has classes only
};

/// `count` gray images as a source of each kind; the value of the first pixel is the image's
/// number, from where they count up, and its label that number modulo 2.
class Sources {
 public:
  explicit Sources(int count, const std::set<int>& bad = {}, const ImagesLike& like = {}) {
    test::Records records, members;
    std::string list;
    for (int i = 0; i < count; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "%d/%03d.pgm", i % 2, i);
      const std::string image =
          bad.contains(i) ? "words" : test::pgm(like.side, like.side, pixels_from(i, like.side));
      folder_.write(std::string("images/") + name, image);
      list += text(name, " ", i % 2, " ", like.labels, "\n");
      members.emplace_back(name, image);
      if (!like.labels.empty())
        members.emplace_back(text(i % 2, "/", std::string(name).substr(2, 3), ".cls"),
                             text(i % 2, " ", like.labels));
      Datum datum;
      datum.set_encoded(true);
      datum.set_data(image);
      set_labels(labels_of(words_of(text(i % 2, " ", like.labels)), name), datum);
      records.emplace_back(std::string(name).substr(2), datum.SerializeAsString());
    }
    folder_.write("list.txt", list);
    folder_.write("a.tar", test::tar(members));
    test::write_database(folder_ / "lmdb", records);
    if (test::kBuiltWithLevelDb)
      test::write_database(folder_ / "leveldb", records, DatabaseKind::leveldb);
  }

  LayerCase layer(const std::string& source, const std::string& settings) const {
    const auto data = [&](const std::string& where) {
      return LayerCase{.layer = text("layer { type: 'Data' top: 'data' top: 'label' data_param { ",
                                     where, " ", settings, " } }")};
    };
    const auto path = [&](const char* name) { return text("source: '", folder_ / name, "'"); };
    if (source == "LMDB") return data(path("lmdb") + " backend: LMDB");
    if (source == "LEVELDB") return data(path("leveldb") + " backend: LEVELDB");
    if (source == "FOLDER") return data(path("images") + " backend: FOLDER");
    if (source == "TAR") return data(path("a.tar") + " backend: TAR");
    const std::string files = text(path("list.txt"), " root_folder: '", folder_ / "images", "' ");
    if (source == "IMAGE_LIST") return data(files + "backend: IMAGE_LIST");
    return {.layer = text("layer { type: 'ImageData' top: 'data' top: 'label' image_data_param { ",
                          files, "is_color: false ", settings, " } }")};
  }

 private:
  static std::string pixels_from(int first, int side) {
    std::string pixels(static_cast<size_t>(side * side), '\0');
    std::iota(pixels.begin(), pixels.end(), static_cast<char>(first));
    return pixels;
  }

  test::ScratchFolder folder_;
};

std::string why_not(const std::string& source) {
  if (!test::kBuiltWithOpenCv) return "needs OpenCV: configure with CREMA_OPENCV=ON";
  if (source == "LEVELDB" && !test::kBuiltWithLevelDb)
    return "needs LevelDB: configure with CREMA_LEVELDB=ON";
  if (source == "TAR" && !test::kBuiltWithLibarchive)
    return "needs libarchive: configure with CREMA_LIBARCHIVE=ON";
  return "";
}

constexpr std::array kSources = {"LMDB", "LEVELDB", "IMAGE_LIST", "FOLDER", "TAR", "ImageData"};

class EachSource : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(EachSource, GivesImagesAndLabels) {
  const Sources sources(7);
  LayerRun run(sources.layer(GetParam(), "batch_size: 7"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{7, 1, 1, 1}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{7}));
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(static_cast<int>(run.top(0)[i]) % 2, run.top(1)[i]);
    const std::string name = text("00", run.top(0)[i], ".pgm");
    EXPECT_THAT(source_of(run).record_key(static_cast<int64_t>(i)), testing::EndsWith(name));
  }
  // A folder is read class by class.
  if (GetParam() == std::string("FOLDER")) {
    EXPECT_THAT(run.top(0), ElementsAre(0, 2, 4, 6, 1, 3, 5));
  } else {
    EXPECT_THAT(run.top(0), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  }
}

TEST_P(EachSource, ResumesBitEquallyWithShuffling) {
  const Sources sources(23);
  for (const char* threads : {"threads: 1", "threads: 3"}) {
    for (const int batches : {0, 1, 7}) {
      const std::string settings = text("batch_size: 5 shuffle: true ", threads);
      test::expect_resumes(sources.layer(GetParam(), settings), batches);
    }
  }
}

TEST_P(EachSource, ShufflingGivesEachRecordOnceAnEpoch) {
  const Sources sources(20);
  LayerRun run(sources.layer(GetParam(), "batch_size: 20 shuffle: true"));
  const auto first = next_values(run, 1), second = next_values(run, 1);
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), 20u);
  EXPECT_EQ(std::set<double>(second.begin(), second.end()).size(), 20u);
  EXPECT_NE(first, second);
}

/// Of 11 batches of 7 from 22 records, with all that is drawn for a sample.
TEST_P(EachSource, EveryEpochHasEachRecordOnceForAnyNumberOfThreads) {
  const Sources sources(22);
  for (const char* threads : {"threads: 1", "threads: 2", "threads: 5 prefetch: 3"}) {
    if (GetParam() == std::string("ImageData") && std::strstr(threads, "prefetch")) continue;
    LayerRun run(sources.layer(GetParam(), text("batch_size: 7 shuffle: true ", threads)));
    const std::vector<double> values = next_values(run, 22);
    for (auto at = values.begin(); at != values.end(); at += 22) {
      EXPECT_EQ(std::set<double>(at, at + 22).size(), 22u) << threads;
    }
  }
}

struct Drawing {
  const char* name;
  const char* transform;
  const char* settings;
  const char* labels;  // of an image, behind its class
};

constexpr Drawing kDrawings[] = {
    {"Augmented",
     "crop_size: 4 mirror: true rotate_param { max_degrees: 20 } blur_param { prob: 0.5 } "
     "distort_param { brightness_prob: 0.5 brightness_delta: 32 } "
     "erase_param { prob: 0.5 noise: true } "
     "random_crop_param { prob: 0.5 min_area: 0.3 }",
     "", ""},
    {"Mixup", "crop_size: 4 mirror: true num_labels: 2 mixup_param { alpha: 0.4 }", "", ""},
    {"Cutmix", "crop_size: 4 num_labels: 2 cutmix_param { prob: 0.5 }", "", ""},
    {"FloatLabels", "mirror: true", "", "0.25 -3"},
    {"SkipsBadOnes", "crop_size: 5 mirror: true", "on_bad_record: SKIP", ""},
};

class DrawnSource : public testing::TestWithParam<std::tuple<const char*, Drawing>> {
 protected:
  void SetUp() override {
    const std::string why = why_not(std::get<0>(GetParam()));
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

/// Records are images of 6 x 6 pixels: what is drawn shows.
TEST_P(DrawnSource, ResumesInTheMiddleOfAnEpochWithTheSameBits) {
  const auto& [source, drawing] = GetParam();
  const bool skips = std::strstr(drawing.settings, "SKIP") != nullptr;
  const Sources sources(23, skips ? std::set<int>{0, 5, 6, 22} : std::set<int>{},
                        {.side = 6, .labels = drawing.labels});
  const auto layer = [&, source = source, drawing = drawing](const char* threads) {
    LayerCase made =
        sources.layer(source, text("batch_size: 5 shuffle: true ", drawing.settings, " ", threads));
    made.layer.insert(made.layer.rfind('}'), text(" transform_param { ", drawing.transform, " }"));
    return made;
  };
  std::vector<std::vector<double>> pixels, labels;
  for (const char* threads : {"threads: 1", "threads: 4"}) {
    // 3 batches: within an epoch; 5: in the batch that ends it.
    for (const int batches : {3, 5}) test::expect_resumes(layer(threads), batches);
    LayerRun run(layer(threads)), other(layer(threads));
    pixels.push_back(next_values(run, 10));
    labels.push_back(next_values(other, 10, 1));
    const std::vector<double>& drawn = pixels.back();
    EXPECT_NE(std::vector(drawn.begin(), drawn.begin() + 5 * 16),
              std::vector(drawn.begin() + 5 * 16, drawn.begin() + 10 * 16));
  }
  EXPECT_EQ(pixels[0], pixels[1]);
  EXPECT_EQ(labels[0], labels[1]);
}

INSTANTIATE_TEST_SUITE_P(
    Data, DrawnSource, testing::Combine(testing::ValuesIn(kSources), testing::ValuesIn(kDrawings)),
    [](const auto& one) { return text(std::get<0>(one.param), std::get<1>(one.param).name); });

INSTANTIATE_TEST_SUITE_P(Data, EachSource, testing::ValuesIn(kSources),
                         [](const auto& source) { return std::string(source.param); });

class SkippingSource : public EachSource {};

TEST_P(SkippingSource, TheNextGoodRecordTakesThePlaceOfABadOne) {
  const Sources sources(10, {0, 3, 4, 9});
  LayerRun run(sources.layer(GetParam(), "batch_size: 10 on_bad_record: SKIP"));
  run.forward();
  if (GetParam() == std::string("FOLDER")) {
    // 0 2 4 6 8 1 3 5 7 9
    EXPECT_THAT(run.top(0), ElementsAre(2, 2, 6, 6, 8, 1, 5, 5, 7, 2));
  } else {
    EXPECT_THAT(run.top(0), ElementsAre(1, 1, 2, 5, 5, 5, 6, 7, 8, 1));
  }
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(static_cast<int>(run.top(0)[i]) % 2, run.top(1)[i]);
    EXPECT_THAT(source_of(run).record_key(static_cast<int64_t>(i)),
                HasSubstr(text("00", run.top(0)[i])));
  }
}

TEST_P(SkippingSource, ResumesBitEqually) {
  const Sources sources(23, {0, 5, 6, 7, 22});
  for (const char* settings : {"threads: 1", "threads: 3", "threads: 3 shuffle: true"}) {
    test::expect_resumes(
        sources.layer(GetParam(), text("batch_size: 5 on_bad_record: SKIP ", settings)), 3);
  }
}

TEST_P(SkippingSource, BadRecordsAreErrorsWithoutIt) {
  const Sources sources(4, {1});
  LayerRun run(sources.layer(GetParam(), "batch_size: 4"));
  expect_error([&] { run.forward(); }, {"001.pgm", "cannot be decoded"});
  const Sources none(4, {0, 1, 2, 3});
  expect_error([&] { LayerRun{none.layer(GetParam(), "batch_size: 1 on_bad_record: SKIP")}; },
               {"none of its 4 records can be used", "000.pgm", "cannot be decoded"});
}

INSTANTIATE_TEST_SUITE_P(Data, SkippingSource, testing::ValuesIn(kSources),
                         [](const auto& source) { return std::string(source.param); });

TEST(DataSources, SettingsOfOtherBackendsAreErrors) {
  const auto fails = [](const std::string& settings,
                        std::initializer_list<std::string_view> words) {
    expect_error(
        [&] {
          LayerRun run({.layer = text("layer { type: 'Data' data_param { batch_size: 1 ", settings,
                                      " } }")});
        },
        words);
  };
  fails("source: 'x' backend: LMDB root_folder: 'y'", {"root_folder", "IMAGE_LIST", "LMDB"});
  fails("source: 'x' backend: LMDB class_names: 'y'", {"class_names", "FOLDER, TAR or IMAGE_LIST"});
  fails("source: 'x' backend: FOLDER lock: NONE", {"lock", "LMDB or LEVELDB"});
  fails("backend: FOLDER", {"no source"});
  fails("source: 'no_such' backend: FOLDER", {"'no_such' is no folder"});
  fails("source: 'no_such' backend: IMAGE_LIST", {"cannot open the list 'no_such'"});
}

TEST(DataSources, ListsMayNameTheirClasses) {
  const TempFolder folder;
  const std::string list = folder.write("list.txt", "a.png 0\nb.png 2\n");
  const std::string names = folder.write("names.txt", "ant\nbee\n");
  expect_error([&] { (void)open_image_list(list, "", names); },
               {"list.txt:2", "'b.png' has the label 2", "names of 2 classes"});
  folder.write("names.txt", "ant\nbee\ncat\n");
  EXPECT_EQ(open_image_list(list, "", names)->class_names(),
            (std::vector<std::string>{"ant", "bee", "cat"}));
}

}  // namespace
}  // namespace crema
