#include "crema/memory_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "crema/net.hpp"
#include "proto/datum.pb.h"
#include "support/net_test.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::source_of;
using testing::ElementsAre;

const LayerCase kPairs = {
    .layer =
        "layer { name: 'memory' type: 'MemoryData' top: 'data' top: 'label' "
        "memory_data_param { batch_size: 2 channels: 1 height: 1 width: 2 } }"};

MemoryData& memory_of(LayerRun& run) { return MemoryData::of(run.layer()); }

TEST(MemoryData, GivesBatchesInOrderAndWraps) {
  LayerRun run(kPairs);
  const std::vector<float> data = {0, 0.5, 1, 1.5, 2, 2.5}, labels = {7, 8, 9};
  memory_of(run).set(data, labels);
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{2, 1, 1, 2}));
  EXPECT_THAT(run.top(0), ElementsAre(0, 0.5, 1, 1.5));
  EXPECT_THAT(run.top(1), ElementsAre(7, 8));
  EXPECT_THAT(next_values(run, 2, 1), ElementsAre(9, 7, 8, 9));
  EXPECT_EQ(source_of(run).record_key(1), "record 2");
  EXPECT_EQ(source_of(run).records_per_batch(), 2);
  // New data begin at their first record.
  memory_of(run).set(std::vector<float>{1, 2}, std::vector<float>{3});
  EXPECT_THAT(next_values(run, 1), ElementsAre(1, 2, 1, 2));
}

TEST(MemoryData, KeepsViewsOfTensorsAndConverts) {
  Tensor pixels({3, 1, 1, 2}, DType::u8), labels({3, 1}, DType::i64);
  uint8_t* const pixel = pixels.overwrite<uint8_t>();
  for (int i = 0; i < 6; ++i) pixel[i] = static_cast<uint8_t>(250 + i);
  int64_t* const label = labels.overwrite<int64_t>();
  for (int i = 0; i < 3; ++i) label[i] = 10 - i;
  LayerRun run(kPairs, {.dtype = DType::f64});
  memory_of(run).set(pixels, labels);
  EXPECT_THAT(next_values(run, 1), ElementsAre(250, 251, 252, 253));
  pixel[4] = 1;
  label[2] = 16777217;
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, 255, 250, 251));
  EXPECT_THAT(run.top(1), ElementsAre(16777217, 10));
  LayerRun narrow(kPairs);
  memory_of(narrow).set(pixels, labels);
  narrow.forward();
  expect_error([&] { narrow.forward(); }, {"integer 16777217", "f32"});
}

TEST(MemoryData, FeedsANet) {
  Context context;
  Net net(test::net_param(kPairs.layer +
                          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                          "inner_product_param { num_output: 1 weight_filler { value: 1 } } }"
                          "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' "
                          "top: 'loss' }"),
          context);
  expect_error([&] { net.forward(); }, {"layer 'memory' (MemoryData)", "no data",
                                        "MemoryData::of(net.layer(\"memory\"))", "HDF5Data"});
  MemoryData::of(net.layer("memory")).set(std::vector<float>{1, 2, 3, 4}, std::vector<float>{3, 9});
  EXPECT_DOUBLE_EQ(net.forward(), (0 * 0 + 2 * 2) / 4.0);
  expect_error([&] { MemoryData::of(net.layer("ip")); }, {"'ip'", "InnerProduct", "MemoryData"});
}

TEST(MemoryData, ResumesAtItsCursor) {
  const std::vector<float> data = {0, 1, 2, 3, 4, 5}, labels = {0, 1, 2};
  LayerRun through(kPairs), resumed(kPairs);
  memory_of(through).set(data, labels);
  next_values(through, 2);
  const RecordCursor cursor = source_of(through).cursor();
  EXPECT_EQ(cursor, (RecordCursor{1, 1}));
  expect_error([&] { source_of(resumed).set_cursor(cursor); }, {"MemoryData::set()", "restore"});
  source_of(resumed).set_cursor({});
  memory_of(resumed).set(data, labels);
  source_of(resumed).set_cursor(cursor);
  EXPECT_EQ(next_values(resumed, 4), next_values(through, 4));
  source_of(resumed).restart();
  EXPECT_THAT(next_values(resumed, 1, 1), ElementsAre(0, 1));
}

