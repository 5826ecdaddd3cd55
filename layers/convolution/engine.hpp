// The engines of Convolution and Deconvolution. For each pass (forward, backward to the data,
// backward to the weights) and each pair of memory formats, an engine takes the fastest primitive
// of its libraries.
//
// The engine "tuned" uses all libraries. In addition, each library is an engine under its own name;
// that engine offers options only if the message or the context forces it.
#pragma once

#include <memory>
#include <vector>

#include "backend/convolution.hpp"
#include "crema/registry.hpp"

namespace crema {

/// Adds the engine "tuned".
void add_tuned_convolution(Registry& registry);

/// Adds a library as an engine of its own, which the engine "tuned" uses too. The primitives of a
/// `preferred` library are tried first; without tuning, the first primitive is taken.
void add_convolution_library(Registry& registry, std::unique_ptr<ConvolutionLibrary> library,
                             bool preferred = false);

/// All libraries, the preferred ones first.
std::vector<const ConvolutionLibrary*> convolution_libraries();

}  // namespace crema
