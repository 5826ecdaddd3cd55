// AnnotatedData: boxes go where their pixels go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/data_source.hpp"
#include "crema/net.hpp"
#include "crema/solver.hpp"
#include "data/databases/class_file.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/annotated.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::annotated_records;
using test::boxed_rectangle;
using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::rectangle;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

class AnnotatedData : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }
  std::string source(const std::vector<AnnotatedDatum>& records,
                     DatabaseKind kind = DatabaseKind::lmdb) {
    const std::string path = folder_ / text("db", databases_++);
    test::write_database(path, annotated_records(records), kind);
    return path;
  }
  LayerCase layer(const std::string& database, const std::string& transform = "",
                  const std::string& samplers = "", const std::string& data = "batch_size: 1",
                  Phase phase = Phase::train) {
    return {.layer = text("layer { type: 'AnnotatedData' top: 'data' top: 'label' "
                          "transform_param { ",
                          transform, " } data_param { source: '", database, "' backend: LMDB ",
                          data, " } annotated_data_param { ", samplers, " } }"),
            .phase = phase};
  }
  /// The boxes of the next batch, a row each.
  static std::vector<std::vector<double>> rows(LayerRun& run) {
    run.forward();
    std::vector<std::vector<double>> all;
    const auto& values = run.top(1);
    for (size_t at = 0; at + 8 <= values.size(); at += 8)
      all.emplace_back(values.begin() + static_cast<long>(at),
                       values.begin() + static_cast<long>(at) + 8);
    return all;
  }
  /// Where the first image of the batch is white, relative to it.
  static Box white(LayerRun& run, double above = 60) {
    const Shape& shape = run.top_blob(0).shape();
    const auto& pixels = run.top(0);
    Box seen{1e9, 1e9, -1e9, -1e9};
    for (int64_t i = 0; i < shape[2] * shape[3]; ++i) {
      if (pixels[static_cast<size_t>(i)] <= above) continue;
      const auto x = static_cast<double>(i % shape[3]), y = static_cast<double>(i / shape[3]);
      seen = {std::min(seen.left, x), std::min(seen.top, y), std::max(seen.right, x + 1),
              std::max(seen.bottom, y + 1)};
    }
    return to_relative(seen, {shape[2], shape[3]});
  }
  /// Runs batches of one image of one box; each box is where the image is white, to `pixels`.
  void expect_followed(const LayerCase& layer_case, int batches, double pixels) {
    LayerRun run(layer_case);
    int seen = 0;
    for (int i = 0; i < batches; ++i) {
      const auto boxes = rows(run);
      ASSERT_EQ(boxes.size(), 1U);
      if (boxes[0][0] < 0) continue;
      ++seen;
      const Box box = white(run);
      const Shape& shape = run.top_blob(0).shape();
      const double x = pixels / static_cast<double>(shape[3]) + 1e-6;
      const double y = pixels / static_cast<double>(shape[2]) + 1e-6;
      EXPECT_NEAR(boxes[0][3], box.left, x) << "batch " << i;
      EXPECT_NEAR(boxes[0][4], box.top, y) << "batch " << i;
      EXPECT_NEAR(boxes[0][5], box.right, x) << "batch " << i;
      EXPECT_NEAR(boxes[0][6], box.bottom, y) << "batch " << i;
    }
    EXPECT_GT(seen, batches / 4);
  }
  void fails(const LayerCase& wrong, std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun(wrong).forward(); }, words);
  }

  test::ScratchFolder folder_;
  int databases_ = 0;
};

TEST_F(AnnotatedData, GivesARowForEachBoxOfTheBatch) {
  const std::string path =
      source({rectangle(4, 8, {},
                        {{.label = 3, .box = {0.25, 0.5, 0.75, 1}},
                         {.label = 2, .difficult = true, .box = {0, 0, 0.5, 0.25}},
                         {.label = 3, .box = {0.5, 0, 1, 0.5}}}),
              rectangle(4, 8, {}, {}), boxed_rectangle(4, 8, {2, 1, 6, 3}, 7)});
  LayerRun run(layer(path, "", "", "batch_size: 3"));
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{3, 3, 4, 8}));
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{1, 1, 4, 8}));
  EXPECT_THAT(run.top(1), ElementsAre(0, 3, 0, 0.25, 0.5, 0.75, 1, 0,  //
                                      0, 3, 1, 0.5, 0, 1, 0.5, 0,      //
                                      0, 2, 0, 0, 0, 0.5, 0.25, 1,     //
                                      2, 7, 0, 0.25, 0.25, 0.75, 0.75, 0));
}

