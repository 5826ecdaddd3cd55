// The kernel of the engine "cuda" of a TwoSidedLayer, for engines that compute some problems in
// another way.
#pragma once

#include <memory>

#include "layer_support/two_sided.hpp"

namespace crema {

/// The passes of the layer on the device of its context. The bottoms and tops have layouts of
/// TwoSidedLayer::device_options().
std::unique_ptr<Kernel> make_device_kernel(TwoSidedLayer& layer, Blobs bottom, Blobs top);

}  // namespace crema
