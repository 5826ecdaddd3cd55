// DenseImageData: label maps go where their images go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <set>

#include "support/database.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using testing::ElementsAre;

class DenseImageData : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }
  /// A gray image and a map with the same values.
  std::string twins(const std::string& name, int height, int width) {
    std::string pixels;
    for (int i = 0; i < height * width; ++i) pixels += static_cast<char>(i * 5 % 250 + 1);
    folder_.write(name + ".pgm", test::pgm(height, width, pixels));
    folder_.write(name + "_map.pgm", test::pgm(height, width, pixels));
    return text(name, ".pgm ", name, "_map.pgm\n");
  }
  LayerCase layer(const std::string& list, const std::string& settings = "is_color: false",
                  const std::string& transform = "", Phase phase = Phase::train) {
    return {.layer = text("layer { type: 'DenseImageData' top: 'data' top: 'label' "
                          "transform_param { ",
                          transform, " } dense_image_data_param { source: '",
                          folder_.write("list.txt", list), "' root_folder: '",
                          folder_.path().string(), "' ", settings, " } }"),
            .phase = phase};
  }
  void fails(const LayerCase& wrong, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun(wrong).forward(); }, words);
  }
  test::ScratchFolder folder_;
};

TEST_F(DenseImageData, GivesImagesAndMaps) {
  folder_.write("my a.ppm", test::ppm(1, 2, "\1\2\3\4\5\6"));
  folder_.write("b.ppm", test::ppm(1, 2, "\7\7\7\x8\x8\x8"));
  folder_.write("a.pgm", test::pgm(1, 2, std::string("\0\xff", 2)));
  folder_.write("b.pgm", test::pgm(1, 2, "\3\4"));
  LayerRun run(
      layer("my a.ppm a.pgm\n\nb.ppm\tb.pgm \n", "batch_size: 2", "scale: 2 mean_value: 1"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 3, 1, 2}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{2, 1, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(4, 10, 2, 8, 0, 6, 12, 14, 12, 14, 12, 14));
  EXPECT_THAT(run.top(1), ElementsAre(0, 255, 3, 4));
  EXPECT_EQ(test::source_of(run).record_key(1), "line 3: " + (folder_ / "b.ppm"));
}

TEST_F(DenseImageData, TracesHaveItsMaps) {
  const auto spans = test::spans_of(
      layer(twins("a", 4, 5) + twins("b", 4, 5), "batch_size: 2 is_color: false"), 3);
  // Of each image and of each map.
  for (const SpanKind kind : {SpanKind::decode, SpanKind::transform})
    EXPECT_GE(spans.count(kind) > 0 ? spans.at(kind) : 0, 12) << to_string(kind);
}

TEST_F(DenseImageData, DividesLabelsWithoutTheFraction) {
  folder_.write("a.pgm", test::pgm(1, 3, "abc"));
  folder_.write("m.pgm", test::pgm(1, 3, std::string("\0\x7f\xff", 3)));
  LayerRun run(layer("a.pgm m.pgm", "is_color: false label_divide_factor: 127"));
  run.forward();
  EXPECT_THAT(run.top(1), ElementsAre(0, 1, 2));
  fails(layer("a.pgm m.pgm", "is_color: false label_divide_factor: 0"), {"label_divide_factor"});
}

/// The image and its map have the same values: so they have behind cropping and mirroring.
TEST_F(DenseImageData, MapsAreCroppedAndMirroredWithTheirImages) {
  const std::string list = twins("a", 7, 9) + twins("b", 8, 6);
  LayerRun run(
      layer(list, "is_color: false batch_size: 2 shuffle: true", "mirror: true crop_size: 5"));
  std::set<std::vector<double>> different;
  for (int i = 0; i < 12; ++i) {
    run.forward();
    EXPECT_EQ(run.top(0), run.top(1));
    different.insert(run.top(0));
  }
  EXPECT_GT(different.size(), 8U);
}

/// By hand: 2 x 2 becomes 4 x 4, each label four times; the centre 2 x 2 has one of each.
TEST_F(DenseImageData, MapsAreResizedToTheNearestLabel) {
  folder_.write("a.pgm", test::pgm(2, 2, "abcd"));
  folder_.write("m.pgm", test::pgm(2, 2, "\1\2\3\4"));
  LayerRun run(layer("a.pgm m.pgm", "is_color: false new_height: 4 new_width: 4"));
  run.forward();
  EXPECT_THAT(run.top(1), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4));
  LayerRun crop(layer("a.pgm m.pgm", "is_color: false new_height: 4 new_width: 4", "crop_size: 2",
                      Phase::test));
  crop.forward();
  EXPECT_THAT(crop.top(1), ElementsAre(1, 2, 3, 4));
}

