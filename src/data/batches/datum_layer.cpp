#include "data/batches/datum_layer.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/batches/device_images.hpp"
#include "data/records/unlabelled.hpp"
#include "proto/layer.pb.h"
#include "proto/net.pb.h"

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
  TransformationParameter transform = init.param.transform_param();
  if (settings.takes_boxes) transform.clear_emit_constraint();
  if (transform.force_color() && transform.force_gray())
    throw Error("transform_param has both force_color and force_gray; keep one of them");
  records_.transform = std::make_shared<const Transform>(transform, phase());
  records_.order = settings.shuffle ? ReadOrder::random : ReadOrder::forward;
  records_.color = settings.color;
  records_.size = settings.size;
  records_.one_size = settings.one_size;
  records_.skip_bad = settings.skip_bad;
  records_.varies =
      settings.batch_size == 1 && settings.size.height == 0 && crop_of(transform).height == 0;
  records_.stream = stream_id(name() + " transform");
}

void DatumLayer::open(std::shared_ptr<RecordSource> source, bool reads_labels,
                      TargetLoader* targets) {
  records_.source = std::move(source);
  records_.format = first_format(records_, targets);
  largest_ = records_.format.shape.count();
  const int sizes = records_.transform->augmentation().sizes();
  for (int size = 1; size < sizes; ++size)
    largest_ = std::max(largest_, first_format(records_, targets, size).shape.count());
  if (!reads_labels || !has_database_keys()) return;
  const int64_t looked_at = unlabelled_records(*records_.source);
  if (looked_at == 0) return;
  const int64_t count = records_.source->count();
  context().log(Severity::warning,
                text("layer '", name(), "': ",
                     looked_at == count ? text("none of the ", count, " records")
                                        : text("none of ", looked_at, " of the ", count,
                                               " records, taken evenly,"),
                     " of ", records_.source->name(),
                     " has a label, and top 1 is 0 for all of them; write the database with "
                     "labels, or remove the top if the net does not need it"));
}

void DatumLayer::compare_classes(std::string_view way_out) const {
  if (!training_ || training_->names.empty() || param().top_size() < 2) return;
  const ClassNames own = look_up_classes();
  if (!own.names.empty()) return check_same_classes(own, *training_, way_out);
  context().log(Severity::warning,
                text("layer '", name(), "': its labels have no names, and those of the training ",
                     "data (", training_->from,
                     ") have: nothing tells whether a label is the same class in both; ", way_out));
}

void DatumLayer::reshape(Blobs, Blobs top) {
  const Shape& sample = records_.format.shape;
  top[0]->reshape({settings_.batch_size, sample[0], sample[1], sample[2]});
  if (top.size() < 2) return;
  top[1]->reshape(labels_shape(settings_.batch_size, records_.format, mixing_));
}

void DatumLayer::take_image_shape(const ImageBatch& batch, Blobs top) const {
  const auto samples = static_cast<int64_t>(batch.samples.size());
  reshape_to(samples, batch.shape, *top[0]);
  if (top.size() > 1 && top[1]->shape()[0] != samples)
    top[1]->reshape(labels_shape(samples, records_.format, mixing_));
}

SamplerOptions DatumLayer::sampling() const {
  return {.count = records_.source->count(), .shuffle = settings_.shuffle};
}

int DatumLayer::depth() const { return static_cast<int>(settings_.prefetch); }

int DatumLayer::threads() const { return loader_threads(settings_.threads, records_.format); }

DatumLoading DatumLayer::datums() const {
  DatumLoading records = records_;
  records.seed = run().seed;
  records.rank = static_cast<uint64_t>(run().rank);
  records.leaves_out = leaves_out();
  if (records.format.encoded && context().on_gpu() && context().device_jpeg())
    records.make_jpeg = jpeg_maker();
  return records;
}

MakeDeviceJpeg DatumLayer::jpeg_maker() const {
  return [&context = context(), layer = name(), told = std::make_shared<std::once_flag>()] {
    std::string why;
    std::unique_ptr<DeviceJpeg> made = make_device_jpeg(context.backend(), why);
    if (made == nullptr) {
      std::call_once(*told, [&] {
        context.log(Severity::warning,
                    text("layer '", layer, "': the host decodes all JPEG files: ", why));
      });
    }
    return made;
  };
}

size_t DatumLayer::kept_bytes() const {
  const SampleFormat& format = records_.format;
  const auto values = static_cast<size_t>(largest_);
  const size_t sample = values * (format.floats ? sizeof(float) : sizeof(uint8_t)) +
                        sizeof(Sample) + sizeof(Placement) +
                        static_cast<size_t>(format.labels) * sizeof(double);
  return static_cast<size_t>(depth() * settings_.batch_size) * sample;
}

std::string DatumLayer::key_of(const Sample& sample, int64_t index) const {
  return printable_key(raw_key_of(sample, index));
}

std::string DatumLayer::raw_key_of(const Sample& sample, int64_t) const {
  return key_of_record(sample.record);
}

std::string DatumLayer::key_of_record(int64_t record) const {
  // Kept, since steps forward are much faster than the way from the first record.
  if (!key_reader_) key_reader_ = records_.source->reader(records_.order);
  return key_reader_->key(record);
}

void DatumLayer::tell_transform(Origin& origin) const {
  *origin.mutable_transform() = param().transform_param();
  const std::vector<float> means = records_.transform->channel_means();
  origin.mutable_channel_mean()->Assign(means.begin(), means.end());
}

void DatumLayer::give_images(const ImageBatch& batch, Blobs top) {
  if (context().on_gpu() && device_images_ == nullptr)
    device_images_ = std::make_shared<DeviceImages>(context());
  give_datums(
      batch, records_, run().seed, mixing_,
      [this](const Sample& sample, int64_t index) { return key_of(sample, index); }, top,
      device_images_.get());
  losses_.tell(batch, name(), context());
}

ImageLayer::Loading ImageLayer::loading() {
  return {.threads = threads(), .depth = depth(), .make_loader = [records = datums()] {
            return std::make_unique<DatumLoader>(records);
          }};
}

}  // namespace crema
