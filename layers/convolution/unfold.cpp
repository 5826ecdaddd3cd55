#include "layers/convolution/unfold.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace crema {
namespace {

/// The positions [first, last) along an axis at which a tap lies in the image: position p reads
/// element p * stride + shift.
struct Reach {
  int64_t stride, shift, first, last;

  Reach(const ConvolutionGeometry& g, size_t axis, int64_t tap)
      : stride(g.stride[axis]), shift(tap * g.dilation[axis] - g.pad[axis]) {
    first = std::clamp<int64_t>((-shift + stride - 1) / stride, 0, g.output[axis]);
    last = (g.input[axis] - shift + stride - 1) / stride;
    last = std::clamp<int64_t>(last, first, g.output[axis]);
  }
};

/// Calls visit(first column, first element) for the rows along the last axis that `tap` of the
/// other axes reads. The defaults are those of the first axis.
template <class Visit>
void each_row(const ConvolutionGeometry& g, int64_t tap, const Visit& visit, size_t axis = 0,
              int64_t column = 0, int64_t element = 0) {
  const size_t last_axis = g.kernel.size() - 1;
  if (axis == last_axis) return visit(column, element);
  int64_t taps = 1, columns = g.output.back(), elements = g.input.back();  // of one index
  for (size_t i = axis + 1; i < last_axis; ++i) {
    taps *= g.kernel[i];
    columns *= g.output[i];
    elements *= g.input[i];
  }
  const Reach reach(g, axis, tap / taps);
  for (int64_t p = reach.first; p < reach.last; ++p) {
    each_row(g, tap % taps, visit, axis + 1, column + p * columns,
             element + (p * reach.stride + reach.shift) * elements);
  }
}

/// Calls visit(first column, first element of the image, step in the image, count) for the runs of
/// columns at which `tap` of a channel's kernel lies in the image. Taps count with the last axis
/// fastest.
template <class Visit>
void each_run(const ConvolutionGeometry& g, int64_t tap, const Visit& visit) {
  if (g.kernel.empty()) return visit(int64_t{0}, int64_t{0}, int64_t{1}, int64_t{1});
  const Reach run(g, g.kernel.size() - 1, tap % g.kernel.back());
  if (run.first >= run.last) return;
  each_row(g, tap / g.kernel.back(), [=](int64_t column, int64_t element) {
    visit(column + run.first, element + run.first * run.stride + run.shift, run.stride,
          run.last - run.first);
  });
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
