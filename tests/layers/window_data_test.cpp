#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "layers/window_data/window_cut.hpp"
#include "model/binary_format.hpp"
#include "model/blob_message.hpp"
#include "proto/blob.pb.h"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::source_of;
using testing::Each;
using testing::ElementsAre;

// --- The cut -----------------------------------------------------------------------------------

const WindowImage kImage{.path = "", .height = 20, .width = 30};

std::vector<int64_t> places(const WindowCut& cut) {
  return {cut.left,    cut.top,    cut.width,    cut.height,
          cut.to_left, cut.to_top, cut.to_width, cut.to_height};
}

TEST(WindowCut, WithoutContextItIsTheWindow) {
  const Window window{.x1 = 3, .y1 = 4, .x2 = 12, .y2 = 7};
  EXPECT_THAT(places(cut_of(window, kImage, {.crop = 8}, false)),
              ElementsAre(3, 4, 10, 4, 0, 0, 8, 8));
}

// The published arithmetic by hand: the window of 10 x 4 pixels has its centre at (8, 6), counting
// edges of pixels; 8 / (8 - 2 * 2) doubles it: x from 8 - 10 to 8 + 10, y from 6 - 4 to 6 + 4.
TEST(WindowCut, ContextGrowsTheWindowAndPadsBeyondTheImage) {
  const Window window{.x1 = 3, .y1 = 4, .x2 = 12, .y2 = 7};
  const CutRules rules{.crop = 8, .context_pad = 2};
  // x: [-2, 18] of 21 pixels, 2 of them outside: 8 / 21 * 2 rounds to 1, 8 / 21 * 19 to 7.
  // y: [2, 10] of 9 pixels.
  EXPECT_THAT(places(cut_of(window, kImage, rules, false)), ElementsAre(0, 2, 19, 9, 1, 0, 7, 8));
  // Padding is mirrored, too.
  EXPECT_THAT(places(cut_of(window, kImage, rules, true)), ElementsAre(0, 2, 19, 9, 0, 0, 7, 8));
}

TEST(WindowCut, SquareTakesTheLongerSide) {
  const Window window{.x1 = 10, .y1 = 8, .x2 = 19, .y2 = 11};  // 10 x 4, centre (15, 10)
  EXPECT_THAT(places(cut_of(window, kImage, {.crop = 8, .square = true}, false)),
              ElementsAre(10, 5, 11, 11, 0, 0, 8, 8));
}

TEST(WindowCut, AlwaysFits) {
  for (int32_t x1 = -5; x1 < 30; x1 += 3) {
    for (int32_t x2 = std::max(x1, 0); x2 < 40; x2 += 4) {
      for (const int64_t pad : {0, 1, 3}) {
        for (const bool mirrored : {false, true}) {
          const Window window{.x1 = x1, .y1 = 19, .x2 = x2, .y2 = 60};
          const WindowCut cut =
              cut_of(window, kImage, {.crop = 8, .context_pad = pad, .square = pad == 1}, mirrored);
          EXPECT_TRUE(cut.left >= 0 && cut.width >= 1 && cut.left + cut.width <= 30) << x1 << x2;
          EXPECT_TRUE(cut.top >= 0 && cut.height >= 1 && cut.top + cut.height <= 20) << x1 << x2;
          EXPECT_TRUE(cut.to_left >= 0 && cut.to_width >= 1 && cut.to_left + cut.to_width <= 8);
          EXPECT_TRUE(cut.to_top >= 0 && cut.to_height >= 1 && cut.to_top + cut.to_height <= 8);
        }
      }
    }
  }
}

// --- The layer ---------------------------------------------------------------------------------

