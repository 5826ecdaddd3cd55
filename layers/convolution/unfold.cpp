#include "layers/convolution/unfold.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace crema {
namespace {

/// Calls visit(first column, first element of the image, step in the image, count) for the runs of
/// columns at which `tap` of a channel's kernel lies in the image. The other arguments are those of
/// the axes in front of `axis`. Taps count with the last axis fastest.
template <class Visit>
void each_run(const ConvolutionGeometry& g, int64_t tap, const Visit& visit, size_t axis = 0,
              int64_t column = 0, int64_t element = 0) {
  const size_t axes = g.kernel.size();
  if (axes == 0) return visit(int64_t{0}, int64_t{0}, int64_t{1}, int64_t{1});
  int64_t taps = 1, columns = 1, elements = 1;  // of one index of this axis
  for (size_t i = axis + 1; i < axes; ++i) {
    taps *= g.kernel[i];
    columns *= g.output[i];
    elements *= g.input[i];
  }
  const int64_t stride = g.stride[axis], output = g.output[axis];
  const int64_t shift = tap / taps * g.dilation[axis] - g.pad[axis];
  // Positions [first, last) read inside of the image along this axis.
  const int64_t first = std::clamp<int64_t>((-shift + stride - 1) / stride, 0, output);
  const int64_t last =
      std::clamp<int64_t>((g.input[axis] - shift + stride - 1) / stride, first, output);
  if (axis + 1 == axes)
    return visit(column + first, element + first * stride + shift, stride, last - first);
  for (int64_t p = first; p < last; ++p) {
    each_run(g, tap % taps, visit, axis + 1, column + p * columns,
             element + (p * stride + shift) * elements);
  }
}

}  // namespace

template <class T>
void unfold(const ConvolutionGeometry& g, const T* image, T* columns) {
  const int64_t taps = g.taps(), width = g.positions(), plane = g.elements();
  const bool padded = std::any_of(g.pad.begin(), g.pad.end(), [](int64_t pad) { return pad > 0; });
  parallel_for(g.channels / g.groups * taps, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const from = image + row / taps * plane;
      T* const to = columns + row * width;
      if (padded) std::fill_n(to, width, T{0});
      each_run(g, row % taps, [=](int64_t column, int64_t element, int64_t step, int64_t count) {
        if (step == 1) {
          std::copy_n(from + element, count, to + column);
        } else {
          for (int64_t i = 0; i < count; ++i) to[column + i] = from[element + i * step];
        }
      });
    }
  });
}

template <class T>
void fold(const ConvolutionGeometry& g, const T* columns, T* image) {
  const int64_t taps = g.taps(), width = g.positions(), plane = g.elements();
  // Rows of one channel meet in the same elements: a channel is one thread's.
  parallel_for(g.channels / g.groups, 1, [&](int64_t begin, int64_t end) {
    std::fill(image + begin * plane, image + end * plane, T{0});
    for (int64_t row = begin * taps; row < end * taps; ++row) {
      const T* const from = columns + row * width;
      T* const to = image + row / taps * plane;
      each_run(g, row % taps, [=](int64_t column, int64_t element, int64_t step, int64_t count) {
        for (int64_t i = 0; i < count; ++i) to[element + i * step] += from[column + i];
      });
    }
  });
}

template void unfold(const ConvolutionGeometry&, const float*, float*);
template void unfold(const ConvolutionGeometry&, const double*, double*);
template void fold(const ConvolutionGeometry&, const float*, float*);
template void fold(const ConvolutionGeometry&, const double*, double*);

}  // namespace crema
