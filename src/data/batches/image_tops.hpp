// What batches of images become: the tops of data layers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "data/batches/datum_loader.hpp"
#include "data/batches/image_batch.hpp"
#include "data/transform/mixing.hpp"

namespace crema {

class DeviceImages;  // data/batches/device_images.hpp

/// Tells once of what decoding the images of a layer lost.
class LossWarnings {
 public:
  void tell(const ImageBatch& batch, const std::string& layer, const Context& context);

 private:
  bool told_depth_ = false, told_palette_ = false;
};

/// The key of sample `index` of a batch, for messages.
using KeyOf = std::function<std::string(const Sample& sample, int64_t index)>;

/// Writes the samples of a batch of images to `top` (N, C, H, W): mean, scale and mirroring, in
/// parallel; then mixed with each other, if there are mixes.
void convert_batch(const ImageBatch& batch, bool floats, const Transform& transform, Tensor& top,
                   const std::vector<Mix>& mixes = {});

/// Writes a batch's labels to `top`, (N) or (N, L). Error, with the key, for one that has no exact
/// value there.
void write_labels(const ImageBatch& batch, const KeyOf& key_of, Tensor& top);

/// The shape of the labels' top: (N), or (N, L), or (N, classes) with num_labels. Error for
/// num_labels where records have several labels.
Shape labels_shape(int64_t batch_size, const SampleFormat& format, const Mixing& mixing);

/// Writes a batch of a DatumLoader to top 0 and, if there is one, its labels to top 1. `seed` is
/// that of the run. `device`, if not null, takes images of bytes that are not mixed.
void give_datums(const ImageBatch& batch, const DatumLoading& loading, uint64_t seed,
                 const Mixing& mixing, const KeyOf& key_of, Blobs top,
                 DeviceImages* device = nullptr);

}  // namespace crema