class WindowData : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    // 4 x 6 pixels, pixel (h, w) is 10 h + w in all channels.
    std::string pixels;
    for (int h = 0; h < 4; ++h) {
      for (int w = 0; w < 6; ++w) pixels += std::string(3, static_cast<char>(10 * h + w));
    }
    folder_.write("a.ppm", test::ppm(4, 6, pixels));
    folder_.write("b.ppm", test::ppm(2, 2, std::string(12, 'b')));
  }
  /// Two images: a.ppm with windows of classes 1 and 2 and of background, b.ppm with one ignored.
  static std::string windows() {
    return "# 0\na.ppm\n3\n4\n6\n4\n"
           "1 1.0 1 1 2 2\n"
           "2 0.5 4 0 5 1\n"
           "5 0.2 0 0 1 1\n"
           "0 0 0 2 1 3\n"
           "# 1\nb.ppm\n3 2 2\n1\n3 0.4 0 0 1 1\n";
  }
  LayerCase layer(const std::string& prototxt, const std::string& settings,
                  const std::string& transform = "crop_size: 2") {
    return {.layer = text("layer { type: 'WindowData' top: 'data' top: 'label' transform_param { ",
                          transform, " } window_data_param { source: '",
                          folder_.write("windows.txt", prototxt), "' root_folder: '",
                          folder_.path().string(), "/' ", settings, " } }")};
  }
  void fails(const LayerCase& wrong, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun{wrong}; }, words);
  }
  test::ScratchFolder folder_;
};

TEST_F(WindowData, BackgroundComesFirstThenForeground) {
  LayerRun run(layer(windows(), "batch_size: 10 fg_fraction: 0.4 bg_threshold: 0.3"));
  std::set<double> labels;
  std::map<double, int> corners;  // by the first pixel, which tells the window
  for (int batch = 0; batch < 20; ++batch) {
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{10, 3, 2, 2}));
    for (size_t n = 0; n < 10; ++n) {
      const double label = run.top(1)[n], corner = run.top(0)[n * 12];
      EXPECT_EQ(n < 6, label == 0) << n;
      EXPECT_EQ(label, corner == 11 ? 1 : corner == 4 ? 2 : 0);
      ++corners[corner];
    }
  }
  // All windows come up, but the one between the thresholds.
  ASSERT_EQ(corners.size(), 4u);
  for (const double corner : {11, 4, 0, 20}) EXPECT_GT(corners[corner], 20) << corner;
  EXPECT_NE(source_of(run).record_key(0).find("a.ppm, window of line "), std::string::npos);
}

TEST_F(WindowData, TracesHaveItsWindows) {
  const auto spans = test::spans_of(layer(windows(), "batch_size: 4 bg_threshold: 0.3"), 3);
  for (const SpanKind kind : {SpanKind::read, SpanKind::decode, SpanKind::transform})
    EXPECT_GE(spans.count(kind) > 0 ? spans.at(kind) : 0, 12) << to_string(kind);
}

TEST_F(WindowData, WarpsPixelsWithMeanAndScale) {
  const std::string one = "# 0\na.ppm\n3\n4\n6\n1\n1 1.0 1 1 2 2\n";
  LayerRun run(layer(one, "batch_size: 1 fg_fraction: 1 scale: 2", "crop_size: 2 mean_value: 1"));
  EXPECT_THAT(next_values(run, 1), ElementsAre(20, 22, 40, 42, 20, 22, 40, 42, 20, 22, 40, 42));
}

TEST_F(WindowData, MirrorsEveryOtherWindowAndItsPadding) {
  // Context doubles the window to x from -1 to 3 and y from 0 to 4: one pixel of 5 is outside, left
  // and below, rounded to one of 4.
  const std::string one = "# 0\na.ppm\n3\n4\n6\n1\n1 1.0 0 1 1 2\n";
  LayerRun run(layer(one, "batch_size: 64 fg_fraction: 1 context_pad: 1",
                     "crop_size: 4 mirror: true mean_value: 100"));
  run.forward();
  int mirrored = 0;
  for (size_t n = 0; n < 64; ++n) {
    const double* sample = run.top(0).data() + n * 48;
    const bool is_mirrored = sample[3] == 0;
    mirrored += is_mirrored;
    for (int h = 0; h < 3; ++h) {
      EXPECT_EQ(sample[4 * h + (is_mirrored ? 3 : 0)], 0);  // padding is the mean
      EXPECT_LT(sample[4 * h + (is_mirrored ? 0 : 3)], 0);
      EXPECT_EQ(sample[4 * h + 1] > sample[4 * h + 2], is_mirrored);
    }
    for (int w = 0; w < 4; ++w) EXPECT_EQ(sample[12 + w], 0);  // below the image
  }
  EXPECT_GT(mirrored, 15);
  EXPECT_LT(mirrored, 49);
}

