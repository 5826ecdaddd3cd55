// DetectionOutput. Further values: the cases detectionoutput_* and net_ssd_test_0 of
// tests/golden/ssd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "core/carried_state.hpp"
#include "core/parallel.hpp"
#include "layer_support/boxes.hpp"
#include "support/layer_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

LayerCase detection_output(const std::string& settings, const std::vector<Input>& bottoms) {
  return {.layer = "layer { type: 'DetectionOutput' detection_output_param { " + settings + " } }",
          .bottoms = bottoms,
          .phase = Phase::test};
}

// Of three prior boxes the first two overlap by 0.6. Variances 0.1.
const std::vector<double> kPriors = {0,   0,   0.4, 1,   0.1, 0,   0.5, 1,   0.6, 0,   1,   1,
                                     0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
const Input kPriorBlob = given({1, 2, 12}, kPriors);

std::vector<std::vector<double>> rows(LayerRun& run) {
  run.forward();
  std::vector<std::vector<double>> result;
  const std::vector<double>& top = run.top(0);
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 1, static_cast<int64_t>(top.size() / 7), 7}));
  for (size_t r = 0; r < top.size() / 7; ++r) {
    result.emplace_back(top.begin() + 7 * r, top.begin() + 7 * r + 7);
  }
  return result;
}
/// Image, label and confidence of each row.
std::vector<std::vector<double>> heads(LayerRun& run) {
  std::vector<std::vector<double>> result = rows(run);
  for (auto& row : result) row.resize(3);
  return result;
}
using Rows = std::vector<std::vector<double>>;

/// Two images of three priors, classes 0 (background), 1 and 2; locations 0.
LayerCase two_images(const std::string& settings) {
  return detection_output("num_classes: 3 " + settings,
                          {given({2, 12}, std::vector<double>(24, 0)),
                           given({2, 9}, {0.125, 0.75, 0.125, 0, 0.5, 0.5, 0.5, 0.25, 0.25,  //
                                          1, 0, 0, 0.25, 0.25, 0.5, 0.875, 0, 0.125}),
                           kPriorBlob});
}

const RunOptions kF64{.dtype = DType::f64};

TEST(DetectionOutput, SuppressesInEachClass) {
  LayerRun run(two_images("nms_param { nms_threshold: 0.5 } confidence_threshold: 0.125"), kF64);
  EXPECT_EQ(
      heads(run),
      (Rows{{0, 1, 0.75}, {0, 1, 0.25}, {0, 2, 0.5}, {0, 2, 0.25}, {1, 1, 0.25}, {1, 2, 0.5}}));
  EXPECT_EQ(rows(run)[1], (std::vector<double>{0, 1, 0.25, 0.6, 0, 1, 1}));
}

TEST(DetectionOutput, WithoutThresholdAllAreCandidates) {
  LayerRun run(two_images("nms_param { nms_threshold: 1 }"), kF64);
  EXPECT_EQ(rows(run).size(), 12U);
  LayerRun top(two_images("nms_param { nms_threshold: 1 top_k: 1 }"), kF64);
  EXPECT_EQ(heads(top), (Rows{{0, 1, 0.75}, {0, 2, 0.5}, {1, 1, 0.25}, {1, 2, 0.5}}));
}

TEST(DetectionOutput, BackgroundsThatAreNotTheFirstClass) {
  LayerRun second(two_images("background_label_id: 1 nms_param { top_k: 1 }"), kF64);
  EXPECT_EQ(heads(second), (Rows{{0, 0, 0.5}, {0, 2, 0.5}, {1, 0, 1}, {1, 2, 0.5}}));
  LayerRun none(two_images("background_label_id: -1 nms_param { top_k: 1 }"), kF64);
  EXPECT_EQ(heads(none),
            (Rows{{0, 0, 0.5}, {0, 1, 0.75}, {0, 2, 0.5}, {1, 0, 1}, {1, 1, 0.25}, {1, 2, 0.5}}));
}

