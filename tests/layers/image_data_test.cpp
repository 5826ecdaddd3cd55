#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "support/database.hpp"
#include "support/needs.hpp"
#include "support/paths.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::source_of;
using testing::Each;
using testing::ElementsAre;

class ImageData : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    // One row of two pixels: (1, 2, 3) and (4, 5, 6) as R, G, B.
    folder_.write("images/my cat.ppm", test::ppm(1, 2, "\1\2\3\4\5\6"));
    folder_.write("images/b.ppm", test::ppm(1, 2, "\7\7\7\x8\x8\x8"));
    folder_.write("images/large.pgm", test::pgm(4, 4, std::string(16, 'a')));
  }
  LayerCase layer(const std::string& list, const std::string& settings,
                  const std::string& transform = "") {
    return {.layer =
                text("layer { type: 'ImageData' top: 'data' top: 'label' transform_param { ",
                     transform, " } image_data_param { source: '", folder_.write("list.txt", list),
                     "' root_folder: '", folder_ / "images", "' ", settings, " } }")};
  }
  void fails(const LayerCase& wrong, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun{wrong}; }, words);
  }
  /// A list of `count` images of one pixel, whose values and labels are their numbers.
  std::string numbered(int count) {
    std::string list;
    for (int i = 0; i < count; ++i) {
      folder_.write(text("images/", i, ".pgm"), test::pgm(1, 1, std::string(1, char(i))));
      list += text(i, ".pgm ", i, "\n");
    }
    return list;
  }
  test::ScratchFolder folder_;
};

TEST_F(ImageData, GivesPlanesInBlueGreenRedAndLabels) {
  LayerRun run(layer("my cat.ppm 3\n\nb.ppm 9 \n", "batch_size: 2", "scale: 2 mean_value: 1"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(4, 10, 2, 8, 0, 6, 12, 14, 12, 14, 12, 14));
  EXPECT_THAT(run.top(1), ElementsAre(3, 9));
  EXPECT_EQ(source_of(run).record_key(1), "line 3: " + (folder_ / "images/b.ppm"));
}

TEST_F(ImageData, SeveralLabelsAreRowsOfTop1) {
  LayerRun run(layer("my cat.ppm 3 0.5\nb.ppm -9 1e1\n", "batch_size: 2"));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{2, 2}));
  run.forward();
  EXPECT_THAT(run.top(1), ElementsAre(3, 0.5, -9, 10));
  fails(layer("my cat.ppm 3\nb.ppm 3 4\n", ""), {"list.txt:2", "the labels 3 4"});
}

TEST_F(ImageData, ReadsGrayAndWrapsWithBatchesOfOne) {
  LayerRun run(layer(numbered(3), "is_color: false"));
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_THAT(next_values(run, 5), ElementsAre(0, 1, 2, 0, 1));
}

TEST_F(ImageData, ResizesToOneSize) {
  const std::string list = "large.pgm 0\nb.ppm 1\n";
  LayerRun run(layer(list, "batch_size: 2 new_height: 3 new_width: 5 is_color: false"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 1, 3, 5}));
  EXPECT_THAT(std::vector<double>(run.top(0).begin(), run.top(0).begin() + 15), Each('a'));
  // Without it, or a crop, sizes have to agree.
  LayerRun mixed(layer(list, "batch_size: 2"));
  expect_error([&] { mixed.forward(); }, {"line 2: ", "b.ppm", "3x1x2", "3x4x4", "new_height"});
}

TEST_F(ImageData, BatchesOfOneFollowTheImages) {
  LayerRun run(layer("b.ppm 1\nlarge.pgm 2\n", ""));
  for (const Shape& shape : {Shape{1, 3, 1, 2}, Shape{1, 3, 4, 4}, Shape{1, 3, 1, 2}}) {
    Blob* const tops[] = {&run.top_blob(0), &run.top_blob(1)};
    run.layer().fetch(tops);
    EXPECT_EQ(run.top_blob(0).shape(), shape);
    run.forward();
  }
  expect_error([&] { run.forward(); }, {"1x3x1x2", "3x4x4", "fetch"});
}

TEST_F(ImageData, LargeFilesAreReadWhole) {
  const int side = 300;  // more than a file is read at once
  std::string pixels(side * side, 'x');
  pixels.back() = 'y';
  folder_.write("images/whole.pgm", test::pgm(side, side, pixels));
  LayerRun run(layer("whole.pgm 0", "is_color: false"));
  run.forward();
  EXPECT_EQ(run.top(0).back(), 'y');
  EXPECT_EQ(std::count(run.top(0).begin(), run.top(0).end(), 'x'), side * side - 1);
}

