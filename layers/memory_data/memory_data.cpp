// MemoryData: batches from arrays of the program. See README.md and crema/memory_data.hpp.
#include "crema/memory_data.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/data_source.hpp"
#include "core/dispatch.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "data/batches/image_tops.hpp"
#include "data/batches/sampler.hpp"
#include "layers/memory_data/memory_feed.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_integral_v<From>) {
    const To value = static_cast<To>(x);
    if (!is_exactly(value, x))
      throw Error("MemoryData: the integer ", x, " has no exact value in ",
                  to_string(dtype_of<To>()),
                  ", the type of the net; number labels from 0, or make the net in f64");
    return value;
  } else if constexpr (sizeof(From) == 2) {
    return static_cast<To>(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

/// out[n, :] = in[samples[n], :], converted. Rows have `size` elements.
void gather(const Tensor& in, const std::vector<Sample>& samples, int64_t size, Tensor& out) {
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, size));
  const auto count = static_cast<int64_t>(samples.size());
  dispatch_any(in.dtype(), [&](auto from) {
    dispatch_float(out.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* const source = in.read<From>();
      To* const target = out.overwrite<To>();
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const From* const row = source + samples[static_cast<size_t>(n)].record * size;
          if constexpr (std::is_same_v<From, To>) {
            std::copy_n(row, size, target + n * size);
            continue;
          }
          std::transform(row, row + size, target + n * size, converted<To, From>);
        }
      });
    });
  });
}

class MemoryDataLayer : public Layer, public DataSource, public MemoryData {
 public:
  explicit MemoryDataLayer(const LayerInit& init)
      : Layer(init),
        batch_size_(init.param.memory_data_param().batch_size()),
        record_({init.param.memory_data_param().channels(), init.param.memory_data_param().height(),
                 init.param.memory_data_param().width()}),
        mixing_(init.param.transform_param(), phase(), std::max<int64_t>(1, batch_size_)) {
    if (batch_size_ == 0 || record_.count() == 0)
      throw Error("memory_data_param gives batch_size ", batch_size_, ", channels ", record_[0],
                  ", height ", record_[1], " and width ", record_[2],
                  "; all four have to be set, and positive");
    const TransformationParameter& transform = init.param.transform_param();
    if (transform.force_color() && transform.force_gray())
      throw Error("transform_param has both force_color and force_gray; keep one of them");
    loading_.transform = std::make_shared<const Transform>(transform, phase());
    if (loading_.transform->augmentation().sizes() > 1)
      throw Error(
          "transform_param has several resize_param, of which one is drawn for each batch, and "
          "memory_data_param gives height and width; keep one of them");
    loading_.order = ReadOrder::random;
    loading_.color = transform.force_color()  ? ColorMode::color
                     : transform.force_gray() ? ColorMode::gray
                                              : ColorMode::as_stored;
    loading_.one_size = "transform_param { resize_param }";
    loading_.stream = stream_id(name() + " transform");
  }

  ~MemoryDataLayer() override { close_feed(); }

  Arity arity() const override { return {0, 0, 1, 2}; }
  const DataSource* data_source() const override { return this; }

  void reshape(Blobs, Blobs top) override {
    top[0]->reshape({batch_size_, record_[0], record_[1], record_[2]});
    if (top.size() > 1) top[1]->reshape(labels_shape(batch_size_, {}, mixing_));
  }

  using MemoryData::set;
  void set(Tensor data, Tensor labels) override {
    const Shape& shape = data.shape();
    if (shape.rank() != 4 || shape[0] < 1 || Shape({shape[1], shape[2], shape[3]}) != record_)
      throw Error("the data of layer '", name(), "' are ", shape.str(), "; ",
                  "memory_data_param asks for n records of ", record_.str(),
                  ": give (n, C, H, W) with n of at least 1");
    if (labels.count() != shape[0])
      throw Error("layer '", name(), "' gets ", shape[0], " records and ", labels.count(),
                  " labels; give one a record");
    for (const Tensor* tensor : {&data, &labels}) {
      if (tensor->format() != Format::contiguous)
        throw Error("layer '", name(), "' takes contiguous tensors, not ",
                    to_string(tensor->format()), "; see Tensor::contiguous()");
    }
    if (mixing_.classes() > 0)
      throw Error("transform_param { num_labels } of layer '", name(),
                  "' is for images and records: give them with set_images() or set_records(), or "
                  "remove it");
    if (param().has_transform_param())
      context().log(Severity::warning,
                    text("layer '", name(), "': transform_param does nothing to arrays, which ",
                         "have to be ready for the net; it is for MemoryData::set_images()"));
    loading_.source.reset();
    data_ = std::move(data);
    labels_ = std::move(labels);
    begin(data_.shape()[0]);
  }
  void set_images(std::vector<Tensor> images, Tensor labels, ImageAxes axes) override {
    try {
      set_records(records_of(images, labels, axes));
    } catch (Error& error) {
      throw Error("layer '", name(), "': ", error.message()).about(error.path());
    }
  }
  void set_records(std::vector<std::string> records) override {
    if (records.empty()) throw Error("layer '", name(), "' gets no records; give one at least");
    const auto count = static_cast<int64_t>(records.size());
    DatumLoading loading = loading_;
    loading.source = open_memory(std::move(records));
    loading.format = format_for(loading, record_);
    loading_ = std::move(loading);
    data_ = labels_ = {};
    begin(count);
  }
  std::shared_ptr<MemoryFeed> feed(FeedOptions options) override {
    const Feed::Layer layer{.batch_size = batch_size_,
                            .record = record_,
                            .has_classes = mixing_.classes() > 0,
                            .loading = loading_,
                            .seed = run().seed};
    const auto feed = std::make_shared<Feed>(layer, std::move(options));
    loading_.source.reset();
    data_ = labels_ = {};
    begin(0);
    feed_ = feed;
    return feed;
  }
  Shape record_shape() const override { return record_; }

