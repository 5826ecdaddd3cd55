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

/// The sides of an image, without pixels.
Image image_of(const Shape& shape, ImageAxes axes) {
  const std::array<int, 3> at = axes == ImageAxes::chw ? std::array{0, 1, 2} : std::array{2, 0, 1};
  Image image{.channels = shape[at[0]], .height = shape[at[1]], .width = shape[at[2]]};
  image.interleaved = axes == ImageAxes::hwc;
  return image;
}

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

/// The pixels of a tensor of rank 3.
Image image_of(const Tensor& tensor, ImageAxes axes, int64_t number) {
  const Shape& shape = tensor.shape();
  const bool is_image = shape.rank() == 3 && shape.count() > 0 &&
                        shape.count() <= std::numeric_limits<int32_t>::max();
  const bool is_type = tensor.dtype() == DType::u8 || tensor.dtype() == DType::f32;
  if (!is_image || !is_type || tensor.format() != Format::contiguous)
    throw Error("image ", number, " is ", shape.str(), " of ", to_string(tensor.dtype()), ", ",
                to_string(tensor.format()), "; give contiguous tensors ",
                axes == ImageAxes::chw ? "(C, H, W)" : "(H, W, C)", " of u8 or f32");
  Image image = image_of(shape, axes);
  if (tensor.dtype() == DType::u8) {
    image.bytes = tensor.read<uint8_t>();
  } else {
    image.floats = tensor.read<float>();
  }
  return image;
}

std::vector<Image> images_of(const std::vector<Tensor>& tensors, const Tensor& labels,
                             ImageAxes axes) {
  const auto count = static_cast<int64_t>(tensors.size());
  if (labels.count() != count)
    throw Error("there are ", count, " images and ", labels.count(),
                " labels; give one label an image");
  std::vector<Image> images;
  for (int64_t n = 0; n < count; ++n) {
    const Tensor& tensor = tensors[static_cast<size_t>(n)];
    if (tensor.dtype() != tensors[0].dtype())
      throw Error("image ", n, " is of ", to_string(tensor.dtype()), ", image 0 of ",
                  to_string(tensors[0].dtype()), "; give all images one type");
    images.push_back(image_of(tensor, axes, n));
  }
  return images;
}

std::string record_of(const Image& image, double label) {
  Datum datum;
  datum.set_channels(static_cast<int32_t>(image.channels));
  datum.set_height(static_cast<int32_t>(image.height));
  datum.set_width(static_cast<int32_t>(image.width));
  const auto count = static_cast<size_t>(image.count());
  if (image.bytes != nullptr) {
    datum.mutable_data()->resize(count);
    copy_planes(image, image.bytes, reinterpret_cast<uint8_t*>(datum.mutable_data()->data()));
  } else {
    datum.mutable_float_data()->Resize(static_cast<int>(count), 0);
    copy_planes(image, image.floats, datum.mutable_float_data()->mutable_data());
  }
  set_labels(labels_of(std::array{label}), datum);
  return datum.SerializeAsString();
}

/// The label as a record would hold it.
double stored(double label) {
  const RecordLabels labels = labels_of(std::array{label});
  return labels.floats.empty() ? labels.label : static_cast<double>(labels.floats[0]);
}

/// Whether what `loading` does to images of bytes is to cut a part out of them, and to erase some
/// of it, so that they need not become records.
bool only_cuts(const DatumLoading& loading) {
  return loading.color == ColorMode::as_stored && !loading.transform->augmentation().has_steps();
}

constexpr int kEpochBits = 32;
constexpr std::chrono::milliseconds kBetweenLooks{50};

uint64_t number_of(const MemoryFeed::Position& position) {
  return (position.epoch << kEpochBits) + position.sample;
}

/// Room for a batch of the type; that of an earlier batch, if it is of that type.
void make_room(const Shape& shape, DType dtype, bool is_view, Tensor& tensor) {
  if (is_view || tensor.dtype() != dtype || tensor.shape() != shape) tensor = Tensor(shape, dtype);
}

/// Copies `bytes` to row `at` and those behind it, of rows of `size` bytes.
void copy_rows(const void* from, size_t bytes, size_t size, int64_t at, Tensor& to) {
  std::memcpy(static_cast<char*>(to.overwrite_bytes()) + static_cast<size_t>(at) * size, from,
              bytes);
}

}  // namespace

std::shared_ptr<RecordSource> open_memory(std::vector<std::string> records, RecordKeys key) {
  return std::make_shared<MemorySource>(
      std::make_shared<const std::vector<std::string>>(std::move(records)), std::move(key));
}