TEST_F(ImageData, CropsAndMirrors) {
  folder_.write("images/ramp.pgm", test::pgm(2, 2, "\1\2\3\4"));
  LayerRun run(layer("ramp.pgm 0", "batch_size: 64 is_color: false", "crop_size: 1 mirror: true"));
  run.forward();
  EXPECT_EQ(std::set<double>(run.top(0).begin(), run.top(0).end()), (std::set<double>{1, 2, 3, 4}));
  // Without a crop, both orders of the columns come up, and no other.
  LayerRun mirrors(layer("ramp.pgm 0", "batch_size: 64 is_color: false", "mirror: true"));
  mirrors.forward();
  std::set<std::vector<double>> orders;
  for (size_t n = 0; n < 64; ++n) {
    const auto sample = mirrors.top(0).begin() + static_cast<int64_t>(4 * n);
    orders.insert({sample, sample + 4});
  }
  EXPECT_EQ(orders, (std::set<std::vector<double>>{{1, 2, 3, 4}, {2, 1, 4, 3}}));
}

TEST_F(ImageData, KeysNeedNoFile) {
  LayerRun run(layer("b.ppm 9\n", ""));
  run.forward();
  std::filesystem::remove(folder_ / "images/b.ppm");
  EXPECT_EQ(source_of(run).record_key(0), "line 1: " + (folder_ / "images/b.ppm"));
}

TEST_F(ImageData, ShufflesAndResumes) {
  const std::string list = numbered(10);
  LayerRun run(layer(list, "batch_size: 10 is_color: false shuffle: true"));
  const std::vector<double> first = next_values(run, 1), second = next_values(run, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), 10u);
  const std::string settings = "batch_size: 4 is_color: false shuffle: true";
  for (const char* threads : {"", " threads: 1", " threads: 3"}) {
    test::expect_resumes(layer(list, settings + threads), 3);
  }
}

TEST_F(ImageData, RandSkipBeginsWithinTheFirstLines) {
  const std::string list = numbered(9);
  std::set<double> starts;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    LayerCase skips = layer(list, "is_color: false rand_skip: 4");
    skips.seed = seed;
    LayerRun run(skips);
    starts.insert(next_values(run, 1)[0]);
  }
  EXPECT_EQ(starts, (std::set<double>{0, 1, 2, 3}));
}

TEST_F(ImageData, BadImagesAreErrorsOfTheirLine) {
  folder_.write("images/no.jpg", "words");
  LayerRun missing(layer("b.ppm 0\nnone.jpg 1\n", ""));
  missing.forward();
  expect_error([&] { missing.forward(); },
               {"list.txt:2", "images/none.jpg", "No such file or directory"});
  LayerRun damaged(layer("b.ppm 0\nno.jpg 1\n", ""));
  damaged.forward();
  expect_error([&] { damaged.forward(); }, {"line 2: ", "no.jpg", "cannot be decoded"});
  fails(layer("none.jpg 1\n", ""), {"list.txt:1", "images/none.jpg"});
  LayerRun label(layer("b.ppm 16777217\n", ""));
  expect_error([&] { label.forward(); }, {"line 1: ", "16777217", "f32"});
}

TEST_F(ImageData, SettingsThatCannotWorkAreErrors) {
  fails({.layer = "layer { type: 'ImageData' }"}, {"image_data_param has no source"});
  fails(layer("b.ppm 1", "batch_size: 0"), {"no batch_size, or 0"});
  fails(layer("b.ppm", ""), {"list.txt:1", "'b.ppm' has no label"});
  fails(layer("\n", ""), {"is empty"});
  fails({.layer = "layer { type: 'ImageData' image_data_param { source: 'none.txt' } }"},
        {"cannot open the list 'none.txt'"});
  fails(layer("b.ppm 1", "new_height: 3"), {"new_height 3 and new_width 0"});
  fails(layer("b.ppm 1", "scale: 2"), {"image_data_param { scale }", "transform_param { scale }"});
  fails(layer("b.ppm 1", "short_side: 2"), {"short_side", "not implemented"});
  fails(layer("b.ppm 1", "", "force_gray: true"), {"force_gray", "is_color: true"});
  fails(layer("b.ppm 1", "is_color: false", "force_color: true"),
        {"force_color", "is_color: false"});
  fails(layer("b.ppm 1", "", "crop_size: 2"), {"line 1: ", "crop_size 2", "1 x 2"});
}

TEST_F(ImageData, ReadsPhotos) {
  const auto photos = test::shared_path("data/images");
  if (!std::filesystem::exists(photos))
    GTEST_SKIP() << "needs " << photos << ": set CREMA_SHARED_DIR";
  const std::string list = folder_.write("photos.txt", "cat.jpg 281\nfish-bike.jpg 1\n");
  LayerRun run({.layer = text("layer { type: 'ImageData' top: 'data' top: 'label' "
                              "image_data_param { source: '",
                              list, "' root_folder: '", photos.string(),
                              "/' batch_size: 2 new_height: 64 new_width: 48 } }")});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3, 64, 48}));
  EXPECT_THAT(run.top(1), ElementsAre(281, 1));
}

}  // namespace
}  // namespace crema