// Among equal confidences: the lower class, then the lower prior box.
TEST(DetectionOutput, OrderAmongEqualConfidences) {
  const auto all_equal = [](const std::string& settings) {
    return detection_output("num_classes: 3 nms_param { nms_threshold: 1 } " + settings,
                            {given({1, 12}, std::vector<double>(12, 0)),
                             given({1, 9}, std::vector<double>(9, 0.25)), kPriorBlob});
  };
  LayerRun all(all_equal(""), kF64);
  const Rows everything = rows(all);
  ASSERT_EQ(everything.size(), 6U);
  for (size_t r = 0; r < 6; ++r) {
    EXPECT_EQ(everything[r][1], r < 3 ? 1 : 2);
    EXPECT_EQ(everything[r][3], kPriors[r % 3 * 4]);
  }
  for (size_t keep = 1; keep < 6; ++keep) {
    LayerRun best(all_equal(text("keep_top_k: ", keep)), kF64);
    EXPECT_EQ(rows(best), (Rows{everything.begin(), everything.begin() + keep}));
  }
  LayerRun top(detection_output("num_classes: 3 nms_param { top_k: 1 }", all_equal("").bottoms),
               kF64);
  EXPECT_EQ(rows(top), (Rows{everything[0], everything[3]}));
}

TEST(DetectionOutput, KeepsTheBestOfAnImage) {
  LayerRun run(two_images("nms_param { nms_threshold: 1 } keep_top_k: 3"), kF64);
  EXPECT_EQ(
      heads(run),
      (Rows{{0, 1, 0.75}, {0, 1, 0.5}, {0, 2, 0.5}, {1, 1, 0.25}, {1, 2, 0.5}, {1, 2, 0.125}}));
}

TEST(DetectionOutput, WithoutAnyBoxOneRowAnImage) {
  LayerRun run(two_images("confidence_threshold: 2"), kF64);
  EXPECT_EQ(rows(run), (Rows{{0, -1, -1, -1, -1, -1, -1}, {1, -1, -1, -1, -1, -1, -1}}));
  // An image without boxes beside others has no row.
  LayerRun some(two_images("confidence_threshold: 0.5"), kF64);
  EXPECT_EQ(heads(some), (Rows{{0, 1, 0.75}}));
}

TEST(DetectionOutput, DecodesLocations) {
  const auto first_box = [](const std::string& settings, std::vector<double> location) {
    location.resize(12);
    LayerRun run(detection_output("num_classes: 2 nms_param { top_k: 1 } " + settings,
                                  {given({1, 12}, location),
                                   given({1, 6}, {0, 1, 0.5, 0.5, 0.5, 0.5}), kPriorBlob}),
                 kF64);
    const std::vector<double> row = rows(run).at(0);
    return std::vector<double>(row.begin() + 3, row.end());
  };
  const Tolerance close{1e-12, 1e-12};
  // Prior box 0, 0, 0.4, 1.
  expect_close(first_box("", {1, 2, 3, -4}), {0.1, 0.2, 0.7, 0.6}, close, "CORNER");
  expect_close(first_box("variance_encoded_in_target: true", {1, 2, 3, -4}), {1, 2, 3.4, -3}, close,
               "CORNER in target");
  expect_close(first_box("code_type: CORNER_SIZE", {1, 2, 3, -4}), {0.04, 0.2, 0.52, 0.6}, close,
               "CORNER_SIZE");
  const double w = 0.4 * std::exp(0.3) / 2, h = std::exp(-0.4) / 2;
  expect_close(first_box("code_type: CENTER_SIZE", {1, 2, 3, -4}),
               {0.24 - w, 0.7 - h, 0.24 + w, 0.7 + h}, close, "CENTER_SIZE");
}

