// The passes of a deformable convolution over its columns: the values that its taps read, (groups,
// rows, taps, channels of a group), a row for each position. Maps are channels-last, (images,
// pixels, channels). Sources include kit/passes.hpp themselves, so that nvcc compiles them.
#pragma once

#include <algorithm>

#include "kit/passes.hpp"
#include "layers/deformable_convolution/deformable_kernels.hpp"
#include "layers/deformable_convolution/deformed_points.hpp"

namespace crema {

/// What the passes share.
template <class T>
struct DeformedPass {
  DeformedTaps<T> taps;
  DeformedChunk chunk;
  const DeformableKernels<T>* kernels;  // of the host

  CREMA_FUNCTOR const DeformedShape& shape() const { return taps.shape; }
  /// The first channel of maps that pixel `at` of the image of a row has.
  CREMA_FUNCTOR int64_t pixel(int64_t row, int64_t at) const {
    return (row / chunk.count * shape().pixels() + at) * shape().channels;
  }
  CREMA_FUNCTOR DeformedPoint point(int64_t row, int64_t group, int64_t tap) const {
    return taps.point(chunk.image_of(row), group, tap, chunk.position_of(row));
  }
  CREMA_FUNCTOR double factor(int64_t row, int64_t group, int64_t tap) const {
    return taps.factor(chunk.image_of(row), group, tap, chunk.position_of(row));
  }
  CREMA_FUNCTOR int64_t column(int64_t row, int64_t tap, int64_t c) const {
    return chunk.column(shape(), row, tap, c);
  }
  /// The end of the channels from c on that are neighbours in columns, `end` at most.
  int64_t run_end(int64_t c, int64_t end) const {
    const int64_t each = shape().group_channels();
    return std::min(end, (c / each + 1) * each);
  }
};

/// The corners of a point that weigh something, for kernels.
template <class T, class Value>
struct WeighedCorners {
  int count = 0;
  Value* at[4];
  T weight[4];

  WeighedCorners(const DeformedPass<T>& pass, const DeformedPoint& point, double factor,
                 int64_t row, int64_t channel, Value* maps) {
    for (int k = 0; k < 4; ++k) {
      const double w = factor * point.weight(k);
      if (w == 0) continue;
      at[count] = maps + pass.pixel(row, point.at[k]) + channel;
      weight[count++] = static_cast<T>(w);
    }
  }
  void move(int64_t channels) {
    for (int k = 0; k < count; ++k) at[k] += channels;
  }
};

/// columns = the values at the points, times the mask. Position i: tap i % taps of row i / taps.
template <class T>
struct SampleColumns {
  DeformedPass<T> pass;
  const T* maps;
  T* columns;

  void on_host(int64_t begin, int64_t end) const {
    const int64_t taps = pass.shape().taps(), each = pass.shape().offset_channels();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / taps, tap = i % taps;
      for (int64_t group = 0; group < pass.shape().offset_groups; ++group) {
        int64_t c = group * each;
        WeighedCorners<T, const T> corners(pass, pass.point(row, group, tap),
                                           pass.factor(row, group, tap), row, c, maps);
        while (c < (group + 1) * each) {
          const int64_t next = pass.run_end(c, (group + 1) * each);
          pass.kernels->sample(corners.count, corners.at, corners.weight, next - c,
                               columns + pass.column(row, tap, c));
          corners.move(next - c);
          c = next;
        }
      }
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t row = i / pass.shape().taps(), tap = i % pass.shape().taps();
    const int64_t each = pass.shape().offset_channels();
    for (int64_t group = 0; group < pass.shape().offset_groups; ++group) {
      const DeformedPoint point = pass.point(row, group, tap);
      const double factor = pass.factor(row, group, tap);
      for (int64_t c = group * each + lanes.first; c < (group + 1) * each; c += lanes.count) {
        T sum{0};
        for (int k = 0; k < 4; ++k) {
          const auto w = static_cast<T>(factor * point.weight(k));
          if (w != T{0}) sum += w * maps[pass.pixel(row, point.at[k]) + c];
        }
        columns[pass.column(row, tap, c)] = sum;
      }
    }
  }
};

/// The gradients of offsets and mask, each where its pointer is not null, from those of the
/// columns. Positions as in SampleColumns.
template <class T>
struct PointGradients {
  DeformedPass<T> pass;
  const T *maps, *columns;
  T *offsets, *mask;

