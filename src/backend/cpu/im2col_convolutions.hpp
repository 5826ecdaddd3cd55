// Our own convolution over columns (im2col) as a library: for some output pixels at a time, the
// elements that they read are gathered into a matrix that stays in the cache, and multiplied. It
// takes contiguous images with one to three spatial axes, and any kernel, stride, padding, dilation
// and groups. The vectors hold pixels, or elements of a kernel. So channels that fill no vector
// cost nothing.
#pragma once

#include "backend/convolution.hpp"

namespace crema {

class Im2colConvolutions : public ConvolutionLibrary {
 public:
  std::string name() const override { return "im2col"; }
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
