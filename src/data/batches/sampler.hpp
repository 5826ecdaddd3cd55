// Sampler: the order of the records.
//
// The samples of a run are numbered from 0 over all epochs. Each epoch has each record once. If
// `shards` readers train together, reader `rank` reads the samples whose number is rank modulo
// shards. A cursor counts the samples of all shards, so it is the same for all readers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/data_source.hpp"

namespace crema {

struct SamplerOptions {
  int64_t count = 0;  // records of the source
  /// True: the order of each epoch is drawn from (seed, epoch). False: the order of the source.
  bool shuffle = false;
  /// Numbers of records that belong together, such as those of one file; their sum is `count`.
  /// Shuffling then draws the order of the groups, and the order within each.
  std::vector<int64_t> groups = {};
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t shards = 1;
};

struct Sample {
  uint64_t number = 0;  // over all epochs
  int64_t record = 0;
  /// The record stands for one that could not be used.
  bool replaced = false;
};

class Sampler {
 public:
  /// Error unless 0 <= rank < shards and there are records.
  explicit Sampler(const SamplerOptions& options);

  /// O(1), except at the start of a shuffled epoch: O(count). Shuffling needs 4 bytes for each
  /// record.
  Sample next();
  /// The position of the next sample of rank 0.
  RecordCursor cursor() const { return cursor_at(next_); }
  /// Error if the position is not below the number of records.
  void seek(const RecordCursor& cursor);

  /// Samples of this reader up to `records` records of the epoch, or to its end for 0; at least 1.
  int64_t left(int64_t records) const;

  uint64_t number_of(const RecordCursor& cursor) const;
  RecordCursor cursor_at(uint64_t number) const;

 private:
  void draw_order(uint64_t epoch);
  void draw_order_by_groups(class Random& random);

  SamplerOptions options_;
  uint64_t next_ = 0;  // number of rank 0's next sample
  std::vector<uint32_t> order_;
  uint64_t order_epoch_ = 0;
};

}  // namespace crema
