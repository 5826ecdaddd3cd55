#include "data/datum_loader.hpp"

#include <omp.h>

#include <algorithm>
#include <new>

#include "crema/error.hpp"

namespace crema {
namespace {

/// body() with the record's key in its errors.
template <class Body>
auto with_key(const Record& record, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error("record '", printable_key(record.key), "': ", error.message());
  }
}

/// body(record) for the first record from `first` on for which it throws no Error.
template <class Body>
auto first_good(int64_t first, const DatumLoading& loading, const Body& body) {
  const int64_t count = loading.source->count();
  const int64_t most = std::min(count, kMostBadInRow);
  std::string reason;
  for (int64_t i = 0; i < most; ++i) {
    try {
      return body((first + i) % count);
    } catch (const Error& error) {
      if (i == 0) reason = error.what();
    }
  }
  throw Error(loading.source->name(), ": ", most == count ? "none of its " : "none of ", most,
              " records", most == count ? "" : " in a row", " can be used, the first: ", reason);
}

/// What is done to a record before it is cropped, and the image that this gives, without pixels.
struct Planned {
  DrawnSteps drawn;
  Image image;
  Shape shape;  // of the sample
};

Planned plan(const Image& opened, const Record& record, const Transform& transform,
             const SampleRandom& random) {
  Planned planned{.drawn = {}, .image = opened, .shape = {}};
  with_key(record, [&] {
    if (transform.augmentation().has_steps()) {
      if (opened.floats != nullptr)
        throw Error(
            "transform_param changes images of bytes, and it holds floats; leave out all but "
            "scale, mean, crop, mirror, erase_param and mixing");
      transform.augmentation().check_channels(opened.channels);
      planned.drawn = transform.augmentation().draw({opened.height, opened.width}, random);
      planned.image.height = planned.drawn.size.height;
      planned.image.width = planned.drawn.size.width;
    }
    planned.shape = transform.output_shape(planned.image);
  });
  return planned;
}

}  // namespace

SampleFormat format_of(const Record& record, const DatumLoading& loading) {
  DatumDecoder decoder(loading.color, loading.size);
  const Image image = decoder.decode(record);
  std::vector<double> labels;
  decoder.labels(labels);
  return {.shape = plan(image, record, *loading.transform, {.stream = loading.stream}).shape,
          .floats = image.floats != nullptr,
          .encoded = decoder.was_encoded(),
          .labels = static_cast<int64_t>(labels.size()),
          .changes = loading.transform->augmentation().has_steps()};
}

SampleFormat first_format(const DatumLoading& loading) {
  const auto reader = loading.source->reader(Access::forward);
  if (!loading.skip_bad) return format_of(reader->read(0), loading);
  return first_good(0, loading,
                    [&](int64_t record) { return format_of(reader->read(record), loading); });
}

int loader_threads(uint32_t wanted, const SampleFormat& format) {
  if (wanted > 0) return static_cast<int>(wanted);
  // Decoding or changing images is worth several threads; copying raw pixels is not worth two.
  return format.encoded || format.changes ? std::min(omp_get_num_procs(), 4) : 1;
}

DatumLoader::DatumLoader(DatumLoading loading)
    : loading_(std::move(loading)),
      reader_(loading_.source->reader(loading_.access)),
      decoder_(loading_.color, loading_.size) {}

void DatumLoader::load(Batch& batch, const std::atomic<bool>& stop) {
  const size_t size = batch.samples.size();
  batch.placements.resize(size);
  batch.labels.resize(size * static_cast<size_t>(loading_.format.labels));
  batch.skipped.clear();
  set_shape(batch, loading_.format.shape);
  for (size_t i = 0; i < size && !stop.load(std::memory_order_relaxed); ++i) {
    loading_.skip_bad ? load_good(batch, i, stop) : load_one(batch, i);
  }
}

