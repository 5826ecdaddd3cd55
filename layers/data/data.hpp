// Data: batches of records from an LMDB database. See README.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "data/data_source.hpp"
#include "data/datum_loader.hpp"
#include "data/prefetcher.hpp"
#include "data/record_source.hpp"
#include "data/sampler.hpp"
#include "data/transform.hpp"

namespace crema {

class DataLayer : public Layer, public DataSource {
 public:
  explicit DataLayer(const LayerInit& init);
  ~DataLayer() override;

  Arity arity() const override { return {0, 0, 1, 2}; }
  bool is_source() const override { return true; }
  /// Opens the database and looks at its first record. No thread runs before the first forward.
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  void forward_cpu(Blobs bottom, Blobs top) override;
  /// Of the batches that are read ahead.
  size_t kept_bytes() const override;

  RecordCursor cursor() const override;
  void set_cursor(const RecordCursor& cursor) override;
  void restart() override;
  int64_t records_per_batch() const override { return batch_size_; }
  double take_wait_seconds() override;
  std::string record_key(int64_t index) const override;

 private:
  Sampler make_sampler() const;
  PrefetcherOptions prefetching() const;
  void start(Blobs top);
  void stop();
  template <class T>
  void give(const Batch& batch, Blobs top) const;

  int64_t batch_size_;
  Transform transform_;
  DatumLoading loading_;
  /// Where the run of batches began that the prefetcher is in, once that is fixed.
  std::optional<RecordCursor> first_;
  uint64_t batches_given_ = 0;              // since first_
  std::vector<Sample> given_;               // samples of the last one
  double wait_seconds_ = 0;                 // of earlier prefetchers
  std::unique_ptr<Prefetcher> prefetcher_;  // last: its threads use the members above
};

}  // namespace crema
