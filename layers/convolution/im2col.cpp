#include "layers/convolution/im2col.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace crema {
namespace {

int64_t product(const std::vector<int64_t>& values) {
  int64_t result = 1;
  for (const int64_t value : values) result *= value;
  return result;
}

/// Room for a number an axis, which each thread keeps.
std::vector<int64_t>& room_of_thread(size_t axes) {
  thread_local std::vector<int64_t> room;
  room.resize(axes);
  return room;
}

/// A row of the matrix, one a thread at a time: a channel seen through one tap of the kernel.
class Row {
 public:
  explicit Row(const ColumnGeometry& geometry)
      : g_(geometry), shift_(room_of_thread(geometry.kernel.size())) {}

  /// `tap` counts through the kernel's taps, the last axis fastest.
  void set_tap(int64_t tap) {
    for (size_t axis = shift_.size(); axis-- > 0;) {
      shift_[axis] = tap % g_.kernel[axis] * g_.dilation[axis] - g_.pad[axis];
      tap /= g_.kernel[axis];
    }
  }

  /// Calls inside(first column, first element of the image, step in the image, count) for runs of
  /// columns that lie in the image, and outside(first column, count) for the others.
  template <class Inside, class Outside>
  void walk(const Inside& inside, const Outside& outside) const {
    if (shift_.empty()) {
      inside(int64_t{0}, int64_t{0}, int64_t{1}, int64_t{1});
      return;
    }
    walk_axis(0, 0, 0, inside, outside);
  }

 private:
  template <class Inside, class Outside>
  void walk_axis(size_t axis, int64_t column, int64_t element, const Inside& inside,
                 const Outside& outside) const {
    const int64_t stride = g_.stride[axis], shift = shift_[axis];
    const int64_t input = g_.input[axis], output = g_.output[axis];
    // Positions [first, last) read inside of the image along this axis.
    const int64_t first = std::clamp<int64_t>((-shift + stride - 1) / stride, 0, output);
    const int64_t last = std::clamp<int64_t>((input - shift + stride - 1) / stride, first, output);
    if (axis + 1 == shift_.size()) {
      if (first > 0) outside(column, first);
      if (last > first)
        inside(column + first, element + first * stride + shift, stride, last - first);
      if (output > last) outside(column + last, output - last);
      return;
    }
    int64_t inner_columns = 1, inner_elements = 1;
    for (size_t i = axis + 1; i < shift_.size(); ++i) {
      inner_columns *= g_.output[i];
      inner_elements *= g_.input[i];
    }
    if (first > 0) outside(column, first * inner_columns);
    for (int64_t p = first; p < last; ++p) {
      walk_axis(axis + 1, column + p * inner_columns,
                element + (p * stride + shift) * inner_elements, inside, outside);
    }
    if (output > last) outside(column + last * inner_columns, (output - last) * inner_columns);
  }

  const ColumnGeometry& g_;
  std::vector<int64_t>& shift_;
};

}  // namespace

int64_t ColumnGeometry::rows() const { return channels * product(kernel); }
int64_t ColumnGeometry::columns() const { return product(output); }

template <class T>
void im2col(const ColumnGeometry& g, const T* image, T* columns) {
  const int64_t taps = product(g.kernel), width = g.columns(), plane = product(g.input);
  parallel_for(g.rows(), 1, [&](int64_t begin, int64_t end) {
    Row row(g);
    for (int64_t r = begin; r < end; ++r) {
      const T* const from = image + r / taps * plane;
      T* const to = columns + r * width;
      row.set_tap(r % taps);
      row.walk(
          [=](int64_t column, int64_t element, int64_t step, int64_t count) {
            if (step == 1) {
              std::copy_n(from + element, count, to + column);
            } else {
              for (int64_t i = 0; i < count; ++i) to[column + i] = from[element + i * step];
            }
          },
          [=](int64_t column, int64_t count) { std::fill_n(to + column, count, T{0}); });
    }
  });
}

template <class T>
void col2im(const ColumnGeometry& g, const T* columns, T* image) {
  const int64_t taps = product(g.kernel), width = g.columns(), plane = product(g.input);
  // Rows of one channel meet in the same elements: a channel is one thread's.
  parallel_for(g.channels, 1, [&](int64_t begin, int64_t end) {
    Row row(g);
    for (int64_t c = begin; c < end; ++c) {
      T* const to = image + c * plane;
      std::fill_n(to, plane, T{0});
      for (int64_t tap = 0; tap < taps; ++tap) {
        const T* const from = columns + (c * taps + tap) * width;
        row.set_tap(tap);
        row.walk(
            [=](int64_t column, int64_t element, int64_t step, int64_t count) {
              for (int64_t i = 0; i < count; ++i) to[element + i * step] += from[column + i];
            },
            [](int64_t, int64_t) {});
      }
    }
  });
}

template void im2col<float>(const ColumnGeometry&, const float*, float*);
template void im2col<double>(const ColumnGeometry&, const double*, double*);
template void col2im<float>(const ColumnGeometry&, const float*, float*);
template void col2im<double>(const ColumnGeometry&, const double*, double*);

}  // namespace crema
