// MemoryData: how programs feed layers of type MemoryData.
//
//   crema::MemoryData& memory = crema::MemoryData::of(net.layer("data"));
//   memory.set(pixels, labels);     // vectors of n * C * H * W and of n numbers
//   net.forward();                  // the first batch; each forward takes the next one
//   memory.set_images(images, labels);   // images that transform_param crops, mirrors, scales
//
//   auto feed = memory.feed();   // samples that another thread makes while the net runs
//   while (feed->give(next_pixels(), next_labels()) == crema::MemoryFeed::Answer::more) {}
//
// One thread at a time may use a layer. A MemoryFeed may be used by any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// The order of an image's axes: planes, as blobs have them, or pixel by pixel, as in cv::Mat.
enum class ImageAxes : uint8_t { chw, hwc };

/// The producer's end of MemoryData::feed(). The layer takes the samples in the order in which they
/// are given, in batches of its batch_size, whatever numbers of samples are given at a time. One
/// thread at a time may give. It outlives the layer, and answers `closed` then.
class MemoryFeed {
 public:
  enum class Answer : uint8_t {
    more,     // the samples were taken
    restart,  // they were not: the net goes on elsewhere, see begin()
    closed,   // they were not: the layer is gone, has got other data, or close() was called
  };
  /// The number of an epoch, and that of a sample in it.
  struct Position {
    uint64_t epoch = 0, sample = 0;
    bool operator==(const Position&) const = default;
  };
  virtual ~MemoryFeed() = default;

  /// Gives n samples, ready for the net: `data` (n, C, H, W), with C, H, W of the layer's settings,
  /// and `labels`, n numbers; contiguous, of any element type, as for MemoryData::set(). The feed
  /// may keep views of them. Waits while FeedOptions::depth batches are ready. Error for other
  /// shapes; nothing is taken then.
  virtual Answer give(Tensor data, Tensor labels) = 0;
  /// The same for arrays, which are copied, into memory that is used again for later batches.
  virtual Answer give(std::span<const float> data, std::span<const double> labels) = 0;
  /// The same for images, as for MemoryData::set_images(). They go through transform_param in the
  /// thread of the caller; errors of images come at the latest with the one that completes their
  /// batch. What is drawn for a sample is a function of seed and position.
  virtual Answer give_images(const std::vector<Tensor>& images, const Tensor& labels,
                             ImageAxes axes = ImageAxes::chw) = 0;
  /// The same for pixels of n images of one shape, as `axes` has it, with n labels. They are
  /// copied.
  virtual Answer give_images(std::span<const uint8_t> pixels, const Shape& image,
                             std::span<const double> labels, ImageAxes axes = ImageAxes::chw) = 0;
  /// What follows is of the next epoch. A batch that is not full is completed by it, or, with
  /// `drop_rest`, forgotten.
  virtual Answer end_epoch(bool drop_rest = false) = 0;
  /// Behind the batches that are full: the next pass throws `error`, and each later one an Error.
  virtual void fail(std::exception_ptr error) = 0;
  /// The position of the next sample to give. Call it before the first, and after the answer
  /// `restart`, which comes until then.
  virtual Position begin() = 0;
  /// Ends the feed: who waits returns. The layer has no data then.
  virtual void close() = 0;
};

struct FeedOptions {
  /// Batches that are made in advance; at least 1.
  int depth = 3;
  /// Whether the producer can begin at any position. False: after Solver::restore(), the samples go
  /// on as they come.
  bool restarts = false;
  /// A pass that waits for a batch calls it 20 times a second, with the seconds that it has waited.
  /// What it throws ends the pass.
  std::function<void(double seconds)> on_wait = {};
};

class MemoryData {
 public:
  virtual ~MemoryData() = default;
  /// Error if the layer is of another type.
  static MemoryData& of(Layer& layer);

  /// Gives the layer n records, n >= 1: `data` (n, C, H, W), with C, H, W of the layer's settings,
  /// and `labels`, n numbers of any shape. Both are contiguous, of any element type: forward
  /// converts to that of the net, and refuses integers that have no exact value in it. Nothing is
  /// copied: the layer keeps views of the memory, which must not change while forward runs. The
  /// next batch begins at the first record; behind the last one follows the first again. Give the
  /// data before Solver::restore(). transform_param does nothing to them, as published; this is
  /// logged.
  virtual void set(Tensor data, Tensor labels) = 0;
  /// The same for arrays, which are copied.
  void set(std::span<const float> data, std::span<const float> labels);

  /// Gives the layer n images, n >= 1, which go through transform_param as records of Data do; the
  /// samples have the C, H, W of the layer's settings. Images are contiguous tensors of rank 3, all
  /// u8 (0 to 255) or all f32, and may differ in height and width if they are cropped or resized;
  /// `labels` are n numbers. Both are copied. What is drawn for a sample is a function of seed,
  /// epoch and number of the image. Errors of images but the first come with their batch.
  virtual void set_images(std::vector<Tensor> images, Tensor labels,
                          ImageAxes axes = ImageAxes::chw) = 0;
  /// The same for serialized Datum messages with one label each, as databases have them; they may
  /// hold compressed images.
  virtual void set_records(std::vector<std::string> records) = 0;
  /// Makes each pass wait for a batch that the program gives, from another thread. It takes the
  /// place of the data before, and data that are set later close the feed. A snapshot has the
  /// position of the next sample.
  virtual std::shared_ptr<MemoryFeed> feed(FeedOptions options = {}) = 0;

 protected:
  /// (C, H, W) of a record.
  virtual Shape record_shape() const = 0;
};

}  // namespace crema
