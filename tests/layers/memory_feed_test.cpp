// MemoryData::feed(): samples that a thread gives while the net runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <stdexcept>
#include <thread>

#include "crema/memory_data.hpp"
#include "support/layer_test.hpp"
#include "support/source_run.hpp"

namespace crema {
namespace {

using test::LayerCase;
using test::LayerRun;
using test::next_values;
using test::source_of;
using testing::ElementsAre;
using Answer = MemoryFeed::Answer;
using Position = MemoryFeed::Position;

const LayerCase kSingles = {
    .layer =
        "layer { name: 'memory' type: 'MemoryData' top: 'data' top: 'label' "
        "memory_data_param { batch_size: 2 channels: 1 height: 1 width: 1 } }"};

std::shared_ptr<MemoryFeed> feed_of(LayerRun& run, FeedOptions options = {}) {
  return MemoryData::of(run.layer()).feed(std::move(options));
}

/// Samples with these values, which are their labels too.
Answer give(MemoryFeed& feed, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  Tensor data({count, 1, 1, 1}), labels({count});
  std::ranges::copy(values, data.overwrite<float>());
  std::ranges::copy(values, labels.overwrite<float>());
  return feed.give(data, labels);
}

TEST(MemoryFeed, MakesBatchesOfAnyNumberOfSamples) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.depth = 10});
  EXPECT_EQ(give(*feed, {1}), Answer::more);
  give(*feed, {2, 3, 4, 5, 6});
  give(*feed, {7, 8});
  EXPECT_THAT(next_values(run, 4), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(run.top(1), ElementsAre(7, 8));
  EXPECT_EQ(source_of(run).record_key(1), "sample 7 of epoch 0");
  EXPECT_EQ(source_of(run).cursor(), (RecordCursor{0, 8}));
}

TEST(MemoryFeed, EpochsCompleteABatchOrDropTheirRest) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.depth = 10});
  give(*feed, {1, 2, 3});
  feed->end_epoch();
  give(*feed, {4, 5});
  feed->end_epoch(true);
  give(*feed, {6, 7});
  EXPECT_THAT(next_values(run, 2), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(source_of(run).cursor(), (RecordCursor{1, 1}));
  EXPECT_THAT(next_values(run, 1), ElementsAre(6, 7));
  EXPECT_EQ(source_of(run).cursor(), (RecordCursor{2, 2}));
}

TEST(MemoryFeed, APassWaitsForTheThreadAndTheThreadForRoom) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.depth = 1});
  Answer last = Answer::more;
  std::thread producer([&] {
    for (float value = 0; last == Answer::more; value += 2) last = give(*feed, {value, value + 1});
  });
  EXPECT_THAT(next_values(run, 3), ElementsAre(0, 1, 2, 3, 4, 5));
  feed->close();
  producer.join();
  EXPECT_EQ(last, Answer::closed);
  EXPECT_GE(source_of(run).take_wait_seconds(), 0);
  expect_error([&] { run.forward(); }, {"feed was closed", "crema.feed()"});
}

TEST(MemoryFeed, FailuresComeBehindTheBatchesBefore) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.depth = 10});
  give(*feed, {1, 2, 3});
  feed->fail(std::make_exception_ptr(std::domain_error("no more")));
  run.forward();
  EXPECT_THROW(run.forward(), std::domain_error);
  expect_error([&] { run.forward(); }, {"has failed before", "MemoryData::feed()"});
}

TEST(MemoryFeed, AWaitMayBeEnded) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.on_wait = [](double seconds) {
                              EXPECT_GT(seconds, 0);
                              throw std::domain_error("interrupted");
                            }});
  EXPECT_THROW(run.forward(), std::domain_error);
  // The next pass waits again.
  give(*feed, {1, 2});
  EXPECT_THAT(next_values(run, 1), ElementsAre(1, 2));
}

TEST(MemoryFeed, OtherDataAndTheEndOfTheLayerCloseIt) {
  std::shared_ptr<MemoryFeed> first, second;
  {
    LayerRun run(kSingles);
    first = feed_of(run);
    second = feed_of(run);
    EXPECT_EQ(give(*first, {1, 2}), Answer::closed);
    EXPECT_EQ(give(*second, {1, 2}), Answer::more);
  }
  EXPECT_EQ(give(*second, {1, 2}), Answer::closed);
  EXPECT_EQ(second->end_epoch(), Answer::closed);
  LayerRun run(kSingles);
  first = feed_of(run);
  MemoryData::of(run.layer()).set(std::vector<float>{5, 6}, std::vector<float>{0, 0});
  EXPECT_EQ(give(*first, {1, 2}), Answer::closed);
  EXPECT_THAT(next_values(run, 1), ElementsAre(5, 6));
}

