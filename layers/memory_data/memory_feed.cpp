#include "layers/memory_data/memory_feed.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "data/images/image_planes.hpp"
#include "data/records/record_labels.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

using Strings = std::shared_ptr<const std::vector<std::string>>;
using RecordKeys = std::function<std::string(int64_t)>;

class MemoryReader final : public RecordReader {
 public:
  MemoryReader(Strings records, RecordKeys key_of)
      : records_(std::move(records)), key_of_(std::move(key_of)) {}
  Record read(int64_t index) override {
    key_ = key(index);
    return {key_, records_->at(static_cast<size_t>(index))};
  }
  std::string key(int64_t index) override {
    return key_of_ ? key_of_(index) : std::to_string(index);
  }

 private:
  Strings records_;
  RecordKeys key_of_;
  std::string key_;
};

class MemorySource final : public RecordSource {
 public:
  MemorySource(Strings records, RecordKeys key_of)
      : records_(std::move(records)), key_of_(std::move(key_of)) {}
  int64_t count() const override { return static_cast<int64_t>(records_->size()); }
  std::string name() const override { return "the program's records"; }
  std::unique_ptr<RecordReader> reader(ReadOrder) override {
    return std::make_unique<MemoryReader>(records_, key_of_);
  }

 private:
  Strings records_;
  RecordKeys key_of_;
};

Image image_of(const Tensor& tensor, ImageAxes axes, int64_t number) {
  const Shape& shape = tensor.shape();
  const bool is_image = shape.rank() == 3 && shape.count() > 0 &&
                        shape.count() <= std::numeric_limits<int32_t>::max();
  const bool is_type = tensor.dtype() == DType::u8 || tensor.dtype() == DType::f32;
  if (!is_image || !is_type || tensor.format() != Format::contiguous)
    throw Error("image ", number, " is ", shape.str(), " of ", to_string(tensor.dtype()), ", ",
                to_string(tensor.format()), "; give contiguous tensors ",
                axes == ImageAxes::chw ? "(C, H, W)" : "(H, W, C)", " of u8 or f32");
  const std::array<int, 3> at = axes == ImageAxes::chw ? std::array{0, 1, 2} : std::array{2, 0, 1};
  Image image{.channels = shape[at[0]], .height = shape[at[1]], .width = shape[at[2]]};
  image.interleaved = axes == ImageAxes::hwc;
  return image;
}

std::string record_of(const Tensor& tensor, const Image& image, double label) {
  Datum datum;
  datum.set_channels(static_cast<int32_t>(image.channels));
  datum.set_height(static_cast<int32_t>(image.height));
  datum.set_width(static_cast<int32_t>(image.width));
  const auto count = static_cast<size_t>(image.count());
  if (tensor.dtype() == DType::u8) {
    datum.mutable_data()->resize(count);
    copy_planes(image, tensor.read<uint8_t>(),
                reinterpret_cast<uint8_t*>(datum.mutable_data()->data()));
  } else {
    datum.mutable_float_data()->Resize(static_cast<int>(count), 0);
    copy_planes(image, tensor.read<float>(), datum.mutable_float_data()->mutable_data());
  }
  set_labels(labels_of(std::array{label}), datum);
  return datum.SerializeAsString();
}

constexpr int kEpochBits = 32;
constexpr std::chrono::milliseconds kBetweenLooks{50};

uint64_t number_of(const MemoryFeed::Position& position) {
  return (position.epoch << kEpochBits) + position.sample;
}

/// Copies rows [first, first + count) of `from` to those of `to` from `at` on.
void copy_rows(const Tensor& from, int64_t first, int64_t count, Tensor& to, int64_t at) {
  const int64_t rows = from.shape()[0];
  const size_t size = from.bytes() / static_cast<size_t>(rows);
  const auto* const source = static_cast<const char*>(from.read_bytes());
  auto* const target = static_cast<char*>(to.overwrite_bytes());
  std::memcpy(target + static_cast<size_t>(at) * size, source + static_cast<size_t>(first) * size,
              static_cast<size_t>(count) * size);
}

}  // namespace

std::shared_ptr<RecordSource> open_memory(std::vector<std::string> records, RecordKeys key) {
  return std::make_shared<MemorySource>(
      std::make_shared<const std::vector<std::string>>(std::move(records)), std::move(key));
}

