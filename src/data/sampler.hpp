// Sampler: which record comes when.
//
// The samples of a run are numbered from 0 through all epochs; every epoch takes each record once.
// Of `shards` readers that train together, reader `rank` takes the samples whose number is rank
// modulo shards. A cursor counts the samples of all shards, so one cursor serves all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/data_source.hpp"

namespace crema {

struct SamplerOptions {
  int64_t count = 0;  // records of the source
  /// Each epoch in an order of its own, drawn from (seed, epoch); else in the source's order.
  bool shuffle = false;
  uint64_t seed = 0;
  int64_t rank = 0;
  int64_t shards = 1;
};

struct Sample {
  uint64_t number = 0;  // in the whole run
  int64_t record = 0;
};

class Sampler {
 public:
  /// Error unless 0 <= rank < shards and there are records.
  explicit Sampler(const SamplerOptions& options);

  /// A shuffled epoch begins with O(count) work, and 4 bytes a record are held; all else is O(1).
  Sample next();
  /// Of the sample that next() gives to rank 0.
  RecordCursor cursor() const { return cursor_at(next_); }
  /// Error when the position is beyond the records.
  void seek(const RecordCursor& cursor);

  uint64_t number_of(const RecordCursor& cursor) const;
  RecordCursor cursor_at(uint64_t number) const;

 private:
  void draw_order(uint64_t epoch);

  SamplerOptions options_;
  uint64_t next_ = 0;  // number of rank 0's next sample
  std::vector<uint32_t> order_;
  uint64_t order_epoch_ = 0;
};

}  // namespace crema
