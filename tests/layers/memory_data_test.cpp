#include "crema/memory_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/net.hpp"
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
  uint8_t* const pixel = pixels.host_overwrite<uint8_t>();
  for (int i = 0; i < 6; ++i) pixel[i] = static_cast<uint8_t>(250 + i);
  int64_t* const label = labels.host_overwrite<int64_t>();
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

TEST(MemoryData, TransformsHaveNoEffect) {
  const std::vector<float> data = {1, 2, 3, 4}, labels = {0, 1};
  LayerCase scaled = kPairs;
  scaled.layer.insert(scaled.layer.rfind('}'), " transform_param { scale: 0.5 } ");
  LayerRun plain(kPairs), run(scaled);
  memory_of(plain).set(data, labels);
  memory_of(run).set(data, labels);
  EXPECT_EQ(next_values(run, 1), next_values(plain, 1));
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