TEST(MemoryData, TakesItsShareOfTheRecords) {
  const std::vector<float> data(10), labels = {0, 1, 2, 3, 4};
  LayerRun through(kPairs), resumed(kPairs);
  for (LayerRun* run : {&through, &resumed}) {
    memory_of(*run).set(data, labels);
    // Programs may say later which of several processes this is.
    run->state().rank = 1;
    run->state().world_size = 2;
  }
  EXPECT_THAT(next_values(through, 2, 1), ElementsAre(1, 3, 0, 2));
  const RecordCursor cursor = source_of(through).cursor();
  EXPECT_EQ(cursor, (RecordCursor{1, 3}));
  source_of(resumed).set_cursor(cursor);
  EXPECT_EQ(next_values(resumed, 3, 1), next_values(through, 3, 1));
}

LayerCase transforming(const std::string& transform, const std::string& sizes) {
  return {.layer = text("layer { name: 'memory' type: 'MemoryData' top: 'data' top: 'label' ",
                        "transform_param { ", transform, " } memory_data_param { ", sizes, " } }")};
}

Tensor image_of(const Shape& shape, const std::vector<int>& pixels) {
  Tensor image(shape, DType::u8);
  std::ranges::copy(pixels, image.overwrite<uint8_t>());
  return image;
}

Tensor numbers_of(const std::vector<float>& values) {
  Tensor tensor({static_cast<int64_t>(values.size())});
  std::ranges::copy(values, tensor.overwrite<float>());
  return tensor;
}

TEST(MemoryData, TransformsDoNothingToArrays) {
  const std::vector<float> data = {1, 2, 3, 4}, labels = {0, 1};
  std::vector<std::string> log;
  Context context({.logger = [&](Severity severity, const std::string& text) {
    if (severity >= Severity::warning) log.push_back(text);
  }});
  Net net(test::net_param(
              transforming("scale: 0.5", "batch_size: 2 channels: 1 height: 1 width: 2").layer),
          context);
  MemoryData::of(net.layer("memory")).set(data, labels);
  EXPECT_THAT(log, ElementsAre(testing::AllOf(testing::HasSubstr("transform_param"),
                                              testing::HasSubstr("set_images()"))));
  net.forward();
  EXPECT_THAT(net.output("data").values<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(MemoryData, ImagesAreTransformed) {
  // The centre of 4 x 4 and of 2 x 4 pixels, in TEST.
  LayerCase crops = transforming("crop_size: 2 mean_value: 1 mean_value: 0 scale: 2",
                                 "batch_size: 2 channels: 2 height: 2 width: 2");
  crops.phase = Phase::test;
  const Tensor large = image_of({2, 4, 4}, {0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0,  //
                                            0, 0, 0, 0, 0, 5, 6, 0, 0, 7, 8, 0, 0, 0, 0, 0});
  const Tensor wide = image_of({2, 2, 4}, {0, 1, 1, 0, 0, 1, 1, 0, 0, 9, 9, 0, 0, 9, 9, 0});
  LayerRun run(crops);
  memory_of(run).set_images({large, wide}, numbers_of({3, 0.5}));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(0, 2, 4, 6, 10, 12, 14, 16, 0, 0, 0, 0, 18, 18, 18, 18));
  EXPECT_THAT(run.top(1), ElementsAre(3, 0.5));
  EXPECT_EQ(source_of(run).record_key(1), "record 1");
  // The same pixels in the order of cv::Mat.
  memory_of(run).set_images({image_of({2, 2, 2}, {1, 5, 2, 6, 3, 7, 4, 8})}, numbers_of({7}),
                            ImageAxes::hwc);
  EXPECT_THAT(next_values(run, 1), ElementsAre(0, 2, 4, 6, 10, 12, 14, 16,  //
                                               0, 2, 4, 6, 10, 12, 14, 16));
  // Arrays take their place.
  memory_of(run).set(std::vector<float>(8, 5), std::vector<float>{1});
  EXPECT_THAT(next_values(run, 1), testing::Each(5));
}

TEST(MemoryData, RecordsOfADatabaseAreTransformed) {
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(2);
  floats.add_float_data(0.5);
  floats.add_float_data(-1);
  floats.set_label(9);
  LayerRun run(transforming("scale: 2", "batch_size: 1 channels: 1 height: 1 width: 2"));
  memory_of(run).set_records({floats.SerializeAsString()});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(1, -2));
  EXPECT_THAT(run.top(1), ElementsAre(9));
  expect_error([&] { memory_of(run).set_records({"words"}); }, {"record '0'", "Datum"});
  floats.clear_label();
  floats.add_float_label(1);
  floats.add_float_label(2);
  expect_error([&] { memory_of(run).set_records({floats.SerializeAsString()}); }, {"2 labels"});
  // The records before stay.
  EXPECT_THAT(next_values(run, 1), ElementsAre(1, -2));
}

