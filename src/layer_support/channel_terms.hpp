// What sums of channels add up, and what maps over channels compute, of one element: for the blocks
// of threads of channel_blocks.hpp.
#pragma once

#include <type_traits>

#include "backend/channel_view.hpp"
#include "layer_support/channel_vectors.hpp"

namespace crema::channels {

/// Of each channel, or null: 0, for `gain` 1. The kernels of sums and maps read what they need.
template <class T>
struct Coefficients {
  T *centre = nullptr, *gain = nullptr, *shift = nullptr;  // y = (x - centre) * gain + shift
  T *slope = nullptr, *offset = nullptr;  // dx = d * gain - (x - centre) * slope - offset

  Coefficients<const T> read() const { return {centre, gain, shift, slope, offset}; }
};

/// Gradients of parameters, one a channel, that sums are added to; null: not wanted.
template <class T>
struct AddSums {
  T* of_first = nullptr;
  T* of_second = nullptr;
  bool first_overwrites = false, second_overwrites = false;  // what was there is not read

  CREMA_FUNCTOR explicit operator bool() const { return of_first || of_second; }
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    if (of_first) add(sums.first, first_overwrites, of_first[c]);
    if (of_second) add(sums.second, second_overwrites, of_second[c]);
  }

 private:
  CREMA_FUNCTOR static void add(double sum, bool overwrites, T& to) {
    to = static_cast<T>(overwrites ? sum : static_cast<double>(to) + sum);
  }
};

// Of passes: kOperands, of which kAtOnce vectors each are read before any is used, and kResident,
// the blocks that the registers of a multiprocessor are to be enough for. Grids are as large.

/// The values of neighbouring channels from i on, of which `some` are there.
template <int kCount, class T>
CREMA_FUNCTOR void load_coefficients(const T* from, int64_t i, int some, T absent,
                                     T (&to)[kCount]) {
  if (from != nullptr && some == kCount && kCount % kVector<T> == 0 && is_aligned(from + i)) {
    if constexpr (kCount % kVector<T> == 0) {
      for (int v = 0; v < kCount; v += kVector<T>) {
        T part[kVector<T>];
        unpack<T>(load_words(from + i + v), part);
        for (int k = 0; k < kVector<T>; ++k) to[v + k] = part[k];
      }
    }
    return;
  }
  for (int k = 0; k < kCount; ++k) to[k] = from != nullptr && k < some ? from[i + k] : absent;
}

/// The coefficients of neighbouring channels that a thread works on, as y has them.
template <class W, int kCount>
struct OfAffine {
  W centre[kCount], gain[kCount], shift[kCount];

  CREMA_FUNCTOR OfAffine(const Coefficients<const W>& from, int64_t i, int some) {
    load_coefficients(from.centre, i, some, W{0}, centre);
    load_coefficients(from.gain, i, some, W{1}, gain);
    load_coefficients(from.shift, i, some, W{0}, shift);
  }
};
/// As dx has them too.
template <class W, int kCount>
struct OfGradient : OfAffine<W, kCount> {
  W slope[kCount], offset[kCount];

  CREMA_FUNCTOR OfGradient(const Coefficients<const W>& from, int64_t i, int some)
      : OfAffine<W, kCount>(from, i, some) {
    load_coefficients(from.slope, i, some, W{0}, slope);
    load_coefficients(from.offset, i, some, W{0}, offset);
  }
};

/// What of the incoming gradient counts: all, or where a ReLU let something through, whose sign is
/// computed again from x or is that of y; or where x is not positive, which a negative slope
/// scales.
enum class Mask : uint8_t { all, again, output, negative };

template <class W>
CREMA_FUNCTOR W masked(Mask mask, W dy, W x, W y, W centre, W gain, W shift) {
  if (mask == Mask::all) return dy;
  if (mask == Mask::negative) return x > W{0} ? W{0} : dy;
  const W sign = mask == Mask::output ? y : multiply_add(x - centre, gain, shift);
  return sign > W{0} ? dy : W{0};
}

// Terms: two sums of each channel, of operands `from`, each of which may be null: zeros. `Of` holds
// what a thread knows of kCount channels, and `Row` what it knows of a row of memory; add() is for
// channel k of the former. Where `kHasOrigin`, total() takes the origin of the channel in the place
// of what the thread took its differences from.

/// Terms that are of channels alone.
struct NoRow {
  CREMA_FUNCTOR NoRow row(int64_t /*row*/) const { return {}; }
};

/// Sums of x - s and of its square, s being any value of the channel that lies near the thread's.
template <class S>
struct MomentTerm : NoRow {
  using Stored = S;
  using W = Wide<S>;
  static constexpr int kOperands = 1, kAtOnce = 4, kResident = 4;
  static constexpr bool kHasOrigin = true, kByRow = false;
  const S* from[1];

