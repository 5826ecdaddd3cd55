// Copies the elements of an image that each output position of a convolution reads to the columns
// of a matrix, so that the convolution is a matrix product; and back. Any number of spatial axes.
//
//   image    (channels / groups, input extents...): one group of one image
//   columns  (channels / groups, kernel..., output extents...): row (c, t), column p holds
//            image[c, p * stride - pad + t * dilation], 0 outside of the image
#pragma once

#include "layers/convolution/geometry.hpp"

namespace crema {

/// T: float or double. Overwrites all of `columns`.
template <class T>
void unfold(const ConvolutionGeometry& geometry, const T* image, T* columns);

/// The gradient of unfold: overwrites `image` with the sums of the elements of `columns` that were
/// copied from each place.
template <class T>
void fold(const ConvolutionGeometry& geometry, const T* columns, T* image);

}  // namespace crema
