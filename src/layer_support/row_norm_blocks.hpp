// LayerNorm on a device: what the lanes of a block do for a row of contiguous memory. A row that
// fits their registers is read once; of a longer one, vectors are read again.
//
// Numbers: a lane adds up the values of a vector, or of all vectors in its registers, in the type
// that it computes in, and everything else in f64. Deviations are from the mean as rounded, and
// what rounding left out is corrected.
#pragma once

#include "layer_support/channel_blocks.hpp"
#include "layer_support/row_norm.hpp"

namespace crema::row_norm {

/// Vectors of a row that a lane keeps.
inline constexpr int kHeldVectors = 8;

/// The vectors of a row of some operands that a lane has, in registers.
template <class S, int kOperands>
struct HeldRow {
  static constexpr int kSize = kVector<S>;
  static constexpr bool kHeld = true;
  VectorWords words[kHeldVectors][kOperands];
  int64_t first, step, size;

  template <class Lanes>
  CREMA_FUNCTOR HeldRow(const S* const (&from)[kOperands], int64_t size_, const Lanes& lanes)
      : first(lanes.first * kSize), step(lanes.count * kSize), size(size_) {
    for (int v = 0; v < kHeldVectors; ++v) {
      const int64_t j = first + v * step;
      if (j >= size) continue;
      for (int o = 0; o < kOperands; ++o) words[v][o] = load_words(from[o] + j);
    }
  }
  /// Calls body(j, values) for the vectors, from element j of the row on.
  template <class Body>
  CREMA_FUNCTOR void each(const Body& body) const {
    for (int v = 0; v < kHeldVectors; ++v) {
      const int64_t j = first + v * step;
      if (j >= size) continue;
      Wide<S> values[kOperands][kSize];
      for (int o = 0; o < kOperands; ++o) unpack<S>(words[v][o], values[o]);
      body(j, values);
    }
  }
};

/// The same, read again by each pass; by elements where vectors are not aligned.
template <class S, int kOperands>
struct ReadRow {
  static constexpr int kSize = kVector<S>;
  static constexpr bool kHeld = false;
  const S* from[kOperands];
  int64_t first, count, size;
  bool aligned;

  template <class Body>
  CREMA_FUNCTOR void each(const Body& body) const {
    if (!aligned) {
      for (int64_t j = first; j < size; j += count) {
        Wide<S> values[kOperands][1];
        for (int o = 0; o < kOperands; ++o) values[o][0] = wide_value(from[o][j]);
        body(j, values);
      }
      return;
    }
    for (int64_t j = first * kSize; j < size; j += count * kSize) {
      Wide<S> values[kOperands][kSize];
      for (int o = 0; o < kOperands; ++o) unpack<S>(load_words(from[o] + j), values[o]);
      body(j, values);
    }
  }
};

/// The sum of what a lane has of a row, of type `Row`.
template <class Row, class W>
struct LaneSum {
  std::conditional_t<Row::kHeld, W, double> sum = 0;
  CREMA_FUNCTOR void operator+=(W value) { sum += value; }
  CREMA_FUNCTOR double value() const { return static_cast<double>(sum); }
};

template <class S, int kSize>
CREMA_FUNCTOR void store_row(const Wide<S> (&values)[kSize], S* to) {
  if constexpr (kSize == kVector<S>) {
    store_words(pack<S>(values), to);
  } else {
    to[0] = stored_value<S>(values[0]);
  }
}

/// y = (x - mean) / sqrt(variance + eps) * scale + bias. The scale and the bias may be null: 1, 0.
template <class S>
struct RowForward {
  using W = Wide<S>;
  int64_t size;
  double eps;
  bool aligned;  // all operands and rows begin at multiples of a vector
  const S* x;
  const W *scale, *bias;
  Statistics statistics;
  channels::Coefficients<W> to;  // of each row: normal = (x - centre) * gain + shift
  S* y;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes) const {
    const S* const from[1] = {x + row * size};
    if (aligned && size <= lanes.count * kHeldVectors * kVector<S>) {
      run(row, HeldRow<S, 1>(from, size, lanes), lanes);
    } else {
      run(row, ReadRow<S, 1>{{from[0]}, lanes.first, lanes.count, size, aligned}, lanes);
    }
  }