std::vector<std::string> records_of(const std::vector<Tensor>& images, const Tensor& labels,
                                    ImageAxes axes) {
  const auto count = static_cast<int64_t>(images.size());
  if (labels.count() != count)
    throw Error("there are ", count, " images and ", labels.count(),
                " labels; give one label an image");
  std::vector<std::string> records;
  for (int64_t n = 0; n < count; ++n) {
    const Tensor& tensor = images[static_cast<size_t>(n)];
    if (tensor.dtype() != images[0].dtype())
      throw Error("image ", n, " is of ", to_string(tensor.dtype()), ", image 0 of ",
                  to_string(images[0].dtype()), "; give all images one type");
    records.push_back(record_of(tensor, image_of(tensor, axes, n), labels.at(n)));
  }
  return records;
}

RecordCursor FedBatch::behind(const RecordCursor& from) const {
  if (epochs > 0) return {from.epoch + epochs, samples};
  return {from.epoch, from.position + samples};
}

std::string fed_key(uint64_t number) {
  const uint64_t sample = number & ((uint64_t{1} << kEpochBits) - 1);
  return text("sample ", sample, " of epoch ", number >> kEpochBits);
}

SampleFormat format_for(const DatumLoading& loading, const Shape& record) {
  const SampleFormat format = first_format(loading);
  if (format.shape != record)
    throw Error("the first record gives a sample of ", format.shape.str(),
                ", and memory_data_param asks for ", record.str(),
                "; these are the sides behind the crop");
  if (format.labels != 1)
    throw Error("the first record has ", format.labels,
                " labels, and MemoryData gives one; write a database for Data");
  return format;
}

Feed::Feed(Layer layer, FeedOptions options)
    : layer_(std::move(layer)),
      options_(std::move(options)),
      seed_(layer_.seed),
      wanted_seed_(seed_) {
  if (options_.depth < 1)
    throw Error("a feed makes ", options_.depth, " batches in advance; give 1 or more");
}

Feed::Answer Feed::answer() const {
  if (closed_) return Answer::closed;
  return wanted_ ? Answer::restart : Answer::more;
}

Feed::Answer Feed::locked_answer() {
  const std::lock_guard lock(mutex_);
  return answer();
}

void Feed::check_arrays(const Tensor& data, const Tensor& labels) const {
  const Shape& shape = data.shape();
  const Shape& record = layer_.record;
  if (shape.rank() != 4 || shape[0] < 1 || Shape({shape[1], shape[2], shape[3]}) != record)
    throw Error("the samples are ", shape.str(), "; memory_data_param asks for n samples of ",
                record.str(), ": give (n, C, H, W) with n of at least 1");
  if (labels.count() != shape[0])
    throw Error("there are ", shape[0], " samples and ", labels.count(),
                " labels; give one a sample");
  if (data.format() != Format::contiguous || labels.format() != Format::contiguous)
    throw Error("a feed takes contiguous tensors; see Tensor::contiguous()");
  if (layer_.has_classes)
    throw Error(
        "transform_param { num_labels } is for images: give them with give_images(), or remove it");
}

void Feed::count_samples(int64_t count) {
  for (int64_t n = 0; n < count; ++n) {
    pending_.samples.push_back({.number = number_of(next_), .record = pending_.count()});
    ++next_.sample;
  }
  samples_ += static_cast<uint64_t>(count);
}

void Feed::add_rows(const Tensor& data, const Tensor& labels, int64_t first, int64_t count) {
  const int64_t at = pending_.count();
  if (at > 0 && (!pending_.records.empty() || pending_.data.dtype() != data.dtype() ||
                 pending_.labels.dtype() != labels.dtype()))
    throw Error("a batch has samples of ",
                pending_.records.empty() ? to_string(pending_.data.dtype()) : "images", " and of ",
                to_string(data.dtype()), ", or labels of two types; give all samples one type");
  if (at == 0 && count == layer_.batch_size && data.shape()[0] == count) {
    pending_.data = data;
    pending_.labels = labels;
  } else {
    if (at == 0) {
      const Shape& record = layer_.record;
      pending_.data = Tensor({layer_.batch_size, record[0], record[1], record[2]}, data.dtype());
      pending_.labels = Tensor({layer_.batch_size}, labels.dtype());
    }
    copy_rows(data, first, count, pending_.data, at);
    copy_rows(labels, first, count, pending_.labels, at);
  }
  count_samples(count);
}

Feed::Answer Feed::give(Tensor data, Tensor labels) {
  check_arrays(data, labels);
  const int64_t rows = data.shape()[0];
  labels = labels.view({rows});
  for (int64_t first = 0; first < rows;) {
    if (const Answer now = locked_answer(); now != Answer::more) return now;
    const int64_t count = std::min(rows - first, layer_.batch_size - pending_.count());
    add_rows(data, labels, first, count);
    first += count;
    if (pending_.count() < layer_.batch_size) continue;
    if (const Answer now = finish(); now != Answer::more) return now;
  }
  return locked_answer();
}