TEST_F(AnnotatedData, ABatchWithoutBoxesIsOneRowOfMinusOne) {
  LayerRun run(
      layer(source({rectangle(2, 2, {}, {}), rectangle(2, 2, {}, {})}), "", "", "batch_size: 2"));
  run.forward();
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{1, 1, 1, 8}));
  EXPECT_THAT(run.top(1), testing::Each(-1));
}

TEST_F(AnnotatedData, ReadsLevelDbAndOneTop) {
  if (!test::kBuiltWithLevelDb) GTEST_SKIP() << "needs LevelDB: configure with CREMA_LEVELDB=ON";
  const std::string path = source({boxed_rectangle(4, 4, {1, 1, 2, 3})}, DatabaseKind::leveldb);
  LayerCase both = layer(path);
  both.layer.replace(both.layer.find("backend: LMDB"), 13, "backend: LEVELDB");
  LayerRun run(both);
  EXPECT_THAT(rows(run)[0], ElementsAre(0, 1, 0, 0.25, 0.25, 0.5, 0.75, 0));
  LayerCase one = layer(path);
  one.layer.replace(one.layer.find("top: 'label'"), 12, "");
  LayerRun image(one);
  image.forward();
  EXPECT_EQ(image.top_blob(0).shape(), (Shape{1, 3, 4, 4}));
}

/// By hand: a 40 x 80 image fits 100 x 100 as 50 x 100, with 25 rows above and below.
TEST_F(AnnotatedData, BoxesFollowAResizeThatPads) {
  LayerRun run(
      layer(source({boxed_rectangle(40, 80, {20, 10, 60, 30})}),
            "resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 100 width: 100 }"));
  const auto boxes = rows(run);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_THAT(boxes[0], Pointwise(DoubleNear(1e-6),
                                  std::vector<double>{0, 1, 0, 0.25, 0.375, 0.75, 0.625, 0}));
  const Box seen = white(run);
  EXPECT_NEAR(seen.left, 0.25, 0.011);
  EXPECT_NEAR(seen.bottom, 0.625, 0.011);
}

/// By hand: FIT_SMALL_SIZE makes 40 x 80 cover 20 x 20 as 20 x 40; relative boxes stay.
TEST_F(AnnotatedData, BoxesFollowAResizeThatCovers) {
  LayerRun run(layer(source({boxed_rectangle(40, 80, {20, 10, 60, 30})}),
                     "resize_param { resize_mode: FIT_SMALL_SIZE height: 20 width: 20 }"));
  EXPECT_THAT(rows(run)[0],
              Pointwise(DoubleNear(1e-6), std::vector<double>{0, 1, 0, 0.25, 0.25, 0.75, 0.75, 0}));
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 3, 20, 40}));
}

/// By hand: the centre 20 x 20 of 40 x 60 has its corner at (20, 10).
TEST_F(AnnotatedData, BoxesFollowTheCentreCropAndAreClipped) {
  const std::string path =
      source({rectangle(40, 60, {},
                        {{.label = 1, .box = to_relative({25, 5, 50, 20}, {40, 60})},
                         {.label = 2, .box = to_relative({0, 0, 20, 40}, {40, 60})},
                         {.label = 3, .box = to_relative({10, 12, 35, 16}, {40, 60})}})});
  LayerRun run(layer(path, "crop_size: 20", "", "batch_size: 1", Phase::test));
  const auto boxes = rows(run);
  ASSERT_EQ(boxes.size(), 2U);  // the second one ends where the crop begins
  EXPECT_THAT(boxes[0],
              Pointwise(DoubleNear(1e-6), std::vector<double>{0, 1, 0, 0.25, 0, 1, 0.5, 0}));
  EXPECT_THAT(boxes[1],
              Pointwise(DoubleNear(1e-6), std::vector<double>{0, 3, 0, 0, 0.1, 0.75, 0.3, 0}));

  // Centres at (17.5, 2.5) and (2.5, 4) of the crop; shares 15 x 10 of 25 x 15, and 3 / 5.
  const auto labels = [&](const std::string& constraint) {
    LayerRun constrained(layer(path, text("crop_size: 20 emit_constraint { ", constraint, " }"), "",
                               "batch_size: 1", Phase::test));
    std::vector<double> found;
    for (const auto& row : rows(constrained)) found.push_back(row[1]);
    return found;
  };
  EXPECT_THAT(labels("emit_type: CENTER"), ElementsAre(1, 3));
  EXPECT_THAT(labels("emit_type: MIN_OVERLAP emit_overlap: 0.5"), ElementsAre(3));
  EXPECT_THAT(labels("emit_type: MIN_OVERLAP emit_overlap: 0.7"), ElementsAre(-1));
  EXPECT_THAT(labels("emit_type: MIN_OVERLAP"), ElementsAre(1, 3));
}

