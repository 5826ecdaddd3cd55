// Gathers the input elements that each output position of a convolution reads into the columns of a
// matrix, so that the convolution is a matrix product; and back. Any number of spatial axes.
//
//   image    (channels, input extents...)
//   columns  (channels, kernel..., output extents...): row (c, t), column p holds
//            image[c, p * stride - pad + t * dilation], 0 outside of the image
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

/// One entry a spatial axis in each vector; none at all: one position.
struct ColumnGeometry {
  int64_t channels = 0;
  std::vector<int64_t> input, output, kernel, stride, pad, dilation;

  int64_t rows() const;     // channels * kernel...
  int64_t columns() const;  // output extents
};

/// T: float or double. Overwrites all of `columns`.
template <class T>
void im2col(const ColumnGeometry& geometry, const T* image, T* columns);

/// The gradient of im2col: overwrites `image` with the sums of the elements of `columns` that were
/// gathered from each place.
template <class T>
void col2im(const ColumnGeometry& geometry, const T* columns, T* image);

}  // namespace crema