TEST(DetectionOutput, LocationsOfEachClass) {
  std::vector<double> locations(24, 0);
  locations[1 * 4] = 1;        // class 1 of prior 0
  locations[(2 + 1) * 4] = 2;  // class 1 of prior 1
  const auto of = [&](const Shape& shape) {
    return detection_output(
        "num_classes: 2 share_location: false nms_param "
        "{ nms_threshold: 1 }",
        {given(shape, locations), given({1, 6}, {0, 0.5, 0, 0.25, 0, 0.125}), kPriorBlob});
  };
  for (const Shape& shape : {Shape{1, 24}, Shape{1, 3, 2, 4}, Shape{1, 6, 4}, Shape{1, 3, 8}}) {
    SCOPED_TRACE(shape.str());
    LayerRun run(of(shape), kF64);
    const Rows all = rows(run);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_DOUBLE_EQ(all[0][3], 0.1);
    EXPECT_DOUBLE_EQ(all[1][3], 0.1 + 0.2);
    EXPECT_DOUBLE_EQ(all[2][3], 0.6);
  }
  // The values of a prior, or of a box, are not neighbours.
  for (const Shape& shape : {Shape{1, 8, 3}, Shape{1, 2, 4, 3}, Shape{1, 12, 2}, Shape{1, 2, 12}})
    expect_error([&] { LayerRun(of(shape), kF64); }, {shape.str(), "last axis", "Permute"});
}

TEST(DetectionOutput, PriorsOfEachImage) {
  std::vector<double> priors = kPriors;
  for (const double value : kPriors) priors.push_back(value / 2);
  LayerCase c = two_images("nms_param { nms_threshold: 1 top_k: 1 }");
  c.bottoms[2] = given({2, 2, 12}, priors);
  LayerRun run(c, kF64);
  const Rows all = rows(run);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1][5], 0.5);   // prior 1
  EXPECT_EQ(all[3][5], 0.25);  // prior 1 of image 1
}

TEST(DetectionOutput, ShapesMayChange) {
  LayerRun run(two_images("nms_param { nms_threshold: 1 }"), kF64);
  EXPECT_EQ(rows(run).size(), 12U);
  run.reshape({given({1, 12}, std::vector<double>(12, 0)),
               given({1, 9}, std::vector<double>(9, 0.5)), kPriorBlob});
  EXPECT_EQ(rows(run).size(), 6U);
}

/// The definition, without any of the tricks.
Rows plainly(int64_t classes, const std::vector<float>& locations,
             const std::vector<float>& confidences, const std::vector<float>& priors, float least,
             float threshold, size_t top_k, size_t keep) {
  const size_t count = priors.size() / 8, images = confidences.size() / count / classes;
  const BoxCoder coder{BoxCode::center_size};
  Rows result;
  for (size_t n = 0; n < images; ++n) {
    struct Found {
      float score;
      int64_t label;
      size_t prior;
      BoundingBox<float> box;
    };
    std::vector<Found> kept;
    for (int64_t c = 1; c < classes; ++c) {
      std::vector<Found> candidates;
      for (size_t p = 0; p < count; ++p) {
        const float score = confidences[(n * count + p) * classes + c];
        if (score > least)
          candidates.push_back(
              {score, c, p,
               coder.decode(BoundingBox<float>::load(&priors[4 * p]), &priors[4 * (count + p)],
                            BoundingBox<float>::load(&locations[4 * (n * count + p)]))});
      }
      std::stable_sort(candidates.begin(), candidates.end(),
                       [](const Found& a, const Found& b) { return a.score > b.score; });
      if (candidates.size() > top_k) candidates.resize(top_k);
      std::vector<Found> of_class;
      for (const Found& one : candidates) {
        if (std::none_of(of_class.begin(), of_class.end(), [&](const Found& other) {
              return overlap(one.box, other.box) > threshold;
            }))
          of_class.push_back(one);
      }
      kept.insert(kept.end(), of_class.begin(), of_class.end());
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Found& a, const Found& b) { return a.score > b.score; });
    if (kept.size() > keep) kept.resize(keep);
    std::stable_sort(kept.begin(), kept.end(),
                     [](const Found& a, const Found& b) { return a.label < b.label; });
    for (const Found& one : kept) {
      result.push_back({double(n), double(one.label), double(one.score), double(one.box.xmin),
                        double(one.box.ymin), double(one.box.xmax), double(one.box.ymax)});
    }
  }
  return result;
}