std::vector<std::string> records_of(const std::vector<Tensor>& images, const Tensor& labels,
                                    ImageAxes axes) {
  std::vector<std::string> records;
  for (const Image& image : images_of(images, labels, axes))
    records.push_back(record_of(image, labels.at(static_cast<int64_t>(records.size()))));
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
      only_cuts_(only_cuts(layer_.loading)),
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
  check_no_classes();
}

void Feed::check_no_classes() const {
  if (layer_.has_classes)
    throw Error(
        "transform_param { num_labels } is for images: give them with give_images(), or remove it");
}

int64_t Feed::pending() const {
  return pending_ ? static_cast<int64_t>(pending_->images.samples.size()) : 0;
}

FedBatch& Feed::batch_for(Kind kind) {
  if (pending() > 0 && kind != kind_)
    throw Error("a batch has ",
                kind == Kind::arrays || kind_ == Kind::arrays ? "arrays and images"
                                                              : "images of bytes and of floats",
                "; give all samples one type");
  kind_ = kind;
  if (pending() > 0) return *pending_;
  if (!pending_) {
    const std::lock_guard lock(mutex_);
    if (!used_.empty()) {
      pending_ = std::move(used_.back());
      pending_->images.samples.clear();
      used_.pop_back();
    }
  }
  if (!pending_) pending_ = std::make_unique<FedBatch>();
  pending_->has_images = kind != Kind::arrays;
  pending_->images.losses = {};
  return *pending_;
}

void Feed::count_samples(int64_t count) {
  std::vector<Sample>& samples = pending_->images.samples;
  for (int64_t n = 0; n < count; ++n) {
    samples.push_back({.number = number_of(next_), .record = static_cast<int64_t>(samples.size())});
    ++next_.sample;
  }
  samples_ += static_cast<uint64_t>(count);
}

void Feed::forget_pending() {
  if (pending_) pending_->images.samples.clear();
  records_.clear();
}

void Feed::add_rows(const Rows& data, const Rows& labels, int64_t first, int64_t count) {
  FedBatch& batch = batch_for(Kind::arrays);
  const int64_t at = pending();
  if (at == 0) {
    const Shape& record = layer_.record;
    make_room({layer_.batch_size, record[0], record[1], record[2]}, data.dtype, batch.is_view,
              batch.data);
    make_room({layer_.batch_size}, labels.dtype, batch.is_view, batch.labels);
    batch.is_view = false;
  } else if (batch.data.dtype() != data.dtype || batch.labels.dtype() != labels.dtype) {
    throw Error("a batch has samples of ", to_string(batch.data.dtype()), " and of ",
                to_string(data.dtype), ", or labels of two types; give all samples one type");
  }
  const auto copy = [&](const Rows& rows, size_t row, Tensor& to) {
    const size_t size = row * size_of(rows.dtype);
    const auto* const from = static_cast<const char*>(rows.begin);
    copy_rows(from + static_cast<size_t>(first) * size, static_cast<size_t>(count) * size, size, at,
              to);
  };
  copy(data, static_cast<size_t>(layer_.record.count()), batch.data);
  copy(labels, 1, batch.labels);
  count_samples(count);
}

void Feed::add_image(const Image& image, double label) {
  if (!only_cuts_ || image.bytes == nullptr) {
    batch_for(Kind::records);
    records_.push_back(record_of(image, label));
    return count_samples(1);
  }
  FedBatch& batch = batch_for(Kind::images);
  ImageBatch& images = batch.images;
  const auto at = static_cast<size_t>(pending());
  const Transform& transform = *layer_.loading.transform;
  const Shape& record = layer_.record;
  const auto size = static_cast<size_t>(record.count());
  if (at == 0) {
    const auto count = static_cast<size_t>(layer_.batch_size);
    batch.format = {.shape = record};
    images.shape = record;
    images.bytes.resize(count * size);
    images.placements.resize(count);
    images.labels.resize(count);
  }
  const uint64_t number = number_of(next_);
  const uint64_t stream = layer_.loading.stream;
  try {
    const Shape shape = transform.output_shape(image);
    if (shape != record)
      throw Error("it gives a sample of ", shape.str(), ", and memory_data_param asks for ",
                  record.str(), "; these are the sides behind the crop");
    const Placement placement = transform.place(image, Random(seed_, stream, number));
    uint8_t* const out = images.bytes.data() + at * size;
    transform.cut(image, placement, out);
    const auto erasure = transform.augmentation().draw_erasure(
        {record[1], record[2]}, {.seed = seed_, .stream = stream, .number = number});
    if (erasure) transform.erase(*erasure, record, placement, out);
    images.placements[at] = placement;
  } catch (const Error& error) {
    throw Error("record '", fed_key(number), "': ", error.message()).about(error.path());
  }
  images.labels[at] = stored(label);
  count_samples(1);
}