  template <int kCount>
  struct Of {
    W base[kCount];
  };
  template <int kCount>
  CREMA_FUNCTOR Of<kCount> of(int64_t /*i*/, int some, int64_t place, bool aligned) const {
    Of<kCount> of;
    if constexpr (kCount == kVector<S>) {
      if (aligned) {
        unpack<S>(load_words(from[0] + place), of.base);
        return of;
      }
    }
    for (int k = 0; k < kCount; ++k) {
      of.base[k] = k < some ? wide_value(from[0][place + k]) : W{0};
    }
    return of;
  }
  template <int kCount>
  CREMA_FUNCTOR void add(const W (&in)[1], const Of<kCount>& of, NoRow, int k, W& first,
                         W& second) const {
    const W difference = in[0] - of.base[k];
    first += difference;
    second = multiply_add(difference, difference, second);
  }
  template <int kCount>
  CREMA_FUNCTOR SumPair total(const Of<kCount>& of, int k, int64_t origin, double count,
                              double first, double second) const {
    const double gap =
        static_cast<double>(of.base[k]) - static_cast<double>(wide_value(from[0][origin]));
    return {first + count * gap, second + gap * (2 * first + count * gap)};
  }
};

/// Sums of d and of d * (x - centre), d being what counts of dy. Operands: dy, x, y.
template <class S>
struct GradientTerm : NoRow {
  using Stored = S;
  using W = Wide<S>;
  static constexpr int kOperands = 3, kAtOnce = 2;
  /// Of f16, 80 registers do not hold what three blocks a multiprocessor leave to each thread.
  static constexpr int kResident = std::is_same_v<S, float16> ? 2 : 3;
  static constexpr bool kHasOrigin = false, kByRow = false;
  const S* from[3];
  Coefficients<const W> coefficients;
  Mask mask;

  template <int kCount>
  using Of = OfAffine<W, kCount>;
  template <int kCount>
  CREMA_FUNCTOR Of<kCount> of(int64_t i, int some, int64_t /*place*/, bool /*aligned*/) const {
    return {coefficients, i, some};
  }
  template <int kCount>
  CREMA_FUNCTOR void add(const W (&in)[3], const Of<kCount>& of, NoRow, int k, W& first,
                         W& second) const {
    const W d = masked(mask, in[0], in[1], in[2], of.centre[k], of.gain[k], of.shift[k]);
    first += d;
    second = multiply_add(d, in[1] - of.centre[k], second);
  }
};

/// Sums of dy and of dy * z, where z = (x - centre) * gain + shift with coefficients of each row of
/// memory. Operands: dy, x.
template <class S>
struct ColumnTerm {
  using Stored = S;
  using W = Wide<S>;
  static constexpr int kOperands = 2, kAtOnce = 2, kResident = 3;
  static constexpr bool kHasOrigin = false, kByRow = true;
  const S* from[2];
  Coefficients<const W> rows;

  struct Row {
    W centre, gain, shift;
  };
  CREMA_FUNCTOR Row row(int64_t row) const {
    return {rows.centre != nullptr ? rows.centre[row] : W{0},
            rows.gain != nullptr ? rows.gain[row] : W{1},
            rows.shift != nullptr ? rows.shift[row] : W{0}};
  }
  template <int kCount>
  struct Of {};
  template <int kCount>
  CREMA_FUNCTOR Of<kCount> of(int64_t, int, int64_t, bool) const {
    return {};
  }
  template <int kCount>
  CREMA_FUNCTOR void add(const W (&in)[2], const Of<kCount>&, const Row& row, int, W& first,
                         W& second) const {
    first += in[0];
    second = multiply_add(in[0], multiply_add(in[1] - row.centre, row.gain, row.shift), second);
  }
};

// Maps: outputs `to` of operands `from`. An output may be null, or the memory of an operand.

/// y = (x - centre) * gain + shift + add, less than 0 only without `relu`. Operands: x, add.
template <class S>
struct AffineMap {
  using Stored = S;
  using W = Wide<S>;
  static constexpr int kOperands = 2, kOutputs = 1, kAtOnce = 4, kResident = 3;
  const S* from[2];
  S* to[1];
  Coefficients<const W> coefficients;
  bool relu;

  template <int kCount>
  using Of = OfAffine<W, kCount>;
  template <int kCount>
  CREMA_FUNCTOR Of<kCount> of(int64_t i, int some) const {
    return {coefficients, i, some};
  }
  template <int kCount>
  CREMA_FUNCTOR void apply(const W (&in)[2], const Of<kCount>& of, int k, W (&out)[1]) const {
    const W z = multiply_add(in[0] - of.centre[k], of.gain[k], of.shift[k]) + in[1];
    out[0] = relu && z < W{0} ? W{0} : z;
  }
};

/// dx = d * gain - (x - centre) * slope - offset, and d, the gradient of what was added. Operands:
/// dy, x, y.
template <class S>
struct GradientMap {
  using Stored = S;
  using W = Wide<S>;
  static constexpr int kOperands = 3, kOutputs = 2, kAtOnce = 2, kResident = 2;
  const S* from[3];
  S* to[2];
  Coefficients<const W> coefficients;
  Mask mask;

  template <int kCount>
  using Of = OfGradient<W, kCount>;
  template <int kCount>
  CREMA_FUNCTOR Of<kCount> of(int64_t i, int some) const {
    return {coefficients, i, some};
  }
  template <int kCount>
  CREMA_FUNCTOR void apply(const W (&in)[3], const Of<kCount>& of, int k, W (&out)[2]) const {
    const W d = masked(mask, in[0], in[1], in[2], of.centre[k], of.gain[k], of.shift[k]);
    const W by_x = multiply_add(in[1] - of.centre[k], of.slope[k], of.offset[k]);
    out[0] = multiply_add(d, of.gain[k], -by_x);
    out[1] = d;
  }
};

}  // namespace crema::channels