void DatumLoader::load_good(Batch& batch, size_t index, const std::atomic<bool>& stop) {
  const int64_t wanted = batch.samples[index].record;
  first_good(wanted, loading_, [&](int64_t record) {
    if (stop.load(std::memory_order_relaxed)) return;
    batch.samples[index].record = record;
    batch.samples[index].replaced = record != wanted;
    try {
      load_one(batch, index);
    } catch (const Error& error) {
      if (record == wanted) batch.skipped.emplace_back(error.what());
      throw;
    }
  });
}

void DatumLoader::set_shape(Batch& batch, const Shape& shape) const {
  batch.shape = shape;
  const auto count = batch.samples.size() * static_cast<size_t>(shape.count());
  if (loading_.format.floats) {
    batch.floats.resize(count);
  } else {
    batch.bytes.resize(count);
  }
}

Image DatumLoader::augmented(const Record& record, const Image& opened, DrawnSteps& drawn) {
  auto& [steps, size] = drawn;
  const DecodePlan plan =
      plan_decoding({opened.height, opened.width}, decoder_.is_scalable(), steps);
  const Image image = decoder_.pixels(plan.window, plan.eighths);
  return with_key(record, [&] {
    const Image changed = editor_.apply(image, plan.window, steps);
    if (changed.shape() != Shape{opened.channels, size.height, size.width})
      throw Error("transform_param makes an image of ", changed.shape().str(), " instead of ",
                  Shape{opened.channels, size.height, size.width}.str());
    return changed;
  });
}

void DatumLoader::load_one(Batch& batch, size_t index) {
  const Record record = reader_->read(batch.samples[index].record);
  try {
    load_record(record, batch, index);
  } catch (const std::bad_alloc&) {
    throw memory_error(record.key);
  }
}

void DatumLoader::load_record(const Record& record, Batch& batch, size_t index) {
  const Sample& sample = batch.samples[index];
  const Transform& transform = *loading_.transform;
  const SampleRandom random{loading_.seed, loading_.stream, sample.number};
  const Image opened = decoder_.open(record);
  Planned planned = plan(opened, record, transform, random);
  const Shape& shape = planned.shape;
  const SampleFormat& format = loading_.format;
  if (loading_.varies && shape[0] == format.shape[0]) {
    set_shape(batch, shape);
  } else if (shape != format.shape) {
    throw Error("record '", printable_key(record.key), "' gives a sample of ", shape.str(),
                ", the first one ", format.shape.str(),
                "; make the images of one size and one number of channels (", loading_.one_size,
                "), or set crop_size");
  }
  if ((opened.floats != nullptr) != format.floats)
    throw Error("record '", printable_key(record.key), "' holds ",
                format.floats ? "bytes, the first one floats" : "floats, the first one bytes",
                "; write the database anew with one kind");

  const Placement placement =
      transform.place(planned.image, Random(loading_.seed, loading_.stream, sample.number));
  batch.placements[index] = placement;
  const Image image = transform.augmentation().has_steps()
                          ? augmented(record, opened, planned.drawn)
                          : decoder_.pixels(transform.window(opened, placement));
  const auto erasure = transform.augmentation().draw_erasure({shape[1], shape[2]}, random);
  const auto write = [&](auto* out) {
    transform.cut(image, placement, out);
    if (erasure) with_key(record, [&] { transform.erase(*erasure, shape, placement, out); });
  };
  const size_t begin = index * static_cast<size_t>(shape.count());
  if (format.floats) {
    write(batch.floats.data() + begin);
  } else {
    write(batch.bytes.data() + begin);
  }
  load_labels(record, batch, index);
}

void DatumLoader::load_labels(const Record& record, Batch& batch, size_t index) {
  decoder_.labels(labels_);
  const auto count = static_cast<size_t>(loading_.format.labels);
  if (labels_.size() != count && !decoder_.has_labels())
    throw Error("record '", printable_key(record.key), "' has no label, the first one ", count,
                " labels; give all records the same number");
  if (labels_.size() != count)
    throw Error("record '", printable_key(record.key), "' has ", labels_.size(),
                " labels, the first one ", count, "; give all records the same number");
  std::ranges::copy(labels_, batch.labels.begin() + static_cast<ptrdiff_t>(index * count));
}

}  // namespace crema