 private:
  template <class Row, class Lanes>
  CREMA_FUNCTOR void run(int64_t row, const Row& values, const Lanes& lanes) const {
    const auto count = static_cast<double>(size);
    LaneSum<Row, W> all, sum, squares;
    values.each([&]<int kSize>(int64_t, const W(&in)[1][kSize]) {
      W some{0};
      for (int k = 0; k < kSize; ++k) some += in[0][k];
      all += some;
    });
    const W centre = static_cast<W>(lanes.sum(all.value()) / count);
    values.each([&]<int kSize>(int64_t, const W(&in)[1][kSize]) {
      W some{0}, square{0};
      for (int k = 0; k < kSize; ++k) {
        const W deviation = in[0][k] - centre;
        some += deviation;
        square = multiply_add(deviation, deviation, square);
      }
      sum += some;
      squares += square;
    });
    const double error = lanes.sum(sum.value()) / count;
    const double square = lanes.sum(squares.value()) / count;
    const double mean = static_cast<double>(centre) + error;
    const double variance = square - error * error;
    const double inverse = 1 / std::sqrt((variance < 0 ? 0 : variance) + eps);  // NaN stays
    if (lanes.first == 0) {
      statistics.mean[row] = mean;
      statistics.inverse_deviation[row] = inverse;
    }
    const W gain = static_cast<W>(inverse), shift = static_cast<W>(-error * inverse);
    if (lanes.first == 0) {
      to.centre[row] = centre;
      to.gain[row] = gain;
      to.shift[row] = shift;
    }
    values.each([&]<int kSize>(int64_t j, const W(&in)[1][kSize]) {
      W scales[kSize], biases[kSize], out[kSize];
      channels::load_coefficients(scale, j, kSize, W{1}, scales);
      channels::load_coefficients(bias, j, kSize, W{0}, biases);
      for (int k = 0; k < kSize; ++k) {
        const W normal = multiply_add(in[0][k] - centre, gain, shift);
        out[k] = multiply_add(normal, scales[k], biases[k]);
      }
      store_row<S>(out, y + row * size + j);
    });
  }
};

/// dx, which may be dy.
template <class S>
struct RowBackward {
  using W = Wide<S>;
  int64_t size;
  bool aligned;
  const S *x, *dy;
  const W* scale;
  Statistics statistics;
  S* dx;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes) const {
    const S* const from[2] = {x + row * size, dy + row * size};
    if (aligned && size <= lanes.count * kHeldVectors * kVector<S>) {
      run(row, HeldRow<S, 2>(from, size, lanes), lanes);
    } else {
      run(row, ReadRow<S, 2>{{from[0], from[1]}, lanes.first, lanes.count, size, aligned}, lanes);
    }
  }

 private:
  template <class Row, class Lanes>
  CREMA_FUNCTOR void run(int64_t row, const Row& values, const Lanes& lanes) const {
    const auto count = static_cast<double>(size);
    const double mean = statistics.mean[row], inverse = statistics.inverse_deviation[row];
    const W centre = static_cast<W>(mean), gain = static_cast<W>(inverse);
    const double rest = static_cast<double>(centre) - mean;
    LaneSum<Row, W> sums, products;
    values.each([&]<int kSize>(int64_t j, const W(&in)[2][kSize]) {
      W scales[kSize], some{0}, product{0};
      channels::load_coefficients(scale, j, kSize, W{1}, scales);
      for (int k = 0; k < kSize; ++k) {
        const W d = in[1][k] * scales[k];
        some += d;
        product = multiply_add(d, in[0][k] - centre, product);
      }
      sums += some;
      products += product;
    });
    const double sum = lanes.sum(sums.value());
    const double product = lanes.sum(products.value()) + rest * sum;
    const double by_x = inverse * inverse * inverse * product / count;
    const W slope = static_cast<W>(by_x);
    const W offset = static_cast<W>(inverse * sum / count + by_x * rest);
    values.each([&]<int kSize>(int64_t j, const W(&in)[2][kSize]) {
      W scales[kSize], out[kSize];
      channels::load_coefficients(scale, j, kSize, W{1}, scales);
      for (int k = 0; k < kSize; ++k) {
        const W rising = gain * scales[k] * in[1][k];
        out[k] = rising - multiply_add(in[0][k] - centre, slope, offset);
      }
      store_row<S>(out, dx + row * size + j);
    });
  }
};

}  // namespace crema::row_norm
