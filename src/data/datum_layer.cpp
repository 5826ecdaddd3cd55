#include "data/datum_layer.hpp"

#include <algorithm>
#include <utility>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/error.hpp"
#include "crema/random.hpp"
#include "proto/layer.pb.h"

namespace crema {

DatumLayer::DatumLayer(const LayerInit& init, const Settings& settings)
    : SampledLayer(init, settings.batch_size, settings.message),
      settings_(settings),
      mixing_(init.param.transform_param(), phase(), settings.batch_size) {
  if (settings.prefetch == 0)
    throw Error(settings.message,
                " { prefetch: 0 } leaves nothing to read ahead into; set it to 1 or more batches");
  constexpr uint32_t kMostPrefetch = 65536, kMostThreads = 256;
  if (settings.prefetch > kMostPrefetch)
    throw Error(settings.message, " { prefetch: ", settings.prefetch, " } is more than ",
                kMostPrefetch, " batches; set it to a few");
  if (settings.threads > kMostThreads)
    throw Error(settings.message, " { threads: ", settings.threads, " } is more than ",
                kMostThreads, "; set it to the number of cores at most");
  const TransformationParameter& transform = init.param.transform_param();
  if (transform.force_color() && transform.force_gray())
    throw Error("transform_param has both force_color and force_gray; keep one of them");
  records_.transform = std::make_shared<const Transform>(transform, phase());
  records_.access = settings.shuffle ? Access::random : Access::forward;
  records_.color = settings.color;
  records_.size = settings.size;
  records_.one_size = settings.one_size;
  records_.skip_bad = settings.skip_bad;
  records_.varies =
      settings.batch_size == 1 && settings.size.height == 0 && crop_of(transform).height == 0;
  records_.stream = stream_id(name() + " transform");
}

void DatumLayer::open(std::shared_ptr<RecordSource> source) {
  records_.source = std::move(source);
  records_.format = first_format(records_);
}

void DatumLayer::reshape(Blobs, Blobs top) {
  const Shape& sample = records_.format.shape;
  top[0]->reshape({settings_.batch_size, sample[0], sample[1], sample[2]});
  if (top.size() < 2) return;
  const int64_t labels = records_.format.labels, classes = mixing_.classes();
  if (classes > 0 && labels != 1)
    throw Error(
        "transform_param { num_labels } makes a distribution of one label, and records have ",
        labels, "; remove it, or write the database with one label a record");
  const int64_t values = classes > 0 ? classes : labels;
  top[1]->reshape(values == 1 ? Shape{settings_.batch_size} : Shape{settings_.batch_size, values});
}

void DatumLayer::take_shape(const Batch& batch, Blobs top) const {
  top[0]->reshape({settings_.batch_size, batch.shape[0], batch.shape[1], batch.shape[2]});
}

SamplerOptions DatumLayer::sampling() const {
  return {.count = records_.source->count(), .shuffle = settings_.shuffle};
}

int DatumLayer::depth() const { return static_cast<int>(settings_.prefetch); }

SampledLayer::Loading DatumLayer::loading(Blobs) {
  DatumLoading records = records_;
  records.seed = run().seed;
  return {.threads = loader_threads(settings_.threads, records.format),
          .depth = depth(),
          .make_loader = [records] { return std::make_unique<DatumLoader>(records); }};
}

size_t DatumLayer::kept_bytes() const {
  const SampleFormat& format = records_.format;
  const size_t values = static_cast<size_t>(format.shape.count());
  const size_t sample = values * (format.floats ? sizeof(float) : sizeof(uint8_t)) +
                        sizeof(Sample) + sizeof(Placement) +
                        static_cast<size_t>(format.labels) * sizeof(double);
  return static_cast<size_t>(depth() * settings_.batch_size) * sample;
}

std::string DatumLayer::key_of(const Sample& sample, int64_t index) const {
  return printable_key(raw_key_of(sample, index));
}

std::string DatumLayer::raw_key_of(const Sample& sample, int64_t) const {
  // Kept, since steps forward are much faster than the way from the first record.
  if (!key_reader_) key_reader_ = records_.source->reader(records_.access);
  return key_reader_->key(sample.record);
}

std::vector<Mix> DatumLayer::draw_mixes(const Batch& batch) const {
  std::vector<Mix> mixes;
  if (!mixing_.is_active()) return mixes;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const SampleRandom random{run().seed, records_.stream, batch.samples[i].number};
    mixes.push_back(
        mixing_.draw(random, static_cast<int64_t>(i), {batch.shape[1], batch.shape[2]}));
  }
  return mixes;
}

void DatumLayer::give(const Batch& batch, Blobs top) const {
  const std::vector<Mix> mixes = draw_mixes(batch);
  convert_batch(batch, records_.format.floats, *records_.transform, top[0]->data, mixes);
  if (top.size() < 2) return;
  if (mixing_.classes() == 0) return give_labels(batch, top[1]->data);
  const std::vector<double> labels(batch.labels.begin(), batch.labels.end());
  dispatch_float(top[1]->data.dtype(), [&](auto zero) {
    class_distributions(
        labels, mixes, mixing_.classes(),
        [&](int64_t n) { return key_of(batch.samples[static_cast<size_t>(n)], n); },
        top[1]->data.host_overwrite<decltype(zero)>());
  });
}

void convert_batch(const Batch& batch, bool floats, const Transform& transform, Tensor& top,
                   const std::vector<Mix>& mixes) {
  const Shape &shape = top.shape(), &sample = batch.shape;
  const int64_t size = sample.count();
  if (sample[0] != shape[1] || sample[1] != shape[2] || sample[2] != shape[3])
    throw Error("the next record gives a sample of ", sample.str(), ", and the top is ",
                shape.str(), "; call Layer::fetch() before the pass, as a net does");
  const int64_t grain = std::max<int64_t>(1, kElementGrain / size);
  dispatch_float(top.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = top.host_overwrite<T>();  // (N, C, H, W)
    const auto convert = [&](int64_t n, T* to) {
      const Placement& placement = batch.placements[static_cast<size_t>(n)];
      if (floats) {
        transform.convert(batch.floats.data() + n * size, sample, placement, to);
      } else {
        transform.convert(batch.bytes.data() + n * size, sample, placement, to);
      }
    };
    parallel_for(shape[0], grain, [&](int64_t begin, int64_t end) {
      std::vector<T> other;
      for (int64_t n = begin; n < end; ++n) {
        convert(n, out + n * size);
        if (mixes.empty() || mixes[static_cast<size_t>(n)].share == 0) continue;
        other.resize(static_cast<size_t>(size));
        const Mix& mixed = mixes[static_cast<size_t>(n)];
        convert(mixed.partner, other.data());
        mix(mixed, sample, other.data(), out + n * size);
      }
    });
  });
}

}  // namespace crema
