// Our own direct convolution as a library: matrix products whose left matrix is read where it lies
// in the image. It takes any kernel, stride, padding and dilation of one or two spatial axes, one
// group, and wastes nothing where channels are few or fill no block, where other libraries are
// weak.
#pragma once

#include "backend/convolution.hpp"

namespace crema {

/// Sources in any format, targets channels-last or blocked as wide as the processor's vectors.
class DirectConvolutions : public ConvolutionLibrary {
 public:
  std::string name() const override { return "direct"; }
  /// To be counted up with each change of the kernels or of how they are called.
  std::string revision() const override { return "2"; }
  std::vector<std::string> implementations(const ConvolutionProblem& problem, ConvolutionPass pass,
                                           ConvolutionAlgorithm algorithm,
                                           std::string& why) const override;
  std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                             ConvolutionPass pass,
                                             const std::string& implementation) const override;
};

}  // namespace crema