TEST_F(AnnotatedData, BoxesFollowEachAugmentation) {
  const std::string path = source({boxed_rectangle(40, 60, {15, 10, 40, 30})});
  const std::string resize = "resize_param { height: 48 width: 96 interp_mode: NEAREST }";
  expect_followed(layer(path, "mirror: true"), 12, 0);
  expect_followed(layer(path, resize), 2, 1);
  expect_followed(layer(path, "mirror: true crop_size: 30"), 12, 0);
  expect_followed(layer(path, "expand_param { max_expand_ratio: 3 } " + resize), 12, 1);
  const std::string sampler =
      "batch_sampler { sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 "
      "max_aspect_ratio: 2 } max_sample: 1 }";
  expect_followed(layer(path, "mirror: true " + resize, sampler), 30, 1.5);
  expect_followed(layer(path,
                        "mirror: true expand_param { max_expand_ratio: 2 } "
                        "distort_param { brightness_prob: 0.5 brightness_delta: 32 "
                        "contrast_prob: 0.5 contrast_lower: 0.5 contrast_upper: 1.5 "
                        "saturation_prob: 0.5 saturation_lower: 0.5 saturation_upper: 1.5 } " +
                            resize,
                        sampler),
                  30, 1.5);
  expect_followed(layer(path, "crop_size: 32 random_crop_param { min_area: 0.3 } "), 20, 1.5);
}

/// With mirroring alone, a box is its own or its mirror image, by hand.
TEST_F(AnnotatedData, MirrorsBoxes) {
  LayerRun run(layer(source({boxed_rectangle(4, 8, {1, 1, 3, 2})}), "mirror: true"));
  int mirrored = 0;
  for (int i = 0; i < 20; ++i) {
    const auto row = rows(run)[0];
    const bool turned = row[3] > 0.5;
    mirrored += turned;
    EXPECT_THAT(row, turned ? ElementsAre(0, 1, 0, 0.625, 0.25, 0.875, 0.5, 0)
                            : ElementsAre(0, 1, 0, 0.125, 0.25, 0.375, 0.5, 0));
  }
  EXPECT_GT(mirrored, 3);
  EXPECT_LT(mirrored, 17);
}

TEST_F(AnnotatedData, TestPhaseDrawsNothing) {
  const std::string path = source({boxed_rectangle(40, 60, {15, 10, 45, 30})});
  LayerRun run(layer(path,
                     "expand_param { max_expand_ratio: 3 } distort_param { brightness_prob: 1 "
                     "brightness_delta: 32 }",
                     "batch_sampler { sampler { max_scale: 0.5 min_scale: 0.3 } }", "batch_size: 1",
                     Phase::test));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(rows(run)[0], Pointwise(DoubleNear(1e-6),
                                        std::vector<double>{0, 1, 0, 0.25, 0.25, 0.75, 0.75, 0}));
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{1, 3, 40, 60}));
  }
}

std::vector<AnnotatedDatum> numbered(int count) {
  std::vector<AnnotatedDatum> records;
  for (int i = 0; i < count; ++i) {
    std::vector<LabeledBox> boxes;
    for (int b = 0; b < i % 4; ++b)
      boxes.push_back({.label = i, .box = {0.1 * b, 0.2, 0.1 * b + 0.3, 0.9}});
    records.push_back(rectangle(20, 30, {5, 5, 25, 15}, boxes));
  }
  return records;
}

constexpr const char* kEverything =
    "mirror: true expand_param { prob: 0.5 max_expand_ratio: 3 } resize_param { height: 16 "
    "width: 16 } distort_param { brightness_prob: 0.5 brightness_delta: 32 hue_prob: 0.5 "
    "hue_delta: 18 } emit_constraint { emit_type: CENTER }";
