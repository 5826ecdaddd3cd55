// What convolution kernels usually reach, for a tuner that has measured nothing yet
// (core/speed_model.hpp).
#pragma once

#include <string>

#include "backend/convolution.hpp"
#include "core/speed_model.hpp"

namespace crema {

/// What the speed of a pass depends on. `tuner`: whose problems it is of.
Workload workload_of(const std::string& tuner, const ConvolutionProblem& problem,
                     ConvolutionPass pass, int threads);

/// The usual share of the FMA peak that an implementation of a library reaches; 0 if unknown.
/// Winograd's algorithm does fewer multiply-adds than it counts here, so that it may exceed 1.
double usual_share(const std::string& library, const std::string& implementation,
                   const ConvolutionProblem& problem);

}  // namespace crema
