#include "layers/data/data.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "data/unsupported.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = DataParameter;

void check_settings(const LayerParameter& layer, const Context& context) {
  const DataParameter& data = layer.data_param();
  const TransformationParameter& transform = layer.transform_param();
  if (data.batch_size() <= 0)
    throw Error("data_param has no batch_size, or 0; set how many records are a batch");
  if (data.prefetch() <= 0)
    throw Error(
        "data_param { prefetch: 0 } leaves nothing to read ahead into; "
        "set it to 1 or more batches");
  if (transform.force_color() && transform.force_gray())
    throw Error("transform_param has both force_color and force_gray; keep one of them");
  if (data.force_encoded_color() && transform.force_gray())
    throw Error("force_encoded_color contradicts force_gray; keep one of them");

  const auto moved = [](bool set, const char* name) {
    if (set)
      throw Error("data_param { ", name, " } is an old form; write transform_param { ", name, " }");
  };
  moved(data.has_scale(), "scale");
  moved(data.has_mean_file(), "mean_file");
  moved(data.has_crop_size(), "crop_size");
  moved(data.has_mirror(), "mirror");
  reject_unsupported(
      data,
      {P::kSourceFieldNumber, P::kBatchSizeFieldNumber, P::kRandSkipFieldNumber,
       P::kBackendFieldNumber, P::kForceEncodedColorFieldNumber, P::kPrefetchFieldNumber,
       P::kShuffleFieldNumber, P::kLockFieldNumber, P::kThreadsFieldNumber,
       P::kParserThreadsFieldNumber, P::kCacheFieldNumber, P::kPrecacheFieldNumber},
      "data_param");
  if (data.parser_threads() > 0 || data.cache() || data.precache()) {
    context.log(Severity::info, concat("layer '", layer.name(),
                                       "': parser_threads, cache and precache have no effect: "
                                       "records are read where they lie in memory"));
  }
}

ColorMode color_mode(const LayerParameter& layer) {
  if (layer.transform_param().force_gray()) return ColorMode::gray;
  const bool color =
      layer.transform_param().force_color() || layer.data_param().force_encoded_color();
  return color ? ColorMode::color : ColorMode::as_stored;
}

}  // namespace

DataLayer::DataLayer(const LayerInit& init)
    : Layer(init),
      batch_size_(init.param.data_param().batch_size()),
      transform_(init.param.transform_param(), phase()) {
  check_settings(init.param, init.context);
}

DataLayer::~DataLayer() = default;

void DataLayer::setup(Blobs, Blobs) {
  const DataParameter& data = param().data_param();
  loading_.source = open_database(
      {.path = data.source(),
       .kind = data.backend() == P::LEVELDB ? DatabaseKind::leveldb : DatabaseKind::lmdb,
       .lock = data.lock() == P::NONE ? LockMode::none : LockMode::automatic,
       .logger = [&log = context()](Severity severity, const std::string& text) {
         log.log(severity, text);
       }});
  loading_.access = data.shuffle() ? Access::random : Access::forward;
  loading_.color = color_mode(param());
  loading_.transform = &transform_;
  loading_.stream = stream_id(name() + " transform");
  const auto reader = loading_.source->reader(Access::forward);
  loading_.format = format_of(reader->read(0), loading_.color, transform_);
}

void DataLayer::reshape(Blobs, Blobs top) {
  const Shape& sample = loading_.format.shape;
  top[0]->reshape({batch_size_, sample[0], sample[1], sample[2]});
  if (top.size() > 1) top[1]->reshape({batch_size_});
}

Sampler DataLayer::make_sampler() const {
  return Sampler({.count = loading_.source->count(),
                  .shuffle = param().data_param().shuffle(),
                  .seed = run().seed,
                  .rank = run().rank,
                  .shards = run().world_size});
}

PrefetcherOptions DataLayer::prefetching() const {
  const DataParameter& data = param().data_param();
  return {.batch_size = batch_size_,
          .threads = loader_threads(data.threads(), loading_.format),
          .depth = static_cast<int>(std::min(data.prefetch(), 65536u))};
}

size_t DataLayer::kept_bytes() const {
  const size_t values = static_cast<size_t>(loading_.format.shape.count());
  const size_t sample = values * (loading_.format.floats ? sizeof(float) : sizeof(uint8_t)) +
                        sizeof(Sample) + sizeof(Placement) + sizeof(int32_t);
  return static_cast<size_t>(prefetching().depth * batch_size_) * sample;
}

RecordCursor DataLayer::cursor() const {
  const Sampler sampler = make_sampler();
  const uint64_t skip = param().data_param().rand_skip();
  uint64_t number = 0;
  if (first_) {
    number = sampler.number_of(*first_);
  } else if (skip > 0) {
    number = Random(run().seed, stream_id("rand_skip")).below(skip);
  }
  return sampler.cursor_at(number + batches_given_ * static_cast<uint64_t>(batch_size_));
}

void DataLayer::set_cursor(const RecordCursor& cursor) {
  make_sampler().seek(cursor);
  stop();
  first_ = cursor;
}

void DataLayer::restart() {
  stop();
  first_.reset();
}

void DataLayer::start(Blobs top) {
  if (top.size() > 1) loading_.label_type = top[1]->data.dtype();
  loading_.seed = run().seed;
  first_ = cursor();
  Sampler sampler = make_sampler();
  sampler.seek(*first_);
  prefetcher_ = std::make_unique<Prefetcher>(prefetching(), std::move(sampler), [this] {
    return std::make_unique<DatumLoader>(loading_);
  });
}

void DataLayer::stop() {
  wait_seconds_ = take_wait_seconds();
  prefetcher_.reset();
  batches_given_ = 0;
}

double DataLayer::take_wait_seconds() {
  const double before = std::exchange(wait_seconds_, 0.0);
  return prefetcher_ ? before + prefetcher_->take_wait_seconds() : before;
}

std::string DataLayer::record_key(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(given_.size())) return {};
  const auto reader = loading_.source->reader(loading_.access);
  return printable_key(reader->read(given_[static_cast<size_t>(index)].record).key);
}

void DataLayer::forward_cpu(Blobs, Blobs top) {
  if (!prefetcher_) start(top);
  const Batch& batch = prefetcher_->wait();
  dispatch_float(top[0]->data.dtype(), [&](auto zero) { give<decltype(zero)>(batch, top); });
  given_ = batch.samples;
  prefetcher_->release();
  ++batches_given_;
}

template <class T>
void DataLayer::give(const Batch& batch, Blobs top) const {
  const Shape& shape = loading_.format.shape;
  const int64_t size = shape.count();
  T* out = top[0]->data.template host_overwrite<T>();  // (N, C, H, W)
  const int64_t grain = std::max<int64_t>(1, kElementGrain / size);
  parallel_for(batch_size_, grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Placement& placement = batch.placements[static_cast<size_t>(n)];
      if (loading_.format.floats) {
        transform_.convert(batch.floats.data() + n * size, shape, placement, out + n * size);
      } else {
        transform_.convert(batch.bytes.data() + n * size, shape, placement, out + n * size);
      }
    }
  });
  if (top.size() > 1) {
    std::copy(batch.labels.begin(), batch.labels.end(), top[1]->data.template host_overwrite<T>());
  }
}

void register_data(Registry& registry) { registry.add<DataLayer>("Data"); }

}  // namespace crema