constexpr const char* kSamplers =
    "batch_sampler { max_sample: 1 max_trials: 1 } batch_sampler { sampler { min_scale: 0.3 "
    "max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } sample_constraint { "
    "min_jaccard_overlap: 0.1 } max_sample: 1 max_trials: 50 }";

TEST_F(AnnotatedData, IsTheSameForAnyNumberOfThreads) {
  const std::string path = source(numbered(13));
  std::vector<double> images, boxes;
  for (const int threads : {1, 3}) {
    LayerRun run(layer(path, kEverything, kSamplers,
                       text("batch_size: 3 shuffle: true threads: ", threads)));
    std::vector<double> all, labels;
    for (int b = 0; b < 12; ++b) {
      run.forward();
      all.insert(all.end(), run.top(0).begin(), run.top(0).end());
      labels.insert(labels.end(), run.top(1).begin(), run.top(1).end());
    }
    if (threads == 1) {
      images = all;
      boxes = labels;
    }
    EXPECT_EQ(all, images);
    EXPECT_EQ(labels, boxes);
  }
}

TEST_F(AnnotatedData, ResumesInMidEpochWithTheSameBits) {
  const LayerCase drawn =
      layer(source(numbered(13)), kEverything, kSamplers, "batch_size: 3 shuffle: true");
  test::expect_resumes(drawn, 2);
  test::expect_resumes(drawn, 7);
}

TEST_F(AnnotatedData, LabelsWithoutAnnotationTypeAreThoseOfImages) {
  AnnotatedDatum record = rectangle(2, 2, {}, {});
  record.clear_type();
  record.mutable_datum()->set_label(5);
  const std::string path = source({record, record});
  LayerRun run(layer(path, "", "", "batch_size: 2"));
  run.forward();
  EXPECT_EQ(run.top_blob(1).shape(), (Shape{2}));
  EXPECT_THAT(run.top(1), ElementsAre(5, 5));
  LayerRun told(layer(path, "", "anno_type: BBOX", "batch_size: 2"));
  told.forward();
  EXPECT_THAT(told.top(1), testing::Each(-1));
}

