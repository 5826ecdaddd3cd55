#include "data/batches/datum_loader.hpp"

#include <omp.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/spans.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// body() with the record's key in its errors.
template <class Body>
auto with_key(const Record& record, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error("record '", printable_key(record.key), "': ", error.message()).about(error.path());
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

/// `targets` are those of the record, or null.
Planned plan(const Image& opened, const Record& record, const DatumLoading& loading,
             const SampleRandom& random, TargetLoader* targets) {
  const Transform& transform = *loading.transform;
  const Augmentation& augmentation = transform.augmentation();
  const ImageSize size{opened.height, opened.width};
  Planned planned{.drawn = {.steps = {}, .size = size}, .image = opened, .shape = {}};
  with_key(record, [&] {
    if (augmentation.has_steps()) augmentation.check_channels(opened.channels);
    planned.drawn = targets != nullptr ? targets->draw(augmentation, size, random)
                                       : augmentation.draw(size, random);
    if (opened.floats != nullptr && (augmentation.has_steps() || !planned.drawn.steps.empty()))
      throw Error(
          "transform_param and samplers change images of bytes, and it holds floats; leave out "
          "all but scale, mean, crop, mirror, erase_param and mixing");
    planned.image.height = planned.drawn.size.height;
    planned.image.width = planned.drawn.size.width;
    planned.shape = transform.output_shape(planned.image);
  });
  return planned;
}

/// Takes the targets of the record that `decoder` has opened as `image`. Error unless the record is
/// of the kind that the layer reads.
void open_targets(const Record& record, const DatumDecoder& decoder, const Image& image,
                  TargetLoader* targets) {
  if (targets != nullptr) return targets->open(record, decoder, image);
  if (decoder.annotated() != nullptr)
    throw Error("record '", printable_key(record.key),
                "' is an AnnotatedDatum, with boxes, and this layer reads Datum records; set "
                "type: \"AnnotatedData\"");
}

}  // namespace

SampleFormat format_of(const Record& record, const DatumLoading& loading, TargetLoader* targets,
                       int size) {
  DatumDecoder decoder(loading.color, loading.size);
  const Image image = decoder.decode(record);
  open_targets(record, decoder, image, targets);
  std::vector<double> labels;
  decoder.labels(labels);
  const bool replaced = targets != nullptr && targets->replaces_labels();
  const SampleRandom random{.stream = loading.stream, .size = size};
  return {.shape = plan(image, record, loading, random, targets).shape,
          .floats = image.floats != nullptr,
          .encoded = decoder.was_encoded(),
          .labels = replaced ? 0 : static_cast<int64_t>(labels.size()),
          .changes = loading.transform->augmentation().has_steps() || targets != nullptr};
}

SampleFormat first_format(const DatumLoading& loading, TargetLoader* targets, int size) {
  const auto reader = loading.source->reader(ReadOrder::forward);
  if (!loading.skip_bad) return format_of(reader->read(0), loading, targets, size);
  return first_good(0, loading, [&](int64_t record) {
    return format_of(reader->read(record), loading, targets, size);
  });
}

int loader_threads(uint32_t wanted, const SampleFormat& format) {
  if (wanted > 0) return static_cast<int>(wanted);
  // Decoding or changing images is worth several threads; copying raw pixels is not worth two.
  return format.encoded || format.changes ? std::min(omp_get_num_procs(), 4) : 1;
}

DatumLoader::DatumLoader(DatumLoading loading, TargetLoader* targets)
    : loading_(std::move(loading)),
      reader_(loading_.source->reader(loading_.order)),
      decoder_(loading_.color, loading_.size, Depth::bytes,
               loading_.make_jpeg ? loading_.make_jpeg() : nullptr),
      targets_(targets) {}

void DatumLoader::load(ImageBatch& batch, const std::atomic<bool>& stop) {
  const size_t size = batch.samples.size();
  batch.placements.resize(size);
  batch.labels.resize(size * static_cast<size_t>(loading_.format.labels));
  batch.skipped.clear();
  batch.losses = {};
  // All ranks draw the same.
  const uint64_t first = size > 0 ? batch.samples[0].number - loading_.rank : 0;
  size_ = loading_.transform->augmentation().draw_size({loading_.seed, loading_.stream, first});
  set_shape(batch, loading_.format.shape);
  if (loading_.skip_bad && loading_.leaves_out) return load_only_good(batch, stop);
  for (size_t i = 0; i < size && !stop.load(std::memory_order_relaxed); ++i) {
    loading_.skip_bad ? load_good(batch, i, stop) : load_one(batch, i);
  }
}

void DatumLoader::load_only_good(ImageBatch& batch, const std::atomic<bool>& stop) {
  size_t kept = 0;
  for (size_t i = 0; i < batch.samples.size() && !stop.load(std::memory_order_relaxed); ++i) {
    std::swap(batch.samples[kept], batch.samples[i]);
    try {
      load_one(batch, kept);
      ++kept;
    } catch (const Error& error) {
      batch.skipped.emplace_back(error.what());
    }
  }
  if (stop.load(std::memory_order_relaxed)) return;
  if (kept == 0) {
    // A batch has one sample at least, which says that it stands for another record.
    batch.skipped.pop_back();
    load_good(batch, kept++, stop);
  }
  shrink(batch, kept);
}

