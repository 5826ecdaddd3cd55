// Our Winograd kernels as a convolution library.
#pragma once

#include "backend/convolution.hpp"

namespace crema {

/// 3x3 kernels of stride 1 in two dimensions, one group, both formats blocked as Winograd::block()
/// says.
class WinogradConvolutions : public ConvolutionLibrary {
 public:
  std::string name() const override { return "winograd"; }
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
