// Scratch memory of our convolution kernels: a few places a thread, which all primitives share.
#pragma once

#include <cstdint>

#include "crema/scratch_plan.hpp"

namespace crema {

enum class ConvolutionScratch : uint8_t {
  window,   // parts of images with their padding
  partial,  // what is computed of a window, or multiplied with it, at a time
  brick,    // a few weights on their way into another order
  packed,   // an operand in another order
  sums,     // gradients of weights, one for each part of the images
};

/// Memory of the calling thread for `count` floats; not cleared. Valid until the thread asks for
/// the same place again.
float* convolution_scratch(ConvolutionScratch place, int64_t count);
/// Adds to the plan that each of `threads` threads asks for `count` floats of a place.
void need_scratch(ScratchPlan& plan, ConvolutionScratch place, int64_t count, int64_t threads);

}  // namespace crema