/// What padding brings in has label 255: 1 x 2 on 2 x 2 has half a row above and below.
TEST_F(DenseImageData, MapsFollowStepsOfAugmentation) {
  folder_.write("a.pgm", test::pgm(2, 4, "abcdefgh"));
  folder_.write("m.pgm", test::pgm(2, 4, "\1\2\3\4\5\6\7\x8"));
  LayerRun run(layer("a.pgm m.pgm", "is_color: false",
                     "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 4 width: 4 }"));
  run.forward();
  EXPECT_THAT(run.top(1),
              ElementsAre(255, 255, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8, 255, 255, 255, 255));
  LayerRun twins_run(layer(twins("t", 12, 12), "is_color: false",
                           "resize_param { height: 24 width: 24 interp_mode: NEAREST } "
                           "expand_param { max_expand_ratio: 1 }"));
  twins_run.forward();
  EXPECT_EQ(twins_run.top(0), twins_run.top(1));
}

TEST_F(DenseImageData, FollowsSizesOfSingleImagesAndResumes) {
  std::string list;
  for (int i = 0; i < 7; ++i) list += twins(text("n", i), 3 + i % 3, 4);
  LayerRun run(layer(list));
  EXPECT_EQ(run.layer().top_shapes(), TopShapes::per_batch);
  const LayerCase drawn =
      layer(list, "is_color: false batch_size: 2 shuffle: true", "mirror: true crop_size: 3");
  test::expect_resumes(drawn, 2);
  test::expect_resumes(drawn, 5);
}

TEST_F(DenseImageData, IsTheSameForAnyNumberOfThreads) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs two cores";
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  std::string list;
  for (int i = 0; i < 7; ++i) list += twins(text("n", i), 9 + i % 3, 12);
  const LayerCase drawn =
      layer(list, "is_color: false batch_size: 3 shuffle: true",
            "mirror: true crop_size: 5 resize_param { height: 14 width: 16 interp_mode: LINEAR } "
            "expand_param { prob: 0.5 max_expand_ratio: 2 }");
  // A thread a core, up to four.
  const auto batches = [&](const cpu_set_t& cores) {
    EXPECT_EQ(sched_setaffinity(0, sizeof(cores), &cores), 0);
    std::vector<std::vector<double>> tops;
    LayerRun run(drawn);
    for (int b = 0; b < 12; ++b) {
      run.forward();
      tops.push_back(run.top(0));
      tops.push_back(run.top(1));
    }
    return tops;
  };
  const auto alone = batches(one);
  EXPECT_EQ(batches(all), alone);
  EXPECT_GT(std::set(alone.begin(), alone.end()).size(), 20U);
}

TEST_F(DenseImageData, OneTopReadsNoMaps) {
  folder_.write("a.pgm", test::pgm(1, 1, "a"));
  LayerCase one = layer("a.pgm nowhere.png");
  one.layer.replace(one.layer.find("top: 'label'"), 12, "");
  LayerRun run(one);
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre('a'));
}

