// Convolutions of kernel size 1 and stride above 1, as in the first blocks of the stages of a
// residual net. The pixels that such a convolution reads are copied to a dense tensor, the gathered
// problem. That is a convolution of stride 1, for which libraries have faster kernels.
#pragma once

#include <memory>
#include <optional>

#include "backend/convolution.hpp"

namespace crema {

/// As ConvolutionLibrary::revision(), for the copies of this file.
constexpr const char* kGatheredRevision = "1";

/// The gathered problem; none if the kernel size is not 1, there is padding, or the stride is 1.
std::optional<ConvolutionProblem> gathered_problem(const ConvolutionProblem& problem);

/// A primitive for `problem` that uses `dense`, a primitive for the gathered problem.
std::unique_ptr<ConvolutionPrimitive> with_gathered_pixels(
    const ConvolutionProblem& problem, std::unique_ptr<ConvolutionPrimitive> dense);

}  // namespace crema