TEST_F(AnnotatedData, RefusesBadRecordsByTheirKeys) {
  const auto broken = [&](const LabeledBox& box) {
    return source({boxed_rectangle(2, 2, {0, 0, 1, 1}), rectangle(2, 2, {}, {box})});
  };
  const auto fails_at_second = [&](const std::string& path,
                                   std::initializer_list<std::string_view> words) {
    LayerRun run(layer(path));
    run.forward();
    expect_error([&] { run.forward(); }, words);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  fails_at_second(broken({.label = 1, .box = {0, nan, 1, 1}}),
                  {"record '00000001'", "coordinate nan", "convert-annotations"});
  fails_at_second(broken({.label = 1, .box = {0.5, 0, 0.25, 1}}),
                  {"record '00000001'", "(0.5, 0)", "back to (0.25, 1)"});
  fails_at_second(broken({.label = -4, .box = {0, 0, 1, 1}}), {"record '00000001'", "label -4"});
  AnnotatedDatum no_type = rectangle(2, 2, {}, {});
  no_type.clear_type();
  fails_at_second(source({boxed_rectangle(2, 2, {0, 0, 1, 1}), no_type}),
                  {"'00000001'", "no annotation type", "anno_type: BBOX"});

  // What is harmless is clipped or left out, as published.
  LayerRun clips(layer(broken({.label = 1, .box = {-0.5, 0.5, 0.5, 1.5}})));
  clips.forward();
  EXPECT_THAT(rows(clips)[0], ElementsAre(0, 1, 0, 0, 0.5, 0.5, 1, 0));
  LayerRun drops(layer(broken({.label = 1, .box = {0.5, 0.5, 0.5, 1}})));
  drops.forward();
  EXPECT_THAT(rows(drops)[0], testing::Each(-1));

  LayerRun skips(layer(broken({.label = 1, .box = {0, nan, 1, 1}}), "", "",
                       "batch_size: 2 on_bad_record: SKIP"));
  skips.forward();
  EXPECT_THAT(skips.top(1), ElementsAre(0, 1, 0, 0, 0, 0.5, 0.5, 0, 1, 1, 0, 0, 0, 0.5, 0.5, 0));
}

TEST_F(AnnotatedData, ChecksLabelsAgainstTheLabelMap) {
  const std::string path = source({boxed_rectangle(2, 2, {0, 0, 1, 1}, 7)});
  const auto with_map = [&](const std::string& prototxt) {
    return layer(path, "", text("label_map_file: '", folder_.write("map.prototxt", prototxt), "'"));
  };
  LayerRun run(with_map("item { name: 'background' label: 0 } item { name: 'dog' label: 7 }"));
  EXPECT_EQ(rows(run)[0][1], 7);
  fails(with_map("item { name: 'background' label: 0 } item { name: 'dog' label: 6 }"),
        {"record '00000000'", "label 7", "map.prototxt", "0 to 6"});
  fails(with_map("item { name: 'a' label: 1 } item { name: 'b' label: 1 }"),
        {"'b'", "label 1", "'a' already"});
  fails(with_map("item { name: 'a' label: 1 } item { name: 'a' label: 2 }"),
        {"'a'", "label 2", "label 1 already"});
  fails(layer(path, "", "label_map_file: 'nowhere.prototxt'"), {"nowhere.prototxt"});
}

TEST_F(AnnotatedData, LabelMapsOfTestsAreThoseOfTraining) {
  const std::string path = source({boxed_rectangle(2, 2, {0, 0, 1, 1}, 1)});
  Context context;
  const auto net = [&](const std::string& map, NetOptions options) {
    const LayerCase made =
        layer(path, "", text("label_map_file: '", folder_.write("map.prototxt", map), "'"));
    return Net(test::net_param(made.layer), context, std::move(options));
  };
  Net training = net("item { name: 'cat' label: 1 } item { name: 'dog' label: 3 }", {});
  const auto with_test = [&](const std::string& map) {
    return net(map, {.phase = Phase::test, .share_params_with = &training});
  };
  // A label without a name may have one there.
  with_test("item { name: 'cat' label: 1 } item { name: 'cow' label: 2 }");
  expect_error([&] { with_test("item { name: 'cow' label: 1 }"); },
               {"label 1 is 'cow'", "map.prototxt", "'cat'", "label_map_file"});
  // The names below a great label would need much memory.
  const Net great = net("item { name: 'a' label: 1 } item { name: 'b' label: 2147483647 }", {});
  EXPECT_THAT(great.layers()[0]->data_source()->class_names(), ElementsAre("", "a"));
}

// Without a label map, a layer has the names that crema convert-annotations wrote.
TEST_F(AnnotatedData, NamesOfTheDatabaseAreComparedToo) {
  const std::string path = source({boxed_rectangle(2, 2, {0, 0, 1, 1}, 1)});
  write_class_file(path, {"background", "cat"});
  Context context;
  const auto net = [&](const std::string& settings, NetOptions options) {
    return Net(test::net_param(layer(path, "", settings).layer), context, std::move(options));
  };
  Net training = net("", {});
  EXPECT_THAT(training.layers()[0]->data_source()->class_names(), ElementsAre("background", "cat"));
  const auto with_test = [&](const std::string& name) {
    const std::string map = text("item { name: '", name, "' label: 1 }");
    return net(text("label_map_file: '", folder_.write("map.prototxt", map), "'"),
               {.phase = Phase::test, .share_params_with = &training});
  };
  with_test("cat");
  expect_error([&] { with_test("cow"); },
               {"label 1 is 'cow'", "map.prototxt", "'cat'", "database '" + path + "'"});
}

TEST_F(AnnotatedData, RefusesSettingsAndRecordsOfOtherLayers) {
  const std::string path = source({boxed_rectangle(2, 2, {0, 0, 1, 1})});
  const auto sampler = [&](const std::string& prototxt) {
    return layer(path, "", text("batch_sampler { ", prototxt, " }"));
  };
  fails(sampler("sampler { min_scale: 0.5 max_scale: 0.3 }"), {"scale", "0.5", "0.3"});
  fails(sampler("sampler { min_scale: 0 }"), {"scale", "above 0"});
  fails(sampler("sampler { max_scale: 2 }"), {"scale", "2"});
  fails(sampler("sampler { min_aspect_ratio: 0 }"), {"aspect_ratio", "above 0"});
  fails(sampler("sample_constraint { min_jaccard_overlap: 1.5 }"), {"min_jaccard_overlap", "1.5"});
  fails(sampler("use_original_image: false"), {"use_original_image", "draws nothing"});
  fails(layer(path, "num_labels: 5"), {"num_labels", "boxes"});
  fails(layer(path, "emit_constraint { emit_type: MIN_OVERLAP emit_overlap: 2 }"),
        {"emit_overlap", "2"});
  LayerCase list = layer(path);
  list.layer.replace(list.layer.find("backend: LMDB"), 13, "backend: TAR");
  fails(list, {"backend: TAR", "convert-annotations"});

  const std::string plain = folder_ / "plain";
  test::write_counting_database(plain, 2);
  fails(layer(plain), {"record '00000000'", "is a Datum", "\"Data\""});
  fails({.layer = text("layer { type: 'Data' top: 'data' data_param { source: '", path,
                       "' backend: LMDB batch_size: 1 } }")},
        {"record '00000000'", "AnnotatedDatum", "\"AnnotatedData\""});
  fails({.layer = text("layer { type: 'Data' top: 'data' transform_param { emit_constraint { } } "
                       "data_param { source: '",
                       plain, "' backend: LMDB batch_size: 1 } }")},
        {"emit_constraint", "not implemented"});
}

/// The number of boxes changes from batch to batch, beyond the first bound too; the net plans anew
/// for a larger bound only, and layers behind follow.
TEST_F(AnnotatedData, ANetFollowsTheNumberOfBoxes) {
  std::vector<AnnotatedDatum> records;
  const std::vector<int> counts{1, 0, 5, 40, 2, 100, 3};
  for (const int count : counts) {
    std::vector<LabeledBox> boxes(static_cast<size_t>(count), {.label = 1, .box = {0, 0, 0.5, 1}});
    records.push_back(rectangle(2, 2, {}, boxes));
  }
  const std::string text = layer(source(records)).layer;
  Context context;
  Net net(test::net_param(text + "layer { type: 'Reduction' name: 'sum' bottom: 'label' top: 'sum' "
                                 "reduction_param { operation: SUM axis: 0 } }"),
          context, {.keep = {"label", "data"}});
  for (int round = 0; round < 2; ++round) {
    for (const int count : counts) {
      net.forward();
      EXPECT_EQ(net.blob("label").shape(), (Shape{1, 1, std::max(1, count), 8}));
      // label 1, instances 0 ... count - 1, xmax 0.5 and ymax 1
      const double sum = count == 0 ? -8 : count * 2.5 + count * (count - 1) / 2;
      EXPECT_EQ(test::values_of(net.blob("sum").data), std::vector<double>{sum});
    }
  }
}

/// Learns where the left edge of the one box of an image is.
TEST_F(AnnotatedData, ANetTrainsOnBoxes) {
  std::vector<AnnotatedDatum> records;
  for (int i = 0; i < 8; ++i)
    records.push_back(boxed_rectangle(8, 16, {double(i), 2, double(i + 4), 6}));
  SolverParameter param;
  parse_text_proto(
      text("net_param { ",
           layer(source(records), "scale: 0.00390625", "", "batch_size: 1 shuffle: true").layer,
           "layer { type: 'InnerProduct' name: 'ip' bottom: 'data' top: 'ip' "
           "inner_product_param { num_output: 1 } }"
           "layer { type: 'Slice' name: 'parts' bottom: 'label' top: 'ids' top: 'left' "
           "top: 'rest' slice_param { axis: 3 slice_point: 3 slice_point: 4 } }"
           "layer { type: 'Silence' name: 'unread' bottom: 'ids' bottom: 'rest' }"
           "layer { type: 'Reduction' name: 'truth' bottom: 'left' top: 'sum' "
           "reduction_param { operation: SUM } }"
           "layer { type: 'Reshape' name: 'truth' bottom: 'sum' top: 'truth' "
           "reshape_param { shape { dim: 1 dim: 1 } } }"
           "layer { type: 'EuclideanLoss' name: 'loss' bottom: 'ip' bottom: 'truth' "
           "top: 'loss' } } base_lr: 0.02 lr_policy: 'fixed' max_iter: 400 snapshot_prefix: '",
           folder_ / "snap", "' snapshot_after_train: false"),
      "solver.prototxt", param);
  Context context({.seed = 3});
  Solver solver(param, context);
  std::vector<double> losses;
  solver.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
  solver.solve();
  ASSERT_EQ(losses.size(), 400U);
  const auto mean = [&](size_t from) {
    double sum = 0;
    for (size_t i = from; i < from + 40; ++i) sum += losses[i] / 40;
    return sum;
  };
  EXPECT_LT(mean(360), mean(0) / 20);
}

}  // namespace
}  // namespace crema
