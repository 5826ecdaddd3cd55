#include "data/batches/sampler.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "crema/error.hpp"
#include "crema/random.hpp"

namespace crema {

namespace {

template <class T>
void shuffle(std::span<T> items, Random& random) {
  for (size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[static_cast<size_t>(random.below(i))]);
  }
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.count <= 0) throw Error("a data source without records cannot be sampled");
  if (options.shards <= 0 || options.rank < 0 || options.rank >= options.shards)
    throw Error("shard ", options.rank, " of ", options.shards,
                " does not exist; shards count from 0");
  if (!options.groups.empty() &&
      std::accumulate(options.groups.begin(), options.groups.end(), int64_t{0}) != options.count)
    throw Error("the groups of a data source do not have its ", options.count, " records");
  // So that records and sizes of groups are numbers of 32 bits.
  if (options.shuffle && options.count >= int64_t{1} << 32)
    throw Error("shuffle: true is possible below ", int64_t{1} << 32, " records; the source has ",
                options.count);
}

Sample Sampler::next() {
  const uint64_t number = next_ + static_cast<uint64_t>(options_.rank);
  next_ += static_cast<uint64_t>(options_.shards);
  const RecordCursor at = cursor_at(number);
  if (!options_.shuffle) return {number, static_cast<int64_t>(at.position)};
  if (order_.empty() || order_epoch_ != at.epoch) draw_order(at.epoch);
  return {number, static_cast<int64_t>(order_[at.position])};
}

void Sampler::seek(const RecordCursor& cursor) { next_ = number_of(cursor); }

int64_t Sampler::left(int64_t records) const {
  const auto position = static_cast<int64_t>(cursor().position);
  const int64_t end = records > position ? std::min(records, options_.count) : options_.count;
  return (end - position - options_.rank + options_.shards - 1) / options_.shards;
}

uint64_t Sampler::number_of(const RecordCursor& cursor) const {
  const auto count = static_cast<uint64_t>(options_.count);
  if (cursor.position >= count)
    throw Error("cannot continue at record ", cursor.position, " of epoch ", cursor.epoch,
                ": the source has ", count,
                " records; continue on the database that the run began with");
  if (cursor.epoch > std::numeric_limits<uint64_t>::max() / count - 1)
    throw Error("cannot continue in epoch ", cursor.epoch,
                ": the snapshot's data cursor is damaged");
  return cursor.epoch * count + cursor.position;
}

RecordCursor Sampler::cursor_at(uint64_t number) const {
  const auto count = static_cast<uint64_t>(options_.count);
  return {number / count, number % count};
}

void Sampler::draw_order(uint64_t epoch) {
  order_epoch_ = epoch;
  // The stream is the same for every layer: sources that belong together (images, and their masks
  // in a second database) stay in step.
  Random random(options_.seed, stream_id("record order"), epoch);
  order_.resize(static_cast<size_t>(options_.count));
  if (!options_.groups.empty()) return draw_order_by_groups(random);
  std::iota(order_.begin(), order_.end(), 0u);
  shuffle<uint32_t>(order_, random);
}

void Sampler::draw_order_by_groups(Random& random) {
  struct Group {
    uint32_t first, count;
  };
  std::vector<Group> groups;
  uint32_t first = 0;
  for (const int64_t count : options_.groups) {
    groups.push_back({first, static_cast<uint32_t>(count)});
    first += static_cast<uint32_t>(count);
  }
  shuffle<Group>(groups, random);
  auto out = order_.begin();
  for (const Group& group : groups) {
    const auto end = out + group.count;
    std::iota(out, end, group.first);
    shuffle<uint32_t>({out, end}, random);
    out = end;
  }
}

}  // namespace crema