  void on_host(int64_t begin, int64_t end) const {
    const int64_t taps = pass.shape().taps(), each = pass.shape().offset_channels();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / taps, tap = i % taps;
      for (int64_t group = 0; group < pass.shape().offset_groups; ++group) {
        const DeformedPoint point = pass.point(row, group, tap);
        const T* at[4];
        int corner[4], count = 0;
        for (int k = 0; k < 4; ++k) {
          if (!point.there[k]) continue;
          corner[count] = k;
          at[count++] = maps + pass.pixel(row, point.at[k]) + group * each;
        }
        double products[4] = {0, 0, 0, 0};
        for (int64_t c = group * each; c < (group + 1) * each;) {
          const int64_t next = pass.run_end(c, (group + 1) * each);
          pass.kernels->dots(count, at, next - c, columns + pass.column(row, tap, c), products);
          for (int k = 0; k < count; ++k) at[k] += next - c;
          c = next;
        }
        double sums[4] = {0, 0, 0, 0};
        for (int k = 0; k < count; ++k) sums[corner[k]] = products[k];
        write(row, group, tap, point, sums);
      }
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t row = i / pass.shape().taps(), tap = i % pass.shape().taps();
    const int64_t each = pass.shape().offset_channels();
    for (int64_t group = 0; group < pass.shape().offset_groups; ++group) {
      const DeformedPoint point = pass.point(row, group, tap);
      double sums[4] = {0, 0, 0, 0};
      for (int64_t c = group * each + lanes.first; c < (group + 1) * each; c += lanes.count) {
        const auto gradient = static_cast<double>(columns[pass.column(row, tap, c)]);
        for (int k = 0; k < 4; ++k) {
          if (point.there[k])
            sums[k] += gradient * static_cast<double>(maps[pass.pixel(row, point.at[k]) + c]);
        }
      }
      for (int k = 0; k < 4; ++k) sums[k] = lanes.sum(sums[k]);
      if (lanes.first == 0) write(row, group, tap, point, sums);
    }
  }
  /// `sums`: of each corner, over the channels of the group, the products of values and gradients.
  CREMA_FUNCTOR void write(int64_t row, int64_t group, int64_t tap, const DeformedPoint& point,
                           const double* sums) const {
    const int64_t positions = pass.shape().positions(), p = pass.chunk.position_of(row);
    const int64_t index = pass.taps.tap_index(pass.chunk.image_of(row), group, tap);
    double value = 0, down = 0, right = 0;
    for (int k = 0; k < 4; ++k) {
      if (!point.there[k]) continue;
      value += point.weight(k) * sums[k];
      down += point.slope_y(k) * sums[k];
      right += point.slope_x(k) * sums[k];
    }
    if (mask != nullptr) mask[index * positions + p] = static_cast<T>(value);
    if (offsets == nullptr) return;
    const double factor = pass.factor(row, group, tap);
    offsets[2 * index * positions + p] = static_cast<T>(factor * down);
    offsets[(2 * index + 1) * positions + p] = static_cast<T>(factor * right);
  }
};

/// Adds the gradients of columns to those of the pixels that they were read from. Index i: a part
/// of the positions of an image, which adds to `maps` of its own, (parts, images, pixels,
/// channels), and `unit` channels. One thread at a time adds to a value, in the order of the
/// positions.
template <class T>
struct SpreadColumns {
  DeformedPass<T> pass;
  const T* columns;
  T* maps;
  int64_t unit, parts;

  CREMA_FUNCTOR int64_t units() const { return (pass.shape().channels + unit - 1) / unit; }
  CREMA_FUNCTOR int64_t count() const { return parts * pass.chunk.images * units(); }
  /// The maps of a part.
  CREMA_FUNCTOR T* maps_of(int64_t part) const {
    return maps + part * pass.chunk.images * pass.shape().pixels() * pass.shape().channels;
  }
  /// The first row of a part of an image.
  CREMA_FUNCTOR int64_t first_row(int64_t part, int64_t image) const {
    return image * pass.chunk.count + pass.chunk.count * part / parts;
  }

