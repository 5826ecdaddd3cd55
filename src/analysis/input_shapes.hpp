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
};

/// Of a layer without bottoms: what its data are, or else, where these cannot be read, what the
/// settings say of the first top. Error if they do not say its size.
SourceShapes shapes_of_source(const LayerParameter& source, Context& context);

}  // namespace crema
