// Our own convolutions as libraries.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/convolution.hpp"

namespace crema {

/// Matrix products whose left matrix is read where it lies in the image. It takes any kernel,
/// stride, padding and dilation of one or two spatial axes, and one group. The images that a pass
/// writes, and the gradients of results that backward-weights reads, are channels-last or blocked
/// as wide as the processor's vectors; the others have any format.
std::unique_ptr<ConvolutionLibrary> direct_convolutions();

/// Winograd's algorithm (winograd.hpp): 3x3 and 5x5 kernels of stride 1 in two dimensions, groups
/// of whole blocks of channels, both formats blocked as Winograd::block() says.
std::unique_ptr<ConvolutionLibrary> winograd_convolutions();

/// For some output pixels at a time, the elements that they read are gathered into a matrix that
/// stays in the cache, and multiplied. It takes contiguous images with one to three spatial axes,
/// and any kernel, stride, padding, dilation and groups. The vectors hold pixels, or elements of a
/// kernel. So channels that fill no vector cost nothing.
std::unique_ptr<ConvolutionLibrary> im2col_convolutions();

/// As many outputs as channels in groups of one or a few, which divide a vector, by vectors of
/// channels: any kernel, stride, padding and dilation of one or two spatial axes, both images
/// channels-last or both in the same blocks.
std::unique_ptr<ConvolutionLibrary> depthwise_convolutions();

/// A library with one implementation.
struct OwnConvolutions {
  std::string name;
  std::string revision;  // counted up with each change of the kernels or of how they are called
  /// The name of the implementation for a problem that is not refused.
  std::function<std::string(const ConvolutionProblem&)> implementation;
  /// Why it does not take a problem; empty if it does.
  std::function<std::string(const ConvolutionProblem&, ConvolutionPass, ConvolutionAlgorithm)>
      refusal;
  std::function<std::unique_ptr<ConvolutionPrimitive>(const ConvolutionProblem&, ConvolutionPass)>
      make;
};

std::unique_ptr<ConvolutionLibrary> make_library(OwnConvolutions own);

/// For OwnConvolutions::implementation: the instructions that the kernels use, "avx512".
std::string name_of_simd(const ConvolutionProblem& problem);

}  // namespace crema