Feed::Answer Feed::give_images(const std::vector<Tensor>& images, const Tensor& labels,
                               ImageAxes axes) {
  std::vector<std::string> records = records_of(images, labels, axes);
  for (std::string& record : records) {
    if (const Answer now = locked_answer(); now != Answer::more) return now;
    if (pending_.count() > 0 && pending_.records.empty())
      throw Error("a batch has arrays and images; give all samples one type");
    pending_.records.push_back(std::move(record));
    count_samples(1);
    if (pending_.count() < layer_.batch_size) continue;
    if (const Answer now = finish(); now != Answer::more) return now;
  }
  return locked_answer();
}

void Feed::load_images(std::vector<std::string> records, FedBatch& batch) const {
  DatumLoading loading = layer_.loading;
  const auto key = [&samples = batch.images.samples](int64_t index) {
    return fed_key(samples[static_cast<size_t>(index)].number);
  };
  loading.source = open_memory(std::move(records), key);
  loading.seed = seed_;
  loading.format = format_for(loading, layer_.record);
  const std::atomic<bool> stop = false;
  DatumLoader(loading).load(batch.images, stop);
  batch.format = loading.format;
  batch.has_images = true;
}

Feed::Answer Feed::finish() {
  auto batch = std::make_unique<FedBatch>();
  batch->seed = seed_;
  batch->epochs = std::exchange(epochs_, 0);
  batch->samples = std::exchange(samples_, 0);
  Pending pending = std::exchange(pending_, {});
  batch->images.samples = std::move(pending.samples);
  batch->data = std::move(pending.data);
  batch->labels = std::move(pending.labels);
  if (!pending.records.empty()) load_images(std::move(pending.records), *batch);
  std::unique_lock lock(mutex_);
  const auto depth = static_cast<size_t>(options_.depth);
  changed_.wait(lock, [&] { return answer() != Answer::more || ready_.size() < depth; });
  if (answer() == Answer::more) {
    ready_.push_back(std::move(batch));
    changed_.notify_all();
  }
  return answer();
}

Feed::Answer Feed::end_epoch(bool drop_rest) {
  const std::lock_guard lock(mutex_);
  if (answer() != Answer::more) return answer();
  if (drop_rest) pending_ = {};
  ++next_.epoch;
  next_.sample = 0;
  ++epochs_;
  samples_ = 0;
  return Answer::more;
}

void Feed::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (closed_ || ended_ || error_) return;
  error_ = std::move(error);
  changed_.notify_all();
}

Feed::Position Feed::begin() {
  const std::lock_guard lock(mutex_);
  if (wanted_) {
    next_ = *std::exchange(wanted_, std::nullopt);
    seed_ = wanted_seed_;
    pending_ = {};
    epochs_ = samples_ = 0;
  }
  return next_;
}

void Feed::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  ready_.clear();
  changed_.notify_all();
}

std::unique_ptr<FedBatch> Feed::take() {
  using Seconds = std::chrono::duration<double>;
  std::unique_lock lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&] { return Seconds(std::chrono::steady_clock::now() - start).count(); };
  const auto can_go_on = [&] { return !ready_.empty() || error_ || ended_ || closed_; };
  while (!changed_.wait_for(lock, kBetweenLooks, can_go_on)) {
    if (!options_.on_wait) continue;
    lock.unlock();
    options_.on_wait(waited());
    lock.lock();
  }
  waited_ += waited();
  if (!ready_.empty()) {
    std::unique_ptr<FedBatch> batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }
  if (error_) {
    ended_ = true;
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  throw Error(ended_ ? "what gives the layer its data has failed before" : "its feed was closed",
              "; give it data again with MemoryData::feed() or set(), in Python with crema.feed()");
}

void Feed::seek(const RecordCursor& cursor, uint64_t seed) {
  const std::lock_guard lock(mutex_);
  if (!options_.restarts || closed_ || ended_) return;
  wanted_ = Position{cursor.epoch, cursor.position};
  wanted_seed_ = seed;
  ready_.clear();
  changed_.notify_all();
}

uint64_t Feed::seed() {
  const std::lock_guard lock(mutex_);
  return wanted_seed_;
}

double Feed::take_wait_seconds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waited_, 0);
}

}  // namespace crema
