#include "data/batches/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

std::vector<int64_t> take(Sampler& sampler, int count) {
  std::vector<int64_t> records;
  for (int i = 0; i < count; ++i) records.push_back(sampler.next().record);
  return records;
}

std::vector<int64_t> epoch_of(const SamplerOptions& options, uint64_t epoch) {
  Sampler sampler(options);
  sampler.seek({epoch, 0});
  return take(sampler, static_cast<int>(options.count));
}

TEST(Sampler, SequentialWrapsAndNumbersOnThroughEpochs) {
  Sampler sampler({.count = 3});
  EXPECT_THAT(take(sampler, 7), ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_EQ(sampler.cursor(), (RecordCursor{2, 1}));
  EXPECT_EQ(sampler.next().number, 7u);
}

TEST(Sampler, KnowsWhatIsLeftOfAnEpoch) {
  Sampler sampler({.count = 5});
  EXPECT_EQ(sampler.left(0), 5);
  EXPECT_EQ(sampler.left(3), 3);
  sampler.seek({2, 3});
  EXPECT_EQ(sampler.left(0), 2);
  EXPECT_EQ(sampler.left(4), 1);
  EXPECT_EQ(sampler.left(3), 2) << "the three were taken before";
  Sampler second({.count = 5, .rank = 1, .shards = 2});
  EXPECT_EQ(second.left(0), 2);
}

TEST(Sampler, ShuffledEpochTakesEachRecordOnce) {
  for (const int64_t count : {1, 2, 10, 1000}) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    for (const uint64_t epoch : {0, 1, 5}) {
      std::vector<int64_t> records = epoch_of({.count = count, .shuffle = true, .seed = 3}, epoch);
      std::sort(records.begin(), records.end());
      EXPECT_EQ(records, all) << count << " records, epoch " << epoch;
    }
  }
}

TEST(Sampler, OrderDependsOnSeedAndEpochOnly) {
  const SamplerOptions options{.count = 100, .shuffle = true, .seed = 3};
  SamplerOptions other_seed = options;
  other_seed.seed = 4;
  EXPECT_EQ(epoch_of(options, 0), epoch_of(options, 0));
  EXPECT_NE(epoch_of(options, 0), epoch_of(options, 1));
  EXPECT_NE(epoch_of(options, 0), epoch_of(other_seed, 0));
  EXPECT_FALSE(std::is_sorted(epoch_of(options, 0).begin(), epoch_of(options, 0).end()));
}

TEST(Sampler, EveryOrderOfThreeComesUpAboutEquallyOften) {
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) {
    ++seen[epoch_of({.count = 3, .shuffle = true, .seed = 1}, epoch)];
  }
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, 1000, 150);
}

TEST(Sampler, SeekContinuesWhereTheCursorWas) {
  for (const bool shuffle : {false, true}) {
    const SamplerOptions options{.count = 10, .shuffle = shuffle, .seed = 7};
    Sampler through(options);
    take(through, 23);
    Sampler resumed(options);
    resumed.seek(through.cursor());
    for (int i = 0; i < 15; ++i) {
      const Sample a = through.next(), b = resumed.next();
      EXPECT_EQ(a.record, b.record);
      EXPECT_EQ(a.number, b.number);
    }
  }
}

TEST(Sampler, ShardsDivideTheSamplesOfOneReader) {
  const SamplerOptions options{.count = 7, .shuffle = true, .seed = 2};
  Sampler whole(options);
  std::vector<Sampler> shards;
  for (int64_t rank = 0; rank < 3; ++rank) {
    SamplerOptions own = options;
    own.rank = rank;
    own.shards = 3;
    shards.emplace_back(own);
  }
  for (uint64_t i = 0; i < 30; ++i) {
    const Sample expected = whole.next();
    const Sample sample = shards[i % 3].next();
    EXPECT_EQ(sample.number, expected.number);
    EXPECT_EQ(sample.record, expected.record);
  }
  // After equal steps of all shards, each of them knows the cursor that serves all.
  EXPECT_EQ(shards[0].cursor(), whole.cursor());
  EXPECT_EQ(shards[2].cursor(), whole.cursor());
}

TEST(Sampler, RefusesWhatItCannotDo) {
  expect_error([] { Sampler({.count = 0}); }, {"without records"});
  expect_error([] { Sampler({.count = 5, .rank = 2, .shards = 2}); }, {"shard 2 of 2"});
  expect_error([] { Sampler({.count = int64_t{1} << 32, .shuffle = true}); },
               {"shuffle", "4294967296"});
  EXPECT_NO_THROW(Sampler({.count = (int64_t{1} << 32) - 1, .shuffle = true}));
  Sampler sampler({.count = 5});
  expect_error([&] { sampler.seek({0, 5}); }, {"record 5", "has 5 records"});
  expect_error([&] { sampler.seek({~uint64_t{0}, 0}); }, {"damaged"});
}

TEST(Sampler, ShufflesGroupsAndWithinThem) {
  const SamplerOptions options{.count = 6, .shuffle = true, .groups = {3, 0, 1, 2}, .seed = 3};
  std::set<std::vector<int64_t>> seen;
  for (uint64_t epoch = 0; epoch < 1000; ++epoch) {
    const std::vector<int64_t> records = epoch_of(options, epoch);
    const auto place = [&](int64_t record) {
      return std::find(records.begin(), records.end(), record) - records.begin();
    };
    EXPECT_EQ(std::max({place(0), place(1), place(2)}) - std::min({place(0), place(1), place(2)}),
              2);
    EXPECT_EQ(std::abs(place(4) - place(5)), 1);
    seen.insert(records);
  }
  EXPECT_EQ(seen.size(), 72u);  // 3! orders of the groups, 3! and 2! within them
  SamplerOptions straight = options;
  straight.shuffle = false;
  EXPECT_THAT(epoch_of(straight, 1), ElementsAre(0, 1, 2, 3, 4, 5));
  expect_error([] { Sampler sampler({.count = 2, .groups = {1, 2}}); }, {"groups", "2 records"});
}

}  // namespace
}  // namespace crema
