#include "data/batches/image_tops.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/batches/device_images.hpp"

namespace crema {
namespace {

std::vector<Mix> draw_mixes(const ImageBatch& batch, const DatumLoading& loading, uint64_t seed,
                            const Mixing& mixing) {
  std::vector<Mix> mixes;
  if (!mixing.is_active()) return mixes;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const SampleRandom random{seed, loading.stream, batch.samples[i].number};
    mixes.push_back(mixing.draw(random, static_cast<int64_t>(i), {batch.shape[1], batch.shape[2]}));
  }
  return mixes;
}

/// Error unless a top of `shape` takes such samples.
void check_sample(const Shape& sample, const Shape& shape) {
  if (sample[0] != shape[1] || sample[1] != shape[2] || sample[2] != shape[3])
    throw Error("the next record gives a sample of ", sample.str(), ", and the top is ",
                shape.str(), "; call Layer::fetch() before the pass, as a net does");
}

}  // namespace

void LossWarnings::tell(const ImageBatch& batch, const std::string& layer, const Context& context) {
  const auto warn = [&](const std::string& key, bool& told, const char* what) {
    if (key.empty() || told) return;
    told = true;
    context.log(Severity::warning, text("layer '", layer, "': record '", key, "' ", what));
  };
  warn(batch.losses.depth, told_depth_,
       "has more than 8 bits a channel, of which the layer takes the upper 8; a database of all "
       "bits is made by crema convert-imageset --keep_depth. Other records may have them, too");
  warn(batch.losses.palette, told_palette_,
       "is a PNG with a palette, whose colours become gray; where its indices are labels, these "
       "are lost: DenseImageData reads them as a label map. Other records may have a palette, too");
}

void convert_batch(const ImageBatch& batch, bool floats, const Transform& transform, Tensor& top,
                   const std::vector<Mix>& mixes) {
  const Shape &shape = top.shape(), &sample = batch.shape;
  const int64_t size = sample.count();
  check_sample(sample, shape);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / size);
  dispatch_float(top.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = top.overwrite<T>();  // (N, C, H, W)
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

void write_labels(const ImageBatch& batch, const KeyOf& key_of, Tensor& top) {
  const size_t each = batch.labels.size() / std::max<size_t>(1, batch.samples.size());
  dispatch_float(top.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const out = top.overwrite<T>();  // (N), or (N, L)
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const double label = batch.labels[i];
      out[i] = static_cast<T>(label);
      // Labels that are rounded to one number would be taken for one class.
      if (static_cast<double>(out[i]) == label) continue;
      const auto sample = static_cast<int64_t>(i / each);
      throw Error("record '", key_of(batch.samples[i / each], sample), "': its label ",
                  static_cast<int64_t>(label), " has no exact value in ", to_string(top.dtype()),
                  ", the type of the net; number the labels from 0, or make the net in f64");
    }
  });
}

Shape labels_shape(int64_t batch_size, const SampleFormat& format, const Mixing& mixing) {
  if (mixing.classes() > 0 && format.labels != 1)
    throw Error(
        "transform_param { num_labels } makes a distribution of one label, and records have ",
        format.labels, "; remove it, or write the database with one label a record");
  const int64_t values = mixing.classes() > 0 ? mixing.classes() : format.labels;
  return values == 1 ? Shape{batch_size} : Shape{batch_size, values};
}

void give_datums(const ImageBatch& batch, const DatumLoading& loading, uint64_t seed,
                 const Mixing& mixing, const KeyOf& key_of, Blobs top, DeviceImages* device) {
  const std::vector<Mix> mixes = draw_mixes(batch, loading, seed, mixing);
  if (device != nullptr && mixes.empty() && !loading.format.floats) {
    check_sample(batch.shape, top[0]->shape());
    device->convert(batch, *loading.transform, top[0]->data);
  } else {
    convert_batch(batch, loading.format.floats, *loading.transform, top[0]->data, mixes);
  }
  if (top.size() < 2) return;
  if (mixing.classes() == 0) return write_labels(batch, key_of, top[1]->data);
  const std::vector<double> labels(batch.labels.begin(), batch.labels.end());
  dispatch_float(top[1]->data.dtype(), [&](auto zero) {
    class_distributions(
        labels, mixes, mixing.classes(),
        [&](int64_t n) { return key_of(batch.samples[static_cast<size_t>(n)], n); },
        top[1]->data.overwrite<decltype(zero)>());
  });
}

}  // namespace crema
