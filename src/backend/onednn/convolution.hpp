// Convolution by oneDNN, in f32.
#pragma once

#include "backend/convolution.hpp"

namespace crema::onednn {

/// Implementations are named as oneDNN names them ("jit:avx2"), with "winograd " in front of those
/// of that algorithm. Its plain loops, slower than our reference, are left out, and so are kernels
/// for lesser processors than the one at hand.
class Convolutions : public ConvolutionLibrary {
 public:
  std::string name() const override { return "onednn"; }
  /// oneDNN's version, and a number for what is ours around its primitives.
  std::string revision() const override;
  std::vector<std::string> implementations(const ConvolutionProblem& problem, ConvolutionPass pass,
                                           ConvolutionAlgorithm algorithm,
                                           std::string& why) const override;
  std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                             ConvolutionPass pass,
                                             const std::string& implementation) const override;
};

}  // namespace crema::onednn
