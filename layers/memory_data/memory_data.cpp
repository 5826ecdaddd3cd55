// MemoryData: batches from arrays of the program. See README.md and crema/memory_data.hpp.
#include "crema/memory_data.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/dispatch.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "data/data_source.hpp"
#include "data/sampler.hpp"
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
      const From* const source = in.host<From>();
      To* const target = out.host_overwrite<To>();
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const From* const row = source + samples[static_cast<size_t>(n)].record * size;
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
                 init.param.memory_data_param().width()}) {
    if (batch_size_ == 0 || record_.count() == 0)
      throw Error("memory_data_param gives batch_size ", batch_size_, ", channels ", record_[0],
                  ", height ", record_[1], " and width ", record_[2],
                  "; all four have to be set, and positive");
    if (init.param.has_transform_param())
      context().log(Severity::warning,
                    concat("layer '", name(), "': MemoryData does not transform; transform_param ",
                           "has no effect, so give the layer values that are ready for the net"));
  }

  Arity arity() const override { return {0, 0, 1, 2}; }
  bool is_source() const override { return true; }

  void reshape(Blobs, Blobs top) override {
    top[0]->reshape({batch_size_, record_[0], record_[1], record_[2]});
    if (top.size() > 1) top[1]->reshape({batch_size_});
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
    data_ = std::move(data);
    labels_ = std::move(labels);
    has_data_ = true;
    next_ = {};
    given_.clear();
  }
  Shape record_shape() const override { return record_; }

  void forward_cpu(Blobs, Blobs top) override {
    if (!has_data_)
      throw Error(
          "the layer has no data: a program gives them with MemoryData::of(net.layer(\"", name(),
          "\")).set(data, labels), see crema/memory_data.hpp; commands cannot, so use Data, "
          "ImageData or HDF5Data there");
    given_.resize(static_cast<size_t>(batch_size_));
    Sampler sampler = make_sampler();
    sampler.seek(next_);
    for (Sample& sample : given_) sample = sampler.next();
    next_ = sampler.cursor();
    gather(data_, given_, record_.count(), top[0]->data);
    if (top.size() > 1) gather(labels_, given_, 1, top[1]->data);
  }

  RecordCursor cursor() const override { return next_; }
  void set_cursor(const RecordCursor& cursor) override {
    if (!has_data_ && cursor != RecordCursor())
      throw Error("layer '", name(), "' has no data, and is to continue at record ",
                  cursor.position, " of them; call MemoryData::set() before Solver::restore()");
    if (has_data_) make_sampler().seek(cursor);  // checks it
    next_ = cursor;
  }
  void restart() override { set_cursor({}); }
  int64_t records_per_batch() const override { return batch_size_; }
  double take_wait_seconds() override { return 0; }
  std::string record_key(int64_t index) const override {
    if (index < 0 || index >= static_cast<int64_t>(given_.size())) return {};
    return concat("record ", given_[static_cast<size_t>(index)].record);
  }

 private:
  Sampler make_sampler() const {
    return Sampler({.count = data_.shape()[0], .rank = run().rank, .shards = run().world_size});
  }

  int64_t batch_size_;
  Shape record_;  // (C, H, W)
  Tensor data_, labels_;
  bool has_data_ = false;
  RecordCursor next_;
  std::vector<Sample> given_;  // those of the last batch
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
  std::ranges::copy(data, records.host_overwrite<float>());
  std::ranges::copy(labels, classes.host_overwrite<float>());
  set(std::move(records), std::move(classes));
}

void register_memory_data(Registry& registry) { registry.add<MemoryDataLayer>("MemoryData"); }

}  // namespace crema
