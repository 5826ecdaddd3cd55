// Convolutions that skip pixels, of a kernel of one pixel and a stride above 1 as at the borders of
// a residual net's stages: the pixels that are read are gathered, and what is left is a convolution
// of stride 1, for which libraries have their best kernels.
#pragma once

#include <memory>
#include <optional>

#include "backend/convolution.hpp"

namespace crema {

/// As ConvolutionLibrary::revision(), of gathering alone.
constexpr const char* kGatheredRevision = "1";

/// The same over gathered pixels; none where that would not be the same.
std::optional<ConvolutionProblem> gathered_problem(const ConvolutionProblem& problem);

/// Computes `problem` by `dense`, a primitive for the gathered problem.
std::unique_ptr<ConvolutionPrimitive> with_gathered_pixels(
    const ConvolutionProblem& problem, std::unique_ptr<ConvolutionPrimitive> dense);

}  // namespace crema