template <class TakeSome>
Feed::Answer Feed::take_all(int64_t samples, const TakeSome& take_some) {
  for (int64_t first = 0; first < samples;) {
    if (const Answer now = locked_answer(); now != Answer::more) return now;
    const int64_t count = std::min(samples - first, layer_.batch_size - pending());
    take_some(first, count);
    first += count;
    if (pending() < layer_.batch_size) continue;
    if (const Answer now = finish(); now != Answer::more) return now;
  }
  return locked_answer();
}

Feed::Answer Feed::give(Tensor data, Tensor labels) {
  check_arrays(data, labels);
  const int64_t rows = data.shape()[0];
  labels = labels.view({rows});
  const Rows values{data.read_bytes(), data.dtype()}, numbers{labels.read_bytes(), labels.dtype()};
  return take_all(rows, [&](int64_t first, int64_t count) {
    if (count < layer_.batch_size || rows != count) return add_rows(values, numbers, first, count);
    FedBatch& batch = batch_for(Kind::arrays);
    batch.data = data;
    batch.labels = labels;
    batch.is_view = true;
    count_samples(count);
  });
}

Feed::Answer Feed::give(std::span<const float> data, std::span<const double> labels) {
  const Shape& record = layer_.record;
  const auto rows = static_cast<int64_t>(labels.size());
  if (rows < 1 || static_cast<int64_t>(data.size()) != rows * record.count())
    throw Error("there are ", data.size(), " values and ", rows, " labels; samples of ",
                record.str(), " need ", rows * record.count(), " values, of one sample at least");
  check_no_classes();
  const Rows values{data.data(), DType::f32}, numbers{labels.data(), DType::f64};
  return take_all(rows,
                  [&](int64_t first, int64_t count) { add_rows(values, numbers, first, count); });
}

Feed::Answer Feed::give_images(const std::vector<Tensor>& images, const Tensor& labels,
                               ImageAxes axes) {
  const std::vector<Image> views = images_of(images, labels, axes);
  return take_all(static_cast<int64_t>(views.size()), [&](int64_t first, int64_t count) {
    for (int64_t n = first; n < first + count; ++n)
      add_image(views[static_cast<size_t>(n)], labels.at(n));
  });
}

Feed::Answer Feed::give_images(std::span<const uint8_t> pixels, const Shape& image,
                               std::span<const double> labels, ImageAxes axes) {
  const bool is_image = image.rank() == 3 && image.count() > 0 &&
                        image.count() <= std::numeric_limits<int32_t>::max();
  const auto size = is_image ? static_cast<size_t>(image.count()) : 0;
  if (!is_image || pixels.size() != size * labels.size())
    throw Error("there are ", pixels.size(), " bytes and ", labels.size(), " labels, of images of ",
                image.str(), "; give three axes, and one label an image");
  Image view = image_of(image, axes);
  return take_all(static_cast<int64_t>(labels.size()), [&](int64_t first, int64_t count) {
    for (auto n = static_cast<size_t>(first); n < static_cast<size_t>(first + count); ++n) {
      view.bytes = pixels.data() + n * size;
      add_image(view, labels[n]);
    }
  });
}

void Feed::load_images(FedBatch& batch) {
  DatumLoading loading = layer_.loading;
  const auto key = [&samples = batch.images.samples](int64_t index) {
    return fed_key(samples[static_cast<size_t>(index)].number);
  };
  loading.source = open_memory(std::exchange(records_, {}), key);
  loading.seed = seed_;
  loading.format = format_for(loading, layer_.record);
  const std::atomic<bool> stop = false;
  DatumLoader(loading).load(batch.images, stop);
  batch.format = loading.format;
}

Feed::Answer Feed::finish() {
  std::unique_ptr<FedBatch> batch = std::move(pending_);
  batch->seed = seed_;
  batch->epochs = std::exchange(epochs_, 0);
  batch->samples = std::exchange(samples_, 0);
  if (kind_ == Kind::records) load_images(*batch);
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
  if (drop_rest) forget_pending();
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
    forget_pending();
    epochs_ = samples_ = 0;
  }
  return next_;
}

void Feed::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  ready_.clear();
  used_.clear();
  changed_.notify_all();
}

void Feed::take(std::unique_ptr<FedBatch>& batch) {
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
    std::swap(batch, ready_.front());
    if (ready_.front()) used_.push_back(std::move(ready_.front()));
    ready_.pop_front();
    changed_.notify_all();
    return;
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
