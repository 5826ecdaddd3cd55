// SampledLayer: the base of layers that read records. It has their position in the data, and takes
// batches from a Prefetcher.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "data/data_source.hpp"
#include "data/datum_batch.hpp"
#include "data/prefetcher.hpp"
#include "data/sampler.hpp"

namespace crema {

class SampledLayer : public Layer, public DataSource {
 public:
  ~SampledLayer() override;

  Arity arity() const override { return {0, 0, 1, 2}; }
  const DataSource* data_source() const override { return this; }
  /// A batch may end early, see end_batches().
  TopShapes top_shapes() const override { return TopShapes::per_batch; }
  /// Waits for the next batch and calls take_shape().
  void fetch(Blobs top) final;
  /// No thread runs before the first call of this function or of fetch().
  void forward_cpu(Blobs bottom, Blobs top) final;

  RecordCursor cursor() const final;
  void set_cursor(const RecordCursor& cursor) final;
  void restart() final;
  int64_t records() const final { return sampling().count; }
  int64_t records_per_batch() const final { return batch_size_; }
  /// Where ends_early(), and records are not sharded.
  bool end_batches(const BatchEnd& end) final;
  int64_t records_in_batch() const final { return static_cast<int64_t>(given_.size()); }
  double take_wait_seconds() final;
  std::string record_key(int64_t index) const final;
  std::string raw_key(int64_t index) const final;
  int64_t record_number(int64_t index) const final;
  bool is_replaced(int64_t index) const final;

 protected:
  /// Batches that are loaded in advance, unless a setting says otherwise.
  static constexpr int kDepth = 4;

  /// `settings` is the name of the message that has batch_size. Error if that is 0.
  SampledLayer(const LayerInit& init, int64_t batch_size, const char* settings);

  /// Number and order of the records; the base adds seed and shards.
  virtual SamplerOptions sampling() const = 0;
  /// A run begins at a record drawn from [0, n). 0: at the first.
  virtual uint64_t rand_skip() const { return 0; }
  /// Whether take_shape() and give() follow the number of samples in a batch.
  virtual bool ends_early() const { return false; }
  /// Whether records that cannot be used are left out of a batch.
  bool leaves_out() const { return end_.leaves_out; }
  struct Loading {
    int threads = 1;
    int depth = kDepth;  // number of batches loaded in advance
    /// Threads call this after the layer's derived part is gone: it must not refer to the layer.
    Prefetcher::MakeLoader make_loader;
  };
  /// For reading on from here, with the present seed of the run.
  virtual Loading loading(Blobs top) = 0;
  /// Reshapes a top to (N, ...) of N samples of a shape, and takes no memory where it has that
  /// already: most batches are like the one before.
  static void reshape_to(int64_t samples, const Shape& sample, Blob& top);
  /// Sets the shapes of the tops for a batch.
  virtual void take_shape(const Batch& /*batch*/, Blobs /*top*/) const {}
  /// Writes a batch to the tops.
  virtual void give(const Batch& batch, Blobs top) const = 0;
  /// Writes a batch's labels to `top`, (N) or (N, L). Error, with the key, for one that has no
  /// exact value there.
  void give_labels(const Batch& batch, Tensor& top) const;
  /// Of sample `index` of a batch, for messages.
  virtual std::string key_of(const Sample& sample, int64_t index) const = 0;
  /// The same as the source has it.
  virtual std::string raw_key_of(const Sample& sample, int64_t index) const {
    return key_of(sample, index);
  }

 private:
  Sampler make_sampler() const;
  const Batch& next_batch(Blobs top);
  void start(Blobs top);
  void stop();
  void count_skipped(const Batch& batch);
  void tell_skipped();

  int64_t batch_size_;
  BatchEnd end_;
  /// Where the run of batches began that the prefetcher is in, once that is fixed.
  std::optional<RecordCursor> first_;
  uint64_t taken_ = 0;         // samples of all shards since first_
  std::vector<Sample> given_;  // samples of the last one
  struct Skips {
    uint64_t epoch = 0;
    int64_t count = 0;
    std::string first;  // why the first of them
  };
  Skips skips_;  // of this epoch, not told yet
  LossWarnings losses_;
  double wait_seconds_ = 0;  // of earlier prefetchers
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace crema
