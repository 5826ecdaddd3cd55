// Records that a program gives, as serialized Datum messages in memory; and Feed: the batches
// between a thread that gives samples and the layer that takes them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data_source.hpp"
#include "crema/memory_data.hpp"
#include "data/batches/datum_loader.hpp"
#include "data/batches/image_batch.hpp"
#include "data/records/record_source.hpp"

namespace crema {

/// Records. Their keys are by default their numbers, from 0.
std::shared_ptr<RecordSource> open_memory(std::vector<std::string> records,
                                          std::function<std::string(int64_t)> key = {});

/// A Datum of each image; see MemoryData::set_images(). Error for tensors that are no images, of
/// several types, or not as many as labels.
std::vector<std::string> records_of(const std::vector<Tensor>& images, const Tensor& labels,
                                    ImageAxes axes);

/// A batch that is ready. Numbers of samples have the epoch in their upper 32 bits.
struct FedBatch {
  Tensor data, labels;  // where arrays were given
  ImageBatch images;    // its samples; where images were given, these as well
  SampleFormat format;  // of images
  bool has_images = false;
  bool is_view = false;  // data and labels are memory of the program
  uint64_t seed = 0;     // with which images were placed
  /// Epochs that ended since the batch before; samples since the last one's end, or that batch.
  uint64_t epochs = 0, samples = 0;

  /// The position behind it, of a layer that was at `from`.
  RecordCursor behind(const RecordCursor& from) const;
};

/// "sample 3 of epoch 1", of the number of a sample.
std::string fed_key(uint64_t number);

/// The format of the first record of `loading`. Error unless its samples are `record`, with one
/// label.
SampleFormat format_for(const DatumLoading& loading, const Shape& record);

class Feed final : public MemoryFeed {
 public:
  struct Layer {
    int64_t batch_size = 0;
    Shape record;              // (C, H, W)
    bool has_classes = false;  // labels become distributions, of images alone
    DatumLoading loading;      // without source, format and seed
    uint64_t seed = 0;
  };
  Feed(Layer layer, FeedOptions options);

  Answer give(Tensor data, Tensor labels) override;
  Answer give(std::span<const float> data, std::span<const double> labels) override;
  Answer give_images(const std::vector<Tensor>& images, const Tensor& labels,
                     ImageAxes axes) override;
  Answer give_images(std::span<const uint8_t> pixels, const Shape& image,
                     std::span<const double> labels, ImageAxes axes) override;
  Answer end_epoch(bool drop_rest) override;
  void fail(std::exception_ptr error) override;
  Position begin() override;
  void close() override;

  /// Makes `batch` the next one; what it was is used again. Waits for it. Throws what the producer
  /// failed with, and what on_wait throws; `batch` stays as it is then.
  void take(std::unique_ptr<FedBatch>& batch);
  /// The layer goes on at `cursor`, with this seed. Without FeedOptions::restarts, the samples go
  /// on as they come.
  void seek(const RecordCursor& cursor, uint64_t seed);
  /// That of seek(), or at first of the layer.
  uint64_t seed();
  /// Seconds that take() has waited since the last call.
  double take_wait_seconds();

 private:
  /// What the samples of a batch were given as.
  enum class Kind : uint8_t { arrays, images, records };
  /// Rows of an array.
  struct Rows {
    const void* begin = nullptr;
    DType dtype = DType::f32;
  };

  /// With the mutex: the answer of now.
  Answer answer() const;
  Answer locked_answer();
  void check_arrays(const Tensor& data, const Tensor& labels) const;
  void check_no_classes() const;
  /// Takes n samples by take_some(first, count), which takes those that still go into the batch.
  template <class TakeSome>
  Answer take_all(int64_t samples, const TakeSome& take_some);
  /// The samples that have been given of the batch that is next.
  int64_t pending() const;
  /// That batch, of samples that are given as `kind`. Error if others were given as another one.
  FedBatch& batch_for(Kind kind);
  /// Numbers `count` samples that are to be pending.
  void count_samples(int64_t count);
  void forget_pending();
  void add_rows(const Rows& data, const Rows& labels, int64_t first, int64_t count);
  void add_image(const Image& image, double label);
  void load_images(FedBatch& batch);
  /// Waits for room for the batch, which is full.
  Answer finish();

  const Layer layer_;
  const FeedOptions options_;

  const bool only_cuts_;  // images of bytes; else they go through a DatumLoader

  // The producer's alone.
  std::unique_ptr<FedBatch> pending_;  // null: nothing is pending
  Kind kind_ = Kind::arrays;           // of what is
  std::vector<std::string> records_;   // of Kind::records
  Position next_;
  uint64_t epochs_ = 0, samples_ = 0;  // as those of the FedBatch that is next
  uint64_t seed_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<FedBatch>> ready_;
  std::vector<std::unique_ptr<FedBatch>> used_;  // whose memory is used again
  std::exception_ptr error_;
  std::optional<Position> wanted_;  // where the producer has to begin
  uint64_t wanted_seed_ = 0;        // and from there on
  bool ended_ = false, closed_ = false;
  double waited_ = 0;
};

}  // namespace crema