  void forward_cpu(Blobs, Blobs top) override {
    if (feed_) return give_fed(top);
    if (records_ == 0)
      throw Error(
          "the layer has no data; before the pass, a program gives them: in Python with "
          "crema.feed(net, images, labels), net.set_data(images, labels) or pycaffe's "
          "net.set_input_arrays(images, labels), in C++ with MemoryData::of(net.layer(\"",
          name(),
          "\")).set(data, labels) of crema/memory_data.hpp; commands cannot, so use Data, "
          "ImageData or HDF5Data there");
    std::vector<Sample>& samples = batch_.samples;
    samples.resize(static_cast<size_t>(batch_size_));
    Sampler sampler = make_sampler();
    sampler.seek(next_);
    for (Sample& sample : samples) sample = sampler.next();
    next_ = sampler.cursor();
    if (loading_.source) return give_records(top);
    gather(data_, samples, record_.count(), top[0]->data);
    if (top.size() > 1) gather(labels_, samples, 1, top[1]->data);
  }

  RecordCursor cursor() const override { return next_; }
  void set_cursor(const RecordCursor& cursor) override {
    if (feed_) {
      if (cursor == next_ && feed_->seed() == run().seed) return;
      feed_->seek(cursor, run().seed);
      next_ = cursor;
      return;
    }
    if (records_ == 0 && cursor != RecordCursor())
      throw Error("layer '", name(), "' has no data, and is to continue at record ",
                  cursor.position,
                  " of them; give them before the solver is restored: by MemoryData::set(), in "
                  "Python by crema.feed() or set_input_arrays()");
    if (records_ > 0) make_sampler().seek(cursor);  // checks it
    next_ = cursor;
  }
  void restart() override { set_cursor({}); }
  int64_t records_per_batch() const override { return batch_size_; }
  double take_wait_seconds() override { return feed_ ? feed_->take_wait_seconds() : 0; }
  std::string record_key(int64_t index) const override {
    const std::vector<Sample>& samples = batch_.samples;
    if (index < 0 || index >= static_cast<int64_t>(samples.size())) return {};
    const Sample& sample = samples[static_cast<size_t>(index)];
    return feed_ ? fed_key(sample.number) : text("record ", sample.record);
  }

 private:
  void close_feed() {
    if (feed_) feed_->close();
    feed_.reset();
    fed_.reset();
  }
  /// With the first of `records` new records.
  void begin(int64_t records) {
    close_feed();
    records_ = records;
    next_ = {};
    batch_.samples.clear();
  }
  void give_records(Blobs top) {
    DatumLoading loading = loading_;
    loading.seed = run().seed;
    DatumLoader(loading).load(batch_, false);
    give_datums(
        batch_, loading, run().seed, mixing_,
        [this](const Sample&, int64_t index) { return record_key(index); }, top);
    losses_.tell(batch_, name(), context());
  }
  void give_fed(Blobs top) {
    feed_->take(fed_);
    next_ = fed_->behind(next_);
    std::swap(batch_, fed_->images);  // the feed uses the memory of the last one again
    if (!fed_->has_images) {
      gather(fed_->data, batch_.samples, record_.count(), top[0]->data);
      if (top.size() > 1) gather(fed_->labels, batch_.samples, 1, top[1]->data);
      return;
    }
    DatumLoading loading = loading_;
    loading.format = fed_->format;
    give_datums(
        batch_, loading, fed_->seed, mixing_,
        [](const Sample& sample, int64_t) { return fed_key(sample.number); }, top);
    losses_.tell(batch_, name(), context());
  }
  Sampler make_sampler() const {
    return Sampler({.count = records_, .rank = run().rank, .shards = run().world_size});
  }

  int64_t batch_size_;
  Shape record_;  // (C, H, W)
  Mixing mixing_;
  LossWarnings losses_;
  DatumLoading loading_;  // its source: the records, or none for arrays
  Tensor data_, labels_;  // arrays
  int64_t records_ = 0;   // 0: none were given
  std::shared_ptr<Feed> feed_;
  std::unique_ptr<FedBatch> fed_;  // what it gave last
  RecordCursor next_;
  ImageBatch batch_;  // the last one
};

}  // namespace

MemoryData& MemoryData::of(Layer& layer) {
  if (auto* memory = dynamic_cast<MemoryData*>(&layer)) return *memory;
  throw Error("layer '", layer.name(), "' is of type ", layer.type(),
              ", and takes no data from the program; that is for type MemoryData");
}

void MemoryData::set(std::span<const float> data, std::span<const float> labels) {
  const Shape record = record_shape();
  const auto count = static_cast<int64_t>(labels.size());
  if (static_cast<int64_t>(data.size()) != count * record.count())
    throw Error("MemoryData gets ", data.size(), " values and ", count, " labels; records of ",
                record.str(), " need ", count * record.count(), " values");
  Tensor records({count, record[0], record[1], record[2]}), classes({count});
  std::ranges::copy(data, records.overwrite<float>());
  std::ranges::copy(labels, classes.overwrite<float>());
  set(std::move(records), std::move(classes));
}

void register_memory_data(Registry& registry) { registry.add<MemoryDataLayer>("MemoryData"); }

}  // namespace crema
