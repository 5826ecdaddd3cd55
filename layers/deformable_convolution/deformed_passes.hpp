// The passes of a deformable convolution over its columns: the values that its taps read, (groups,
// rows, taps, channels of a group), a row for each position. Maps are channels-last, (images,
// pixels, channels). Sources include layer_support/passes.hpp themselves, so that nvcc compiles
// them.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "layer_support/passes.hpp"
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
  CREMA_FUNCTOR DeformedRow row(int64_t number) const {
    return DeformedRow::of(shape(), chunk, number);
  }
  /// The first channel of maps that pixel `at` of the image of a row has.
  CREMA_FUNCTOR int64_t pixel(const DeformedRow& row, int64_t at) const {
    return (row.in_chunk * shape().pixels() + at) * shape().channels;
  }
  CREMA_FUNCTOR DeformedPoint point(const DeformedRow& row, int64_t group, int64_t tap) const {
    return taps.point(row, group, tap, taps.tap_y(tap), taps.tap_x(tap));
  }
  CREMA_FUNCTOR int64_t column(int64_t row, int64_t tap, int64_t c) const {
    return chunk.column(shape(), row, tap, c);
  }
  /// For each offset group at position i, tap i % taps of row i / taps: body(row's number, row,
  /// tap, group, point, its first channel).
  template <class Body>
  CREMA_FUNCTOR void each_group(int64_t i, const Body& body) const {
    const int64_t number = i / shape().taps(), tap = i % shape().taps();
    const DeformedRow there = row(number);
    for (int64_t group = 0; group < shape().offset_groups; ++group)
      body(number, there, tap, group, point(there, group, tap), group * shape().offset_channels());
  }
};

/// Channels that are neighbours in maps and in columns, and have one set of offsets.
struct DeformedRun {
  int64_t c, count;
  int64_t offset_group;
  int64_t column;  // of c at tap 0 of row 0
};

/// What the loops of the host find once for many points: the runs of channels [c_begin, c_end), and
/// the places of the taps.
template <class T>
class DeformedLoop {
 public:
  DeformedLoop(const DeformedPass<T>& pass, int64_t c_begin, int64_t c_end) : pass_(pass) {
    const int64_t each = pass.shape().group_channels(), offsets = pass.shape().offset_channels();
    for (int64_t c = c_begin; c < c_end;) {
      const int64_t end = std::min({c_end, (c / each + 1) * each, (c / offsets + 1) * offsets});
      runs_.push_back({c, end - c, c / offsets, pass.column(0, 0, c)});
      c = end;
    }
    for (int64_t tap = 0; tap < pass.shape().taps(); ++tap) {
      y_.push_back(pass.taps.tap_y(tap));
      x_.push_back(pass.taps.tap_x(tap));
    }
  }

  /// For each offset group of the channels: body(group, point, runs of the group, where the columns
  /// of the tap begin behind those of tap 0 of row 0).
  template <class Body>
  void each_point(int64_t number, const DeformedRow& row, int64_t tap, const Body& body) const {
    const int64_t behind = (number * pass_.shape().taps() + tap) * pass_.shape().group_channels();
    for (size_t first = 0; first < runs_.size();) {
      const int64_t group = runs_[first].offset_group;
      size_t last = first + 1;
      while (last < runs_.size() && runs_[last].offset_group == group) ++last;
      const auto t = static_cast<size_t>(tap);
      body(group, pass_.taps.point(row, group, tap, y_[t], x_[t]),
           std::span(runs_).subspan(first, last - first), behind);
      first = last;
    }
  }
  /// each_point() for positions [begin, end): tap i % taps of row i / taps. Calls body(row, tap,
  /// ...).
  template <class Body>
  void each_position(int64_t begin, int64_t end, const Body& body) const {
    const int64_t taps = pass_.shape().taps();
    int64_t number = begin / taps, tap = begin % taps;
    DeformedRow row = pass_.row(number);
    for (int64_t i = begin; i < end; ++i) {
      each_point(number, row, tap, [&](const auto&... rest) { body(row, tap, rest...); });
      if (++tap < taps) continue;
      tap = 0;
      if (i + 1 < end) row = pass_.row(++number);
    }
  }

 private:
  const DeformedPass<T>& pass_;
  std::vector<DeformedRun> runs_;
  std::vector<double> y_, x_;  // of the taps
};

/// The corners of a point that weigh something, for kernels: their pixels from a channel on.
template <class T, class Value>
struct WeighedCorners {
  int count = 0;
  Value* at[4];
  T weight[4];