void DatumLoader::shrink(ImageBatch& batch, size_t size) const {
  batch.samples.resize(size);
  batch.placements.resize(size);
  batch.labels.resize(size * static_cast<size_t>(loading_.format.labels));
  set_shape(batch, batch.shape);
}

void DatumLoader::load_good(ImageBatch& batch, size_t index, const std::atomic<bool>& stop) {
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

void DatumLoader::set_shape(ImageBatch& batch, const Shape& shape) const {
  batch.shape = shape;
  const auto count = batch.samples.size() * static_cast<size_t>(shape.count());
  if (loading_.format.floats) {
    batch.floats.resize(count);
  } else {
    batch.bytes.resize(count);
  }
}

Image DatumLoader::augmented(const Record& record, const Image& opened, DrawnSteps& drawn) {
  auto& steps = drawn.steps;
  const auto& size = drawn.size;
  const DecodePlan plan =
      plan_decoding({opened.height, opened.width}, decoder_.is_scalable(), steps);
  const Image image = pixels(plan.window, plan.eighths);
  const Span span(SpanKind::transform, [] { return "change"; });
  return with_key(record, [&] {
    const Image changed = editor_.apply(image, plan.window, steps);
    if (changed.shape() != Shape{opened.channels, size.height, size.width})
      throw Error("transform_param makes an image of ", changed.shape().str(), " instead of ",
                  Shape{opened.channels, size.height, size.width}.str());
    return changed;
  });
}

Record DatumLoader::read(int64_t number) {
  const Span span(SpanKind::read, [] { return "read"; });
  return reader_->read(number);
}

Image DatumLoader::pixels(const ImageWindow& window, int eighths) {
  const Span span(SpanKind::decode, [] { return "decode"; });
  return decoder_.pixels(window, eighths);
}

void DatumLoader::load_one(ImageBatch& batch, size_t index) {
  const Record record = read(batch.samples[index].record);
  try {
    load_record(record, batch, index);
  } catch (const std::bad_alloc&) {
    throw memory_error(record.key);
  }
}

void DatumLoader::load_record(const Record& record, ImageBatch& batch, size_t index) {
  const Sample& sample = batch.samples[index];
  const Transform& transform = *loading_.transform;
  const SampleRandom random{loading_.seed, loading_.stream, sample.number, size_};
  const Image opened = decoder_.open(record);
  open_targets(record, decoder_, opened, targets_);
  Planned planned = plan(opened, record, loading_, random, targets_);
  const Shape& shape = planned.shape;
  const SampleFormat& format = loading_.format;
  const bool has_size = loading_.varies || (index == 0 && transform.augmentation().sizes() > 1);
  const Shape& wanted = index == 0 ? format.shape : batch.shape;
  if (has_size && shape[0] == format.shape[0]) {
    set_shape(batch, shape);
  } else if (shape != wanted) {
    const bool channels = shape[0] != format.shape[0];
    throw Error(
        "record '", printable_key(record.key), "' gives a sample of ", shape.str(),
        ", the first one ", wanted.str(), "; ",
        channels ? text("give all records ", format.shape[0], " channels: for compressed ",
                        "images, transform_param { force_color: true } or ", "{ force_gray: true }")
                 : text("make the images of one size (", loading_.one_size, "), or set crop_size"));
  }
  if ((opened.floats != nullptr) != format.floats)
    throw Error("record '", printable_key(record.key), "' holds ",
                format.floats ? "bytes, the first one floats" : "floats, the first one bytes",
                "; write the database anew with one kind");

  const Placement placement =
      transform.place(planned.image, Random(loading_.seed, loading_.stream, sample.number));
  batch.placements[index] = placement;
  if (targets_ != nullptr)
    targets_->place(planned.drawn.steps, transform.geometry(planned.image, placement));
  const Image image = transform.augmentation().has_steps() || !planned.drawn.steps.empty()
                          ? augmented(record, opened, planned.drawn)
                          : pixels(transform.window(opened, placement));
  const auto erasure = transform.augmentation().draw_erasure({shape[1], shape[2]}, random);
  const auto write = [&](auto* out) {
    const Span span(SpanKind::transform, [] { return "crop, mirror"; });
    transform.cut(image, placement, out);
    if (erasure) with_key(record, [&] { transform.erase(*erasure, shape, placement, out); });
  };
  const size_t begin = index * static_cast<size_t>(shape.count());
  if (format.floats) {
    write(batch.floats.data() + begin);
  } else {
    write(batch.bytes.data() + begin);
  }
  if (targets_ != nullptr) targets_->load(sample, index);
  if (format.labels > 0) load_labels(record, batch, index);
  note_loss(record, batch);
}

void DatumLoader::note_loss(const Record& record, ImageBatch& batch) const {
  const ImageLoss loss = decoder_.loss();
  const auto note = [&](bool lost, std::string& key) {
    if (lost && key.empty()) key = printable_key(record.key);
  };
  note(loss.depth, batch.losses.depth);
  note(loss.palette, batch.losses.palette);
}

void DatumLoader::load_labels(const Record& record, ImageBatch& batch, size_t index) {
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
