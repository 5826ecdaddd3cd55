// TargetLoader: loads what a net is to learn of an image where that is no label: boxes, or a label
// map. A DatumLoader has one where its layer reads such targets.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batches/sampler.hpp"
#include "data/images/geometry.hpp"
#include "data/records/datum.hpp"
#include "data/transform/augmentation.hpp"

namespace crema {

/// Each thread has its own, which keeps the targets of one record. The functions are called in this
/// order; a record that cannot be used ends them early, and the next one begins with open().
class TargetLoader {
 public:
  virtual ~TargetLoader() = default;

  /// Takes the targets of a record that `decoder` has opened as `image`. Error, with the record's
  /// key, if the layer cannot use them.
  virtual void open(const Record& record, const DatumDecoder& decoder, const Image& image) = 0;
  /// Whether they stand in the place of the record's labels.
  virtual bool replaces_labels() const = 0;
  /// Draws the steps of the image before the crop.
  virtual DrawnSteps draw(const Augmentation& augmentation, ImageSize image,
                          const SampleRandom& random) {
    return augmentation.draw(image, random);
  }
  /// Moves them with the image: through the steps that draw() gave, then through the crop.
  virtual void place(const std::vector<ImageStep>& steps, const Geometry& crop) = 0;
  /// Writes them to the batch, as those of the sample with this index, whose pixels are there.
  virtual void load(const Sample& sample, size_t index) = 0;
};

}  // namespace crema