TEST_F(WindowData, TheMeanImageLiesAroundTheSample) {
  BlobProto mean;
  Tensor values({3, 4, 4});
  float* const value = values.overwrite<float>();
  for (int i = 0; i < 48; ++i) value[i] = static_cast<float>(i);
  save_values(values, mean);
  const std::string file = folder_ / "mean.binaryproto";
  write_binary_proto_atomically(file, mean);
  const std::string one = "# 0\nb.ppm\n3\n2\n2\n1\n1 1.0 0 0 1 1\n";
  LayerRun run(
      layer(one, "batch_size: 1 fg_fraction: 1", "crop_size: 2 mean_file: '" + file + "'"));
  // Rows 1 and 2, columns 1 and 2 of each channel.
  const auto b = static_cast<double>('b');
  EXPECT_THAT(next_values(run, 1), ElementsAre(b - 5, b - 6, b - 9, b - 10, b - 21, b - 22, b - 25,
                                               b - 26, b - 37, b - 38, b - 41, b - 42));
  fails(layer(one, "batch_size: 1 fg_fraction: 1", "crop_size: 5 mean_file: '" + file + "'"),
        {"mean_file is of 3x4x4", "3x5x5"});
}

TEST_F(WindowData, ResumesAndDependsOnTheSeed) {
  const LayerCase drawn =
      layer(windows(), "batch_size: 7 fg_fraction: 0.5", "crop_size: 3 mirror: true");
  test::expect_resumes(drawn, 3);
  LayerCase other = drawn;
  other.seed = 5;
  LayerRun a(drawn), b(other);
  EXPECT_NE(next_values(a, 3), next_values(b, 3));
}

TEST_F(WindowData, CachedImagesNeedNoFile) {
  LayerRun cached(layer(windows(), "batch_size: 4 cache_images: true"));
  LayerRun reads(layer(windows(), "batch_size: 4"));
  std::filesystem::remove(folder_ / "a.ppm");
  EXPECT_EQ(next_values(cached, 1).size(), 48u);
  expect_error([&] { reads.forward(); }, {"windows.txt:2", "a.ppm", "No such file or directory"});
  fails(layer(windows(), "batch_size: 4 cache_images: true"), {"windows.txt:2", "a.ppm"});
}

TEST_F(WindowData, WindowFilesThatAreNoneAreErrorsOfTheirLine) {
  const auto bad = [&](const std::string& text, std::initializer_list<std::string_view> words) {
    fails(layer(text, "batch_size: 1 fg_fraction: 1"), words);
  };
  const std::string head = "# 0\na.ppm\n3\n4\n6\n1\n";
  bad("", {"no images"});
  bad("a.ppm\n", {"windows.txt:1", "'a.ppm'", "# image_index"});
  bad("# 0\na.ppm\n1\n4\n6\n0\n", {"windows.txt:3", "1 channels", "3"});
  bad("# 0\na.ppm\n3\n0\n", {"windows.txt:4", "height of an image is 0"});
  bad("# 0\na.ppm\n3\n4\n6\n2\n1 1 0 0 1 1\n", {"ends where a class of a window"});
  bad(head + "1 1 0 0 1 1\n1 1 0 0 1 1\n", {"windows.txt:8", "number of windows before it"});
  bad(head + "1 x 0 0 1 1\n", {"windows.txt:7", "'x' is no overlap"});
  bad(head + "1 1 0.5 0 1 1\n", {"windows.txt:7", "'0.5' is no x1"});
  bad(head + "1 nan 0 0 1 1\n", {"overlap of a window is nan"});
  bad(head + "0 0.9 0 0 1 1\n", {"windows.txt:7", "class 0", "fg_threshold 0.5"});
  bad(head + "1 1 2 0 1 1\n", {"2 0 1 1", "no pixels"});
  bad(head + "1 1 6 0 7 1\n", {"6 0 7 1", "outside", "6 x 4"});
  bad(head + "1 1 5 0 6 1\n", {"5 0 6 1", "beyond"});
  bad(head + "1 0.1 0 0 1 1\n", {"no window of overlap 0.5 or more"});
  fails(layer(head + "1 1 0 0 1 1\n", "batch_size: 1"), {"overlap below 0.5", "fg_fraction: 1"});
  LayerRun label(layer(head + "16777217 1 0 0 1 1\n", "batch_size: 1 fg_fraction: 1"));
  expect_error([&] { label.forward(); }, {"a.ppm, window of line 7", "label 16777217", "f32"});
  LayerRun size(layer("# 0\na.ppm\n3\n5\n6\n1\n1 1 0 0 1 1\n", "batch_size: 1 fg_fraction: 1"));
  expect_error([&] { size.forward(); }, {"windows.txt:2", "a.ppm", "4 x 6", "5 x 6"});
}

