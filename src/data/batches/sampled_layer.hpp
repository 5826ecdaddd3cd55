// SampledLayer and BatchLayer: the bases of layers that read records. SampledLayer has their
// position in the data; BatchLayer takes batches of the layer's type from a Prefetcher.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data_source.hpp"
#include "crema/layer.hpp"
#include "data/batches/prefetcher.hpp"
#include "data/batches/sampler.hpp"

namespace crema {

/// Layers derive from BatchLayer.
class SampledLayer : public Layer, public DataSource {
 public:
  ~SampledLayer() override;

  Arity arity() const override { return {0, 0, 1, 2}; }
  const DataSource* data_source() const override { return this; }
  /// A batch may end early, see end_batches().
  TopShapes top_shapes() const override { return TopShapes::per_batch; }
  /// Waits for the next batch and sets the shapes of the tops for it.
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
  /// Makes the next batches that large, from the present position on. False, without effect, where
  /// the tops do not follow the number of samples.
  bool set_batch_size(int64_t samples);
  int64_t records_in_batch() const final { return static_cast<int64_t>(given_.size()); }
  double take_wait_seconds() final;
  std::string record_key(int64_t index) const final;
  void keep_batches(int batches) final { before_.resize(static_cast<size_t>(batches)); }
  bool look_back(int batches) final;
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
  /// Whether the tops follow the number of samples in a batch.
  virtual bool ends_early() const { return false; }
  /// Whether records that cannot be used are left out of a batch.
  bool leaves_out() const { return end_.leaves_out; }
  /// Reshapes a top to (N, ...) of N samples of a shape, and takes no memory where it has that
  /// already: most batches are like the one before.
  static void reshape_to(int64_t samples, const Shape& sample, Blob& top);
  /// Of sample `index` of a batch, for messages.
  virtual std::string key_of(const Sample& sample, int64_t index) const = 0;
  /// The same as the source has it.
  virtual std::string raw_key_of(const Sample& sample, int64_t index) const {
    return key_of(sample, index);
  }

 private:
  // What BatchLayer knows: the type of the batches.
  virtual std::unique_ptr<PrefetchThreads> prefetch(PrefetcherOptions options, Sampler sampler) = 0;
  virtual void take_shape_of(const Batch& batch, Blobs top) = 0;
  virtual void give_batch(const Batch& batch, Blobs top) = 0;

  Sampler make_sampler() const;
  const Batch& next_batch();
  void start();
  void stop();
  void count_skipped(const Batch& batch);
  void tell_skipped();

  int64_t batch_size_;
  BatchEnd end_;
  /// Where the run of batches began that the prefetcher is in, once that is fixed.
  std::optional<RecordCursor> first_;
  uint64_t taken_ = 0;                       // samples of all shards since first_
  std::vector<Sample> given_;                // samples of the last batch
  std::vector<std::vector<Sample>> before_;  // of batches before it, the last one first
  struct Skips {
    uint64_t epoch = 0;
    int64_t count = 0;
    std::string first;  // why the first of them
  };
  Skips skips_;              // of this epoch, not told yet
  double wait_seconds_ = 0;  // of earlier prefetchers
  std::unique_ptr<PrefetchThreads> prefetcher_;
};

/// A layer with batches of type B. Base is SampledLayer, or derives from it.
template <class B, class Base = SampledLayer>
class BatchLayer : public Base {
 protected:
  using Base::Base;

  struct Loading {
    int threads = 1;
    int depth = Base::kDepth;  // number of batches loaded in advance
    /// Threads call this after the layer's derived part is gone: it must not refer to the layer.
    typename Prefetcher<B>::MakeLoader make_loader;
  };
  /// For reading on from here, with the present seed of the run.
  virtual Loading loading() = 0;
  /// Sets the shapes of the tops for a batch.
  virtual void take_shape(const B& /*batch*/, Blobs /*top*/) {}
  /// Writes a batch to the tops.
  virtual void give(const B& batch, Blobs top) = 0;

 private:
  std::unique_ptr<PrefetchThreads> prefetch(PrefetcherOptions options, Sampler sampler) final {
    Loading how = loading();
    options.threads = how.threads;
    options.depth = how.depth;
    return std::make_unique<Prefetcher<B>>(options, std::move(sampler), std::move(how.make_loader));
  }
  void take_shape_of(const Batch& batch, Blobs top) final {
    take_shape(static_cast<const B&>(batch), top);
  }
  void give_batch(const Batch& batch, Blobs top) final { give(static_cast<const B&>(batch), top); }
};

}  // namespace crema
