#include "data/sampler.hpp"

#include <limits>
#include <numeric>
#include <utility>

#include "crema/error.hpp"
#include "crema/random.hpp"

namespace crema {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.count <= 0) throw Error("a data source without records cannot be sampled");
  if (options.shards <= 0 || options.rank < 0 || options.rank >= options.shards)
    throw Error("shard ", options.rank, " of ", options.shards,
                " does not exist; shards count from 0");
  if (options.shuffle && options.count > int64_t{1} << 32)
    throw Error("shuffle: true is possible up to ", int64_t{1} << 32, " records; the source has ",
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
  order_.resize(static_cast<size_t>(options_.count));
  std::iota(order_.begin(), order_.end(), 0u);
  // The stream is the same for every layer: sources that belong together (images, and their masks
  // in a second database) stay in step.
  Random random(options_.seed, stream_id("record order"), epoch);
  for (size_t i = order_.size() - 1; i > 0; --i) {
    std::swap(order_[i], order_[static_cast<size_t>(random.below(i + 1))]);
  }
  order_epoch_ = epoch;
}

}  // namespace crema