TEST(DetectionOutput, IsTheDefinitionForManyBoxesOnAnyNumberOfThreads) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> share(0, 1);
  constexpr int64_t kClasses = 7, kCount = 3000, kImages = 2;
  std::vector<float> locations, confidences, priors;
  for (int64_t i = 0; i < kImages * kCount * 4; ++i) locations.push_back(share(random) - 0.5F);
  for (int64_t i = 0; i < kImages * kCount * kClasses; ++i) {
    // Many are equal.
    confidences.push_back(std::round(std::pow(share(random), 3.F) * 64) / 64);
  }
  for (int64_t p = 0; p < kCount; ++p) {
    const float x = share(random), y = share(random);
    priors.insert(priors.end(), {x, y, x + 0.05F + share(random) / 5, y + 0.05F});
  }
  for (int64_t i = 0; i < kCount * 4; ++i) priors.push_back(0.1F + 0.1F * float(i % 2));
  const auto doubles = [](const std::vector<float>& v) {
    return std::vector<double>(v.begin(), v.end());
  };
  const LayerCase c = detection_output(
      "num_classes: 7 code_type: CENTER_SIZE nms_param { nms_threshold: 0.45 top_k: 100 } "
      "keep_top_k: 150 confidence_threshold: 0.25",
      {given({kImages, kCount * 4}, doubles(locations)),
       given({kImages, kCount * kClasses}, doubles(confidences)),
       given({1, 2, kCount * 4}, doubles(priors))});
  const Rows expected = plainly(kClasses, locations, confidences, priors, 0.25F, 0.45F, 100, 150);
  ASSERT_EQ(expected.size(), 300U);
  Rows first;
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    LayerRun run(c);
    const ThreadScope scope(threads);
    const Rows actual = rows(run);
    if (first.empty()) first = actual;
    EXPECT_EQ(actual, first);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t r = 0; r < actual.size(); ++r) {
      expect_close(actual[r], expected[r], {1e-6, 1e-6}, text("row ", r));
    }
  }
}

TEST(DetectionOutput, EveryEngine) {
  LayerCase c = two_images("nms_param { nms_threshold: 0.5 } keep_top_k: 4");
  check_engines(c);
  c.bottoms.push_back(uniform({2, 3, 8, 8}));
  check_engines(c);
}

TEST(DetectionOutput, WrongSettings) {
  const auto refuses = [](const std::string& settings,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(settings);
    expect_error(
        [&] {
          LayerRun(detection_output(settings, {uniform({1, 12}), uniform({1, 9}), kPriorBlob}));
        },
        parts);
  };
  refuses("", {"num_classes is missing", "num_classes: 21"});
  refuses("num_classes: 0", {"num_classes is missing"});
  refuses("num_classes: 1", {"no class", "background_label_id: -1"});
  refuses("num_classes: 3 background_label_id: 3", {"background_label_id 3", "0 to 2", "-1"});
  refuses("num_classes: 3 background_label_id: -2", {"background_label_id -2"});
  refuses("num_classes: 3 keep_top_k: 0", {"keep_top_k 0", "-1 for all"});
  refuses("num_classes: 3 nms_param { top_k: 0 }", {"top_k 0"});
  refuses("num_classes: 3 nms_param { nms_threshold: -1 }", {"nms_threshold -1"});
  refuses("num_classes: 3 nms_param { eta: 1.5 }", {"eta 1.5"});
  refuses("num_classes: 3 confidence_threshold: nan", {"confidence_threshold is NaN"});
  refuses("num_classes: 4",
          {"'bottom1' (1x9)", "num_classes: 4", "3 priors", "N x 12", "3 for each"});
  refuses("num_classes: 3 share_location: false",
          {"'bottom0' (1x12)", "N x 36", "share_location: false"});
  const std::string save = "num_classes: 3 save_output_param { output_directory: '/nowhere/x' ";
  refuses(save + "}", {"output_format ''", "VOC"});
  refuses(save + "output_format: 'VOCC' }", {"'VOCC'", "VOC"});
  refuses(save + "output_format: 'VOC' }", {"label_map_file"});
  refuses(save + "output_format: 'VOC' label_map_file: 'a' }", {"name_size_file"});
  expect_error(
      [] {
        LayerRun(
            detection_output("num_classes: 3", {uniform({1, 12}), uniform({2, 9}), kPriorBlob}));
      },
      {"'bottom0' (1x12)", "'bottom1' (2x9)"});
  expect_error(
      [] {
        LayerRun(detection_output("num_classes: 3",
                                  {uniform({1, 12}), uniform({1, 9}), uniform({1, 12})}));
      },
      {"bottom2", "1 x 2 x 4 P"});
}