TEST(MemoryData, WhatIsDrawnIsTheSameAfterAResume) {
  const LayerCase crops =
      transforming("crop_size: 2 mirror: true num_labels: 3 mixup_param { alpha: 0.5 }",
                   "batch_size: 4 channels: 1 height: 2 width: 2");
  std::vector<Tensor> images;
  for (int i = 0; i < 6; ++i) {
    std::vector<int> pixels(25);
    std::iota(pixels.begin(), pixels.end(), 30 * i);
    images.push_back(image_of({1, 5, 5}, pixels));
  }
  const Tensor labels = numbers_of({0, 1, 2, 0, 1, 2});
  LayerRun through(crops), resumed(crops);
  memory_of(through).set_images(images, labels);
  const std::vector<double> epoch = next_values(through, 3);
  const RecordCursor cursor = source_of(through).cursor();
  const std::vector<double> next = next_values(through, 3);
  EXPECT_NE(next, epoch);
  EXPECT_EQ(through.top_blob(1).shape(), (Shape{4, 3}));
  memory_of(resumed).set_images(images, labels);
  source_of(resumed).set_cursor(cursor);
  EXPECT_EQ(next_values(resumed, 3), next);
  EXPECT_EQ(resumed.top(1), through.top(1));
  expect_error([&] { memory_of(through).set(std::vector<float>(4), std::vector<float>(1)); },
               {"num_labels", "set_images()"});
}

TEST(MemoryData, ImagesThatDoNotFitAreErrors) {
  LayerRun run(transforming("crop_size: 2", "batch_size: 2 channels: 1 height: 2 width: 2"));
  MemoryData& memory = memory_of(run);
  const Tensor good = image_of({1, 2, 2}, {1, 2, 3, 4});
  expect_error([&] { memory.set_images({}, numbers_of({})); }, {"'memory'", "no records"});
  expect_error([&] { memory.set_images({good}, numbers_of({1, 2})); }, {"1 images and 2 labels"});
  expect_error(
      [&] {
        memory.set_images({Tensor({1, 1, 2, 2})}, numbers_of({1}));
      },
      {"image 0 is 1x1x2x2", "(C, H, W)"});
  expect_error(
      [&] {
        memory.set_images({Tensor({1, 2, 2}, DType::i32)}, numbers_of({1}));
      },
      {"i32", "u8 or f32"});
  expect_error(
      [&] {
        memory.set_images({good, Tensor({1, 2, 2})}, numbers_of({1, 2}));
      },
      {"image 1 is of f32, image 0 of u8"});
  expect_error(
      [&] {
        memory.set_images({image_of({2, 2, 2}, std::vector(8, 1))}, numbers_of({1}));
      },
      {"2x2x2", "1x2x2", "behind the crop"});
  memory.set_images({good, image_of({1, 1, 2}, {1, 2})}, numbers_of({1, 2}));
  expect_error([&] { run.forward(); }, {"record '1'", "crop_size 2", "1 x 2"});
  expect_error(
      [] {
        LayerRun{transforming("force_color: true force_gray: true",
                              "batch_size: 2 channels: 1 height: 2 width: 2")};
      },
      {"force_color and force_gray"});
}

TEST(MemoryData, WhatDoesNotFitIsAnError) {
  const auto fails = [](const std::string& settings,
                        std::initializer_list<std::string_view> words) {
    expect_error([&] { LayerRun run({.layer = "layer { type: 'MemoryData' " + settings + " }"}); },
                 words);
  };
  fails("", {"batch_size 0", "all four"});
  fails("memory_data_param { batch_size: 1 channels: 1 height: 0 width: 1 }", {"height 0"});
  LayerRun run(kPairs);
  MemoryData& memory = memory_of(run);
  expect_error([&] { memory.set(std::vector<float>(5), std::vector<float>(2)); },
               {"5 values and 2 labels", "1x1x2", "4 values"});
  expect_error([&] { memory.set(std::vector<float>(), std::vector<float>()); },
               {"0x1x1x2", "at least 1"});
  expect_error([&] { memory.set(Tensor({2, 1, 2, 1}), Tensor({2})); }, {"2x1x2x1", "1x1x2"});
  expect_error([&] { memory.set(Tensor({2, 2}), Tensor({2})); }, {"2x2", "(n, C, H, W)"});
  expect_error([&] { memory.set(Tensor({2, 1, 1, 2}), Tensor({3})); }, {"2 records and 3 labels"});
  expect_error(
      [&] {
        memory.set(Tensor({2, 1, 1, 2}, DType::f32, Format::channels_last), Tensor({2}));
      },
      {"contiguous", "channels_last"});
}

}  // namespace
}  // namespace crema
