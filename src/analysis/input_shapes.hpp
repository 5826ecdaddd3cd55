// Shapes of what data layers give.
#pragma once

#include <string>
#include <vector>

#include "crema/context.hpp"
#include "crema/shape.hpp"
#include "proto/layer.pb.h"

namespace crema {

struct SourceShapes {
  std::vector<Shape> tops;  // with the batch; unknown ones have rank 0
  std::string assumed;      // what was guessed, in words; "": nothing
  std::string why;          // some are unknown
};

/// Of a layer without bottoms: what its data are, or else, where these cannot be read, what the
/// settings say of the first top.
SourceShapes shapes_of_source(const LayerParameter& source, Context& context);

/// Whether the first top is of images: records of channels, height and width.
bool gives_images(const LayerParameter& source);
/// Records in a batch, as the settings say; 1 if they do not.
int64_t batch_of_settings(const LayerParameter& source);

}  // namespace crema