TEST(DetectionOutput, ConfidencesOfNaNAreNamed) {
  LayerCase c = two_images("");
  c.bottoms[1].values[9 + 3 + 2] = kNaN;
  LayerRun run(c);
  expect_error([&] { run.forward(); }, {"class 2", "prior box 1", "image 1", "NaN"});
}

// As rows they would be compared and written; prior box 0 of image 1 is no candidate of class 2.
TEST(DetectionOutput, BoxesThatAreNotFiniteAreNamed) {
  for (const double value : {kNaN, std::numeric_limits<double>::infinity()}) {
    for (const DType type : {DType::f32, DType::f64}) {
      LayerCase c = two_images("confidence_threshold: 0.3 nms_param { nms_threshold: 0.5 }");
      c.bottoms[0].values[12 + 4 + 2] = value;
      LayerRun run(c, {.dtype = type});
      expect_error([&] { run.forward(); }, {"class 2", "prior box 1", "image 1", "diverged"});
      c.bottoms[0].values[12 + 4 + 2] = 0;
      c.bottoms[0].values[12 + 2] = value;
      LayerRun unused(c, {.dtype = type});
      EXPECT_FALSE(rows(unused).empty());
    }
  }
}

// --- Files
// -----------------------------------------------------------------------------------------

class DetectionFilesTest : public ::testing::Test {
 protected:
  DetectionFilesTest() {
    write("labels.prototxt",
          "item { name: 'none' label: 0 } item { name: '17' label: 1 } "
          "item { name: 'the \"cat\"' label: 2 }");
    write("sizes.txt", "000139 100 200\nval_2 50 50\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path(name)) << text;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_.path("out/" + name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool has(const std::string& name) const {
    return std::filesystem::exists(folder_.path("out/" + name));
  }
  LayerCase saving(const std::string& format, const std::string& more = "") {
    return two_images(
        text("nms_param { nms_threshold: 0.5 } confidence_threshold: 0.25 "
             "save_output_param { output_directory: '",
             folder_.path("out"), "' output_name_prefix: 'det_' output_format: '", format,
             "' label_map_file: '", folder_.path("labels.prototxt"), "' name_size_file: '",
             folder_.path("sizes.txt"), "' ", more, " }"));
  }
  TempFolder folder_;
};

TEST_F(DetectionFilesTest, Voc) {
  LayerRun run(saving("VOC"));
  EXPECT_FALSE(has("")) << "a net is built without its folders";
  run.forward();
  EXPECT_EQ(read("det_17.txt"), "000139 0.75 0 0 80 100\n");
  EXPECT_EQ(read("det_the \"cat\".txt"), "000139 0.5 20 0 100 100\nval_2 0.5 5 0 25 50\n");
  EXPECT_FALSE(has("det_none.txt"));
}

TEST_F(DetectionFilesTest, Ilsvrc) {
  LayerRun run(saving("ILSVRC"));
  run.forward();
  EXPECT_EQ(read("det_.txt"),
            "000139 1 0.75 0 0 80 100\n000139 2 0.5 20 0 100 100\nval_2 2 0.5 5 0 25 50\n");
}

TEST_F(DetectionFilesTest, CocoIsValidJson) {
  LayerRun run(saving("COCO"));
  run.forward();
  EXPECT_EQ(read("det_.json"),
            "[\n"
            "{\"image_id\": 139, \"category_id\": 17, \"bbox\": [0, 0, 80, 100], "
            "\"score\": 0.75},\n"
            "{\"image_id\": 139, \"category_id\": \"the \\\"cat\\\"\", \"bbox\": [20, 0, 80, 100], "
            "\"score\": 0.5},\n"
            "{\"image_id\": \"val_2\", \"category_id\": \"the \\\"cat\\\"\", \"bbox\": [5, 0, 20, "
            "50], \"score\": 0.5}\n"
            "]\n");
}

/// The ending alone would be a hidden file.
TEST_F(DetectionFilesTest, FilesWithoutAPrefixHaveANameOfTheirOwn) {
  const auto without = [&](const std::string& format, const std::string& prefix) {
    LayerCase c = saving(format);
    const std::string given = "output_name_prefix: 'det_'";
    c.layer.replace(c.layer.find(given), given.size(), prefix);
    LayerRun run(c);
    run.forward();
  };
  without("COCO", "");
  EXPECT_THAT(read("detections.json"), HasSubstr("\"image_id\": 139"));
  without("ILSVRC", "");
  EXPECT_THAT(read("detections.txt"), HasSubstr("000139 1 0.75"));
  without("VOC", "output_name_prefix: ''");
  EXPECT_THAT(read("17.txt"), HasSubstr("000139 0.75"));
  std::filesystem::create_directories(folder_.path("out/of"));
  without("COCO", "output_name_prefix: 'of/'");
  EXPECT_THAT(read("of/detections.json"), HasSubstr("\"image_id\": 139"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("out")))
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry;
}

TEST_F(DetectionFilesTest, BytesThatAreNoUtf8AreValidJson) {
  write("sizes.txt", "caf\xE9 100 200\ncaf\xC3\xA9 50 50\n");
  LayerRun run(saving("COCO"));
  run.forward();
  EXPECT_THAT(read("det_.json"), HasSubstr("{\"image_id\": \"caf\xEF\xBF\xBD\", "));
  EXPECT_THAT(read("det_.json"), HasSubstr("{\"image_id\": \"caf\xC3\xA9\", "));
}

TEST_F(DetectionFilesTest, FilesAreTriedWithTheFirstBatch) {
  write("sizes.txt", "a 100 200\nb 50 50\nc 10 10\n");
  for (const auto& [format, file] :
       {std::pair("VOC", "det_the \"cat\".txt"), {"ILSVRC", "det_.txt"}, {"COCO", "det_.json"}}) {
    SCOPED_TRACE(format);
    std::filesystem::create_directories(folder_.path(text("out/", file)));
    LayerRun run(saving(format));
    expect_error([&] { run.forward(); }, {file, "folder"});
    std::filesystem::remove(folder_.path(text("out/", file)));
    run.forward();
  }
  write("labels.prototxt", "item { name: 'a' label: 1 } item { name: 'b/c' label: 2 }");
  LayerRun voc(saving("VOC")), coco(saving("COCO"));
  expect_error([&] { voc.forward(); }, {"labels.prototxt", "'b/c'", "VOC"});
  coco.forward();
}

// Whoever goes on after a full disk gets the next set, with the images in their places.
TEST_F(DetectionFilesTest, GoesOnAfterAFileThatCannotBeWritten) {
  write("sizes.txt", "a 100 200\nb 50 50\nc 10 10\n");
  LayerRun run(saving("ILSVRC"));
  run.forward();
  std::filesystem::create_directories(folder_.path("out/det_.txt/x"));
  expect_error([&] { run.forward(); }, {"det_.txt"});
  std::filesystem::remove_all(folder_.path("out/det_.txt"));
  // Of the next set the second image of the last batch is the first.
  run.forward();
  EXPECT_EQ(read("det_.txt"),
            "a 2 0.5 20 0 100 100\nb 1 0.75 0 0 20 50\nb 2 0.5 5 0 25 50\n"
            "c 2 0.5 1 0 5 10\n");
}

TEST_F(DetectionFilesTest, OpensAgainAfterAnError) {
  LayerRun run(saving("ILSVRC", "num_test_image: 3"));
  for (int pass = 0; pass < 3; ++pass) {
    expect_error([&] { run.forward(); }, {"num_test_image 3", "2 images"});
  }
  write("sizes.txt", "a 100 200\nb 50 50\nc 10 10\n");
  run.forward();
  run.forward();
  EXPECT_THAT(read("det_.txt"), HasSubstr("c 1 0.75"));
}

TEST_F(DetectionFilesTest, CarriesTheSetThatIsNotComplete) {
  write("sizes.txt", "a 100 200\nb 50 50\nc 10 10\n");
  LayerRun first(saving("ILSVRC")), second(saving("ILSVRC"));
  const auto state_of = [](LayerRun& run) -> CarriesState& {
    return dynamic_cast<CarriesState&>(run.layer());
  };
  EXPECT_TRUE(state_of(first).carries());
  EXPECT_TRUE(state_of(first).carried().empty());
  first.forward();
  const std::vector<Tensor> state = state_of(first).carried();
  first.forward();
  const std::string whole = read("det_.txt");
  EXPECT_THAT(whole, HasSubstr("a 1 0.75"));
  std::filesystem::remove(folder_.path("out/det_.txt"));
  state_of(second).carry(state);
  second.forward();
  EXPECT_EQ(read("det_.txt"), whole);
  // Back to within the set, as after a test that was stopped.
  std::filesystem::remove(folder_.path("out/det_.txt"));
  state_of(second).carry(state);
  second.forward();
  EXPECT_EQ(read("det_.txt"), whole);

  write("sizes.txt", "a 100 200\n");
  LayerRun fewer(saving("ILSVRC"));
  state_of(fewer).carry(state);
  expect_error([&] { fewer.forward(); }, {"image 2", "1 images", "name_size_file"});
  std::vector<Tensor> wrong;
  wrong.emplace_back(Shape{2, 3}, DType::f64);
  expect_error([&] { state_of(fewer).carry(wrong); }, {"2x3", "7"});
  LayerRun none(two_images(""));
  EXPECT_FALSE(state_of(none).carries());
}

TEST_F(DetectionFilesTest, EachTestSetIsWrittenAnew) {
  LayerRun run(saving("ILSVRC"));
  run.forward();
  const std::string once = read("det_.txt");
  run.forward();
  EXPECT_EQ(read("det_.txt"), once);
}

TEST_F(DetectionFilesTest, NumberOfImages) {
  write("sizes.txt", "a 100 200\nb 50 50\nc 10 10\n");
  LayerRun all(saving("ILSVRC"));
  all.forward();
  EXPECT_FALSE(has("det_.txt")) << "the third image is not there yet";
  LayerRun some(saving("ILSVRC", "num_test_image: 1"));
  some.forward();
  // The second image of the batch is the first of the next round.
  EXPECT_EQ(read("det_.txt"), "a 2 0.5 20 0 100 100\n");
  LayerRun many(saving("ILSVRC", "num_test_image: 4"));
  expect_error([&] { many.forward(); }, {"num_test_image 4", "3 images"});
}

TEST_F(DetectionFilesTest, PaddingIsTakenOff) {
  // The first image covers the middle half of the rows.
  LayerRun run(saving("ILSVRC",
                      "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 20 width: 20 }"));
  run.forward();
  EXPECT_THAT(read("det_.txt"), HasSubstr("000139 1 0.75 0 0 80 100\n"));
  LayerRun other(saving(
      "ILSVRC", "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 20 width: 80 }"));
  other.forward();
  // It covers the middle half of the columns: 0.1 to 0.5 is its left half.
  EXPECT_THAT(read("det_.txt"), HasSubstr("000139 2 0.5 0 0 100 100\n"));
}

TEST_F(DetectionFilesTest, OtherFilesInTheFolderStay) {
  std::filesystem::create_directory(folder_.path("out"));
  write("out/notes.txt", "mine");
  LayerRun run(saving("VOC"));
  run.forward();
  EXPECT_EQ(read("notes.txt"), "mine");
}

TEST_F(DetectionFilesTest, EveryClassNeedsAName) {
  write("labels.prototxt", "item { name: 'a' label: 1 }");
  LayerRun run(saving("VOC"));
  expect_error([&] { run.forward(); }, {"labels.prototxt", "no label 2"});
}

}  // namespace
}  // namespace crema::test