  void on_host(int64_t begin, int64_t end) const {
    const int64_t each = pass.shape().offset_channels();
    while (begin < end) {
      const int64_t first = begin % units(), last = std::min(units(), first + end - begin);
      const int64_t part = begin / units() / pass.chunk.images;
      const int64_t image = begin / units() % pass.chunk.images;
      const int64_t c_begin = first * unit, c_end = std::min(last * unit, pass.shape().channels);
      for (int64_t row = first_row(part, image); row < first_row(part + 1, image); ++row) {
        for (int64_t tap = 0; tap < pass.shape().taps(); ++tap) {
          for (int64_t c = c_begin; c < c_end;) {
            const int64_t group = c / each, group_end = std::min(c_end, (group + 1) * each);
            WeighedCorners<T, T> corners(pass, pass.point(row, group, tap),
                                         pass.factor(row, group, tap), row, c, maps_of(part));
            while (c < group_end) {
              const int64_t next = pass.run_end(c, group_end);
              pass.kernels->spread(corners.count, corners.at, corners.weight, next - c,
                                   columns + pass.column(row, tap, c));
              corners.move(next - c);
              c = next;
            }
          }
        }
      }
      begin += last - first;
    }
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t part = i / units() / pass.chunk.images, image = i / units() % pass.chunk.images;
    const int64_t c_begin = i % units() * unit;
    const int64_t c_end =
        c_begin + unit < pass.shape().channels ? c_begin + unit : pass.shape().channels;
    T* const to = maps_of(part);
    for (int64_t row = first_row(part, image); row < first_row(part + 1, image); ++row) {
      for (int64_t tap = 0; tap < pass.shape().taps(); ++tap) {
        for (int64_t c = c_begin; c < c_end; ++c) {
          const int64_t group = c / pass.shape().offset_channels();
          const DeformedPoint point = pass.point(row, group, tap);
          const double factor = pass.factor(row, group, tap);
          const T value = columns[pass.column(row, tap, c)];
          for (int k = 0; k < 4; ++k) {
            const auto w = static_cast<T>(factor * point.weight(k));
            if (w != T{0}) to[pass.pixel(row, point.at[k]) + c] += w * value;
          }
        }
      }
    }
  }
};

/// Part 0 of maps += the others.
template <class T>
struct JoinParts {
  int64_t each, parts;
  T* maps;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    for (int64_t part = 1; part < parts; ++part) maps[i] += maps[part * each + i];
  }
};

/// The top (N, outputs, positions) from sums (outputs, rows), with the bias. Index i: of sums.
template <class T>
struct WriteTop {
  DeformedShape shape;
  DeformedChunk chunk;
  const T *sums, *bias;
  T* y;

  CREMA_FUNCTOR int64_t place(int64_t output, int64_t row) const {
    return (chunk.image_of(row) * shape.outputs + output) * shape.positions() +
           chunk.position_of(row);
  }
  void on_host(int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t output = begin / chunk.rows(), row = begin % chunk.rows();
      const int64_t run = std::min(end - begin, chunk.count - row % chunk.count);
      const T added = bias != nullptr ? bias[output] : T{0};
      T* const to = y + place(output, row);
      for (int64_t k = 0; k < run; ++k) to[k] = sums[begin + k] + added;
      begin += run;
    }
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t output = i / chunk.rows(), row = i % chunk.rows();
    y[place(output, row)] = sums[i] + (bias != nullptr ? bias[output] : T{0});
  }
};

/// The gradient of weights (outputs, channels of a group, taps) += one with the channels last.
template <class T>
struct AddWeightsGradient {
  int64_t channels, taps;
  const T* added;
  T* gradient;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t tap = i % taps, c = i / taps % channels, output = i / taps / channels;
    gradient[i] += added[(output * taps + tap) * channels + c];
  }
};

}  // namespace crema