// The mark stood before the first "#".
TEST_F(WindowData, AByteOrderMarkIsNoPartOfTheText) {
  LayerRun run(layer("\xEF\xBB\xBF" + windows(), "batch_size: 1 bg_threshold: 0.3"));
  run.forward();
  fails(layer(std::string("\xFF\xFE#\0 \0", 6) + "0", "batch_size: 1"), {"save it as UTF-8"});
}

TEST_F(WindowData, SettingsThatCannotWorkAreErrors) {
  fails({.layer = "layer { type: 'WindowData' window_data_param { batch_size: 1 } }"},
        {"no source"});
  fails({.layer = "layer { type: 'WindowData' transform_param { crop_size: 2 } window_data_param {"
                  " batch_size: 1 source: 'none.txt' } }"},
        {"cannot open the window file 'none.txt'"});
  fails({.layer = text("layer { type: 'WindowData' transform_param { crop_size: 2 } "
                       "window_data_param { batch_size: 1 source: '",
                       folder_.path().string(), "' } }")},
        {"cannot read the window file"});
  fails(layer(windows(), ""), {"no batch_size"});
  fails(layer(windows(), "batch_size: 1", ""), {"no crop_size"});
  fails(layer(windows(), "batch_size: 1 crop_size: 2"),
        {"window_data_param { crop_size }", "transform_param { crop_size }"});
  fails(layer(windows(), "batch_size: 1 scale: 2", "crop_size: 2 scale: 3"), {"both", "scale"});
  fails(layer(windows(), "batch_size: 1 context_pad: 1"), {"context_pad 1", "crop_size 2"});
  fails(layer(windows(), "batch_size: 1 crop_mode: 'sqare'"), {"'sqare'", "'square'"});
  fails(layer(windows(), "batch_size: 1 fg_fraction: 1.5"), {"fg_fraction is 1.5"});
  fails(layer(windows(), "batch_size: 1 fg_fraction: nan"), {"fg_fraction is nan"});
  fails(layer(windows(), "batch_size: 1", "crop_size: 2 mean_value: 1 mean_value: 2"),
        {"2 mean_value for 3 channels"});
}

TEST_F(WindowData, AugmentationIsAnError) {
  for (const std::string field :
       {"resize_param { height: 3 width: 3 }", "random_crop_param {}", "rotate_param {}",
        "blur_param {}", "erase_param {}", "mixup_param {}", "cutmix_param {}", "num_labels: 3",
        "noise_param {}", "expand_param {}", "distort_param {}", "random_resize_param {}",
        "random_aspect_ratio_param {}", "bgr2rgb: true", "crop_h: 2", "crop_w: 2",
        "img_rand_resize_lower: 2", "img_rand_resize_upper: 2"}) {
    const std::string name = field.substr(0, field.find_first_of(" :"));
    fails(layer(windows(), "batch_size: 1", "crop_size: 2 " + field),
          {text("transform_param { ", name, " }"), "not implemented"});
  }
}

}  // namespace
}  // namespace crema
