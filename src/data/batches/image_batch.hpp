// ImageBatch: a batch of images and their labels, as records hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/shape.hpp"
#include "data/batches/prefetcher.hpp"
#include "data/transform/transform.hpp"

namespace crema {

struct ImageBatch : Batch {
  Shape shape;  // (C, H, W) of each, where a batch may have a shape of its own
  std::vector<Placement> placements;
  std::vector<uint8_t> bytes;  // (N, C, H, W) where records hold bytes
  std::vector<float> floats;   // the same where they hold floats
  std::vector<double> labels;  // (N, L): integers of 32 bits, or values of f32
  /// The first record of which decoding lost something, as ImageLoss has it; "": none.
  struct Losses {
    std::string depth, palette;
  };
  Losses losses;
};

}  // namespace crema