// As PASCAL VOC has its maps: the colours are for the eye.
TEST_F(DenseImageData, IndicesOfAPaletteAreLabels) {
  if (!test::kBuiltWithLibpng) GTEST_SKIP() << "needs libpng: configure with CREMA_LIBPNG=ON";
  folder_.write("a.pgm", test::pgm(2, 2, "abcd"));
  std::string palette("\0\0\0\x80\0\0\0\x80\0", 9);
  palette.resize(255 * 3, '\0');
  palette += "\xe0\xe0\xc0";
  folder_.write("map.png", test::png_file({0, 1, 2, 255}, 2, 2, {.color = 3, .palette = palette}));
  const LayerCase one = layer("a.pgm map.png");
  LayerRun run(one);
  run.forward();
  EXPECT_THAT(run.top(1), ElementsAre(0, 1, 2, 255));
}

// A photo of a camera that was held upright, and the map that a tool drew on it.
TEST_F(DenseImageData, ImageAndMapAreTurnedEachByItsOwnOrientation) {
  std::string lying, upright, map;
  for (int i = 0; i < 6; ++i) lying += static_cast<char>(10 * i);
  // Orientation 6: the file's first row is the picture's last column.
  upright = std::string("\x1e\x00\x28\x0a\x32\x14", 6);
  const auto samples = [](const std::string& pixels) {
    return std::vector<uint16_t>(pixels.begin(), pixels.end());
  };
  folder_.write("photo.png",
                test::png_file(samples(lying), 2, 3, {.color = 0, .exif = test::exif(6)}));
  folder_.write("map.pgm", test::pgm(3, 2, upright));
  folder_.write("turned.png",
                test::png_file(samples(lying), 2, 3, {.color = 0, .exif = test::exif(6)}));
  for (const char* line : {"photo.png map.pgm", "photo.png turned.png"}) {
    const LayerCase one = layer(line);
    LayerRun run(one);
    run.forward();
    EXPECT_EQ(run.top_blob(1).shape(), (Shape{1, 1, 3, 2})) << line;
    EXPECT_THAT(run.top(0), ElementsAre(30, 0, 40, 10, 50, 20)) << line;
    EXPECT_THAT(run.top(1), ElementsAre(30, 0, 40, 10, 50, 20)) << line;
  }
}

TEST_F(DenseImageData, RefusesMapsThatHaveNoLabels) {
  folder_.write("a.pgm", test::pgm(2, 2, "abcd"));
  folder_.write("colour.ppm", test::ppm(2, 2, "aaabbbcccdde"));
  folder_.write("large.pgm", test::pgm(2, 3, "abcdef"));
  fails(layer("a.pgm colour.ppm"), {"list.txt:1", "colour.ppm", "row 1, column 1", "gray"});
  fails(layer("a.pgm large.pgm"), {"list.txt:1", "2 x 3", "2 x 2", "the map of this image"});
  // The map of another image, of the next line of a list whose maps are shifted, say.
  folder_.write("high.pgm", test::pgm(6, 4, std::string(24, 'a')));
  fails(layer("a.pgm high.pgm", "is_color: false new_height: 4 new_width: 4"),
        {"list.txt:1", "6 x 4", "2 x 2", "the map of this image"});
  fails(layer("high.pgm a.pgm", "is_color: false new_height: 2 new_width: 2"),
        {"list.txt:1", "2 x 2", "6 x 4", "the map of this image"});
  fails(layer("a.pgm nowhere.png"), {"nowhere.png", "cannot open"});
  fails(layer("a.pgm"), {"list.txt:1", "'a.pgm'", "image labelmap"});
  fails(layer("a.pgm a.pgm", "is_color: false new_height: 4"), {"new_height 4", "new_width 0"});
  fails(layer("a.pgm a.pgm", "is_color: false", "num_labels: 5"), {"num_labels"});
  fails({.layer = "layer { type: 'DenseImageData' top: 'data' }"}, {"no source"});
}

}  // namespace
}  // namespace crema