TEST(MemoryFeed, RestartsWhereASnapshotSays) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.depth = 10, .restarts = true});
  EXPECT_EQ(feed->begin(), (Position{0, 0}));
  give(*feed, {1, 2, 3, 4, 5});
  run.forward();
  // Where it is: nothing is lost.
  source_of(run).set_cursor({0, 2});
  EXPECT_THAT(next_values(run, 1), ElementsAre(3, 4));
  source_of(run).set_cursor({3, 7});
  EXPECT_EQ(give(*feed, {6, 7}), Answer::restart);
  EXPECT_EQ(feed->end_epoch(), Answer::restart);
  EXPECT_EQ(feed->begin(), (Position{3, 7}));
  give(*feed, {8, 9});
  EXPECT_THAT(next_values(run, 1), ElementsAre(8, 9));
  EXPECT_EQ(source_of(run).cursor(), (RecordCursor{3, 9}));
  // A feed that cannot restart goes on.
  const auto other = feed_of(run, {.depth = 10});
  give(*other, {1, 2});
  source_of(run).set_cursor({3, 7});
  EXPECT_EQ(give(*other, {3, 4}), Answer::more);
  EXPECT_THAT(next_values(run, 2), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(source_of(run).cursor(), (RecordCursor{3, 11}));
}

Tensor image_of(const Shape& shape, uint8_t first) {
  Tensor image(shape, DType::u8);
  uint8_t* const pixels = image.overwrite<uint8_t>();
  for (int64_t i = 0; i < shape.count(); ++i) pixels[i] = static_cast<uint8_t>(first + i);
  return image;
}

Tensor numbers_of(const std::vector<double>& values) {
  Tensor tensor({static_cast<int64_t>(values.size())}, DType::f64);
  std::ranges::copy(values, tensor.overwrite<double>());
  return tensor;
}

TEST(MemoryFeed, ImagesAreTransformed) {
  LayerCase crops = {.layer =
                         "layer { name: 'memory' type: 'MemoryData' top: 'data' top: 'label' "
                         "transform_param { crop_size: 1 mean_value: 1 mean_value: 0 scale: 2 } "
                         "memory_data_param { batch_size: 2 channels: 2 height: 1 width: 1 } }"};
  crops.phase = Phase::test;
  LayerRun run(crops);
  const auto feed = feed_of(run, {.depth = 10});
  // The centres: of planes, and pixel by pixel.
  feed->give_images({image_of({2, 3, 3}, 0)}, numbers_of({7}));
  feed->give_images({image_of({3, 3, 2}, 0), image_of({3, 3, 2}, 10)}, numbers_of({8, 9}),
                    ImageAxes::hwc);
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(2 * (4 - 1), 2 * 13, 2 * (8 - 1), 2 * 9));
  EXPECT_THAT(run.top(1), ElementsAre(7, 8));
}

TEST(MemoryFeed, WhatIsDrawnIsTheSameAfterAResume) {
  const LayerCase crops = {
      .layer =
          "layer { name: 'memory' type: 'MemoryData' top: 'data' top: 'label' "
          "transform_param { crop_size: 2 mirror: true } "
          "memory_data_param { batch_size: 4 channels: 1 height: 2 width: 2 } }"};
  const auto samples = [](MemoryFeed& feed, int batches) {
    for (int b = 0; b < batches; ++b) {
      std::vector<Tensor> images;
      for (int i = 0; i < 4; ++i) images.push_back(image_of({1, 9, 9}, 0));
      feed.give_images(images, numbers_of({0, 1, 2, 3}));
    }
  };
  LayerRun through(crops), resumed(crops);
  samples(*feed_of(through, {.depth = 10}), 3);
  const std::vector<double> first = next_values(through, 1);
  const RecordCursor cursor = source_of(through).cursor();
  const std::vector<double> next = next_values(through, 2);
  EXPECT_NE(std::vector(next.begin(), next.begin() + 16), first);
  const auto feed = feed_of(resumed, {.depth = 10, .restarts = true});
  source_of(resumed).set_cursor(cursor);
  feed->begin();
  samples(*feed, 2);
  EXPECT_EQ(next_values(resumed, 2), next);
}