  WeighedCorners(const DeformedPass<T>& pass, const DeformedRow& row, const DeformedPoint& point,
                 double factor, int64_t channel, Value* maps) {
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
    const DeformedLoop<T> loop(pass, 0, pass.shape().channels);
    loop.each_position(
        begin, end,
        [this](const DeformedRow& row, int64_t tap, int64_t group, const DeformedPoint& point,
               std::span<const DeformedRun> runs, int64_t behind) {
          WeighedCorners<T, const T> corners(pass, row, point, pass.taps.factor(row, group, tap),
                                             runs[0].c, maps);
          for (const DeformedRun& run : runs) {
            pass.kernels->sample(corners.count, corners.at, corners.weight, run.count,
                                 columns + run.column + behind);
            corners.move(run.count);
          }
        });
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t each = pass.shape().offset_channels();
    pass.each_group(i, [&](int64_t number, const DeformedRow& row, int64_t tap, int64_t group,
                           const DeformedPoint& point, int64_t first) {
      const double factor = pass.taps.factor(row, group, tap);
      for (int64_t c = first + lanes.first; c < first + each; c += lanes.count) {
        T sum{0};
        for (int k = 0; k < 4; ++k) {
          const auto w = static_cast<T>(factor * point.weight(k));
          if (w != T{0}) sum += w * maps[pass.pixel(row, point.at[k]) + c];
        }
        columns[pass.column(number, tap, c)] = sum;
      }
    });
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
    const DeformedLoop<T> loop(pass, 0, pass.shape().channels);
    loop.each_position(
        begin, end,
        [this](const DeformedRow& row, int64_t tap, int64_t group, const DeformedPoint& point,
               std::span<const DeformedRun> runs, int64_t behind) {
          const T* at[4];
          int corner[4], count = 0;
          for (int k = 0; k < 4; ++k) {
            if (!point.there[k]) continue;
            corner[count] = k;
            at[count++] = maps + pass.pixel(row, point.at[k]) + runs[0].c;
          }
          double products[4] = {0, 0, 0, 0};
          for (const DeformedRun& run : runs) {
            pass.kernels->dots(count, at, run.count, columns + run.column + behind, products);
            for (int k = 0; k < count; ++k) at[k] += run.count;
          }
          double sums[4] = {0, 0, 0, 0};
          for (int k = 0; k < count; ++k) sums[corner[k]] = products[k];
          write(row, group, tap, point, sums);
        });
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t each = pass.shape().offset_channels();
    pass.each_group(i, [&](int64_t number, const DeformedRow& row, int64_t tap, int64_t group,
                           const DeformedPoint& point, int64_t first) {
      double sums[4] = {0, 0, 0, 0};
      for (int64_t c = first + lanes.first; c < first + each; c += lanes.count) {
        const auto gradient = static_cast<double>(columns[pass.column(number, tap, c)]);
        for (int k = 0; k < 4; ++k) {
          if (point.there[k])
            sums[k] += gradient * static_cast<double>(maps[pass.pixel(row, point.at[k]) + c]);
        }
      }
      for (int k = 0; k < 4; ++k) sums[k] = lanes.sum(sums[k]);
      if (lanes.first == 0) write(row, group, tap, point, sums);
    });
  }
  /// `sums`: of each corner, over the channels of the group, the products of values and gradients.
  CREMA_FUNCTOR void write(const DeformedRow& row, int64_t group, int64_t tap,
                           const DeformedPoint& point, const double* sums) const {
    const int64_t positions = pass.shape().positions();
    const int64_t index = pass.taps.tap_index(row.image, group, tap);
    double value = 0, down = 0, right = 0;
    for (int k = 0; k < 4; ++k) {
      if (!point.there[k]) continue;
      value += point.weight(k) * sums[k];
      down += point.slope_y(k) * sums[k];
      right += point.slope_x(k) * sums[k];
    }
    if (mask != nullptr) mask[index * positions + row.position] = static_cast<T>(value);
    if (offsets == nullptr) return;
    const double factor = pass.taps.factor(row, group, tap);
    offsets[2 * index * positions + row.position] = static_cast<T>(factor * down);
    offsets[(2 * index + 1) * positions + row.position] = static_cast<T>(factor * right);
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
    const int64_t taps = pass.shape().taps();
    while (begin < end) {
      const int64_t first = begin % units(), last = std::min(units(), first + end - begin);
      const int64_t part = begin / units() / pass.chunk.images;
      const int64_t image = begin / units() % pass.chunk.images;
      T* const to = maps_of(part);
      const DeformedLoop<T> loop(pass, first * unit, std::min(last * unit, pass.shape().channels));
      loop.each_position(
          first_row(part, image) * taps, first_row(part + 1, image) * taps,
          [this, to](const DeformedRow& row, int64_t tap, int64_t group, const DeformedPoint& point,
                     std::span<const DeformedRun> runs, int64_t behind) {
            WeighedCorners<T, T> corners(pass, row, point, pass.taps.factor(row, group, tap),
                                         runs[0].c, to);
            for (const DeformedRun& run : runs) {
              pass.kernels->spread(corners.count, corners.at, corners.weight, run.count,
                                   columns + run.column + behind);
              corners.move(run.count);
            }
          });
      begin += last - first;
    }
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t part = i / units() / pass.chunk.images, image = i / units() % pass.chunk.images;
    const int64_t c_begin = i % units() * unit;
    const int64_t c_end =
        c_begin + unit < pass.shape().channels ? c_begin + unit : pass.shape().channels;
    T* const to = maps_of(part);
    for (int64_t number = first_row(part, image); number < first_row(part + 1, image); ++number) {
      const DeformedRow row = pass.row(number);
      for (int64_t tap = 0; tap < pass.shape().taps(); ++tap) {
        for (int64_t c = c_begin; c < c_end; ++c) {
          const int64_t group = c / pass.shape().offset_channels();
          const DeformedPoint point = pass.point(row, group, tap);
          const double factor = pass.taps.factor(row, group, tap);
          const T value = columns[pass.column(number, tap, c)];
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

template <class T>
struct AddValues {
  const T* added;
  T* sum;
  CREMA_FUNCTOR void operator()(int64_t i) const { sum[i] += added[i]; }
};

}  // namespace crema