TEST(MemoryFeed, WhatDoesNotFitIsAnError) {
  LayerRun run(kSingles);
  expect_error([&] { feed_of(run, {.depth = 0}); }, {"0 batches in advance"});
  const auto feed = feed_of(run, {.depth = 10});
  expect_error([&] { feed->give(Tensor({2, 1, 1, 2}), Tensor({2})); }, {"2x1x1x2", "1x1x1"});
  expect_error([&] { feed->give(Tensor({2, 1, 1, 1}), Tensor({3})); }, {"2 samples and 3 labels"});
  expect_error(
      [&] {
        feed->give_images({image_of({1, 1, 1}, 0)}, numbers_of({1, 2}));
      },
      {"1 images and 2 labels"});
  give(*feed, {1});
  expect_error(
      [&] {
        feed->give(Tensor({1, 1, 1, 1}, DType::u8), Tensor({1}));
      },
      {"f32 and of u8", "one type"});
  expect_error(
      [&] {
        feed->give_images({image_of({1, 1, 1}, 0)}, numbers_of({1}));
      },
      {"arrays and images"});
  give(*feed, {2});
  EXPECT_THAT(next_values(run, 1), ElementsAre(1, 2));
  expect_error(
      [&] {
        feed->give_images({image_of({1, 1, 2}, 0)}, numbers_of({1}));
      },
      {"sample 2 of epoch 0", "1x1x2", "1x1x1"});
  const std::vector<float> three = {1, 2, 3};
  const std::vector<double> two = {1, 2};
  expect_error([&] { feed->give(three, two); }, {"3 values and 2 labels", "1x1x1"});
  const std::vector<uint8_t> pixels = {1, 2, 3};
  expect_error([&] { feed->give_images(pixels, {1, 1, 1}, two); }, {"3 bytes and 2 labels"});
  expect_error([&] { feed->give_images(pixels, {1, 3}, {}); }, {"1x3", "three axes"});
}

TEST(MemoryFeed, MemoryOfTheProgramIsReadAndNotWritten) {
  LayerRun run(kSingles);
  const auto feed = feed_of(run, {.depth = 1});
  Tensor theirs({2, 1, 1, 1});
  std::ranges::copy(std::array{1.0F, 2.0F}, theirs.overwrite<float>());
  feed->give(theirs, numbers_of({0, 0}));
  EXPECT_THAT(next_values(run, 1), ElementsAre(1, 2));
  // The next batches take the memory of the ones before, and not that of the program.
  std::vector<float> ours = {3, 4};
  const std::vector<double> labels = {0, 0};
  for (int batch = 0; batch < 4; ++batch, ours[0] += 2, ours[1] += 2) {
    feed->give(ours, labels);
    EXPECT_THAT(next_values(run, 1), ElementsAre(ours[0], ours[1]));
  }
  EXPECT_EQ(theirs.at(0), 1);
  EXPECT_EQ(theirs.at(1), 2);
}

// What is only cut, and what becomes records first, because force_gray may change its colours.
TEST(MemoryFeed, ImagesThatAreOnlyCutAreThoseOfRecords) {
  const auto values = [](const char* more, bool as_pixels) {
    LayerCase crops;
    crops.layer = text(
        "layer { name: 'memory' type: 'MemoryData' top: 'data' top: 'label' transform_param { "
        "crop_size: 2 mirror: true scale: 0.5 mean_value: 3 erase_param { prob: 0.5 } ",
        more, " } memory_data_param { batch_size: 3 channels: 1 height: 2 width: 2 } }");
    LayerRun run(crops);
    const auto feed = feed_of(run, {.depth = 10});
    for (int batch = 0; batch < 4; ++batch) {
      std::vector<Tensor> images;
      std::vector<uint8_t> pixels;
      for (int i = 0; i < 3; ++i) {
        images.push_back(image_of({1, 5, 6}, static_cast<uint8_t>(60 * i + batch)));
        const std::span<const uint8_t> bytes = images.back().values<uint8_t>();
        pixels.insert(pixels.end(), bytes.begin(), bytes.end());
      }
      const std::vector<double> labels = {0.1, 2, -7};
      if (as_pixels) {
        feed->give_images(pixels, {1, 5, 6}, labels);
      } else {
        feed->give_images(images, numbers_of(labels));
      }
    }
    std::vector<double> made;
    for (int batch = 0; batch < 4; ++batch) {
      run.forward();
      for (const int top : {0, 1}) {
        const std::vector<double> some = run.top(top);
        made.insert(made.end(), some.begin(), some.end());
      }
    }
    return made;
  };
  const std::vector<double> of_records = values("force_gray: true", false);
  EXPECT_EQ(values("", false), of_records);
  EXPECT_EQ(values("", true), of_records);
  EXPECT_EQ(values("force_gray: true", true), of_records);
}

}  // namespace
}  // namespace crema
