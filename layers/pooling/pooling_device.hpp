// Pooling as devices run it: bodies for a pack of channels at one output or one input.
//
// In channels_last memory a pack is eight channels side by side, and neighbouring threads take
// neighbouring channels; in contiguous memory it is one value of one channel, and neighbouring
// threads take neighbouring places. The choice of a maximum is the cell of its window, a byte where
// the window is small enough. Backward gathers, so that the order of its sums is fixed.
#pragma once

#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "layers/pooling/pooling_math.hpp"

namespace crema {

/// PoolingAxis in 32 bits, for places of one channel.
struct DevicePoolingAxis {
  int size = 1, out = 1, kernel = 1, stride = 1, pad = 0;
  FastDivision by_size, by_out, by_stride;

  DevicePoolingAxis(const PoolingAxis& axis, int64_t most)
      : size(static_cast<int>(axis.size)),
        out(static_cast<int>(axis.out)),
        kernel(static_cast<int>(axis.kernel)),
        stride(static_cast<int>(axis.stride)),
        pad(static_cast<int>(axis.pad)),
        by_size(axis.size, most),
        by_out(axis.out, most),
        by_stride(axis.stride, most) {}

  CREMA_FUNCTOR int start(int o) const { return o * stride - pad; }
  CREMA_FUNCTOR int begin(int o) const { return start(o) < 0 ? 0 : start(o); }
  CREMA_FUNCTOR int end(int o) const {
    const int end = start(o) + kernel;
    return end < size ? end : size;
  }
  CREMA_FUNCTOR int padded_extent(int o) const {
    const int from = start(o), end = from + kernel;
    return (end < size + pad ? end : size + pad) - from;
  }
  CREMA_FUNCTOR int first_cover(int i) const {
    const int reach = i + pad - kernel + 1;
    return reach <= 0 ? 0 : static_cast<int>((reach + stride - 1) / by_stride);
  }
  CREMA_FUNCTOR int last_cover(int i) const {
    if (out == 1) return 1;  // as below, without a division: whole maps
    const int last = static_cast<int>((i + pad) / by_stride) + 1;
    return last < out ? last : out;
  }
};

/// The cells that maxima came from, in the order of the outputs' memory: as bytes, or as words.
/// Without either none are kept.
template <class Byte, class Word>
struct PoolingCellsOf {
  /// Windows of up to so many cells have bytes.
  static constexpr int64_t kMostOfBytes = 254;
  static constexpr int kNoByte = 255, kNoWord = -1;

  Byte* bytes = nullptr;
  Word* words = nullptr;

  CREMA_FUNCTOR explicit operator bool() const { return bytes || words; }

  /// Those of `lanes` outputs from `o` on. `vector`: all N of them, `o` a multiple of N.
  template <int N>
  CREMA_FUNCTOR void read(int64_t o, int lanes, bool vector, int* chosen) const {
    if (vector && bytes) {
      const auto all = *reinterpret_cast<const Vector<N>*>(bytes + o);
      for (int k = 0; k < N; ++k) chosen[k] = all.of[k];
      return;
    }
    for (int k = 0; k < N; ++k) {
      if (k < lanes) chosen[k] = bytes ? int{bytes[o + k]} : words[o + k];
    }
  }
  template <int N>
  CREMA_FUNCTOR void write(const int* chosen, int64_t o, int lanes, bool vector) const {
    if (vector && bytes) {
      Vector<N> all;
      for (int k = 0; k < N; ++k) all.of[k] = static_cast<uint8_t>(chosen[k]);
      *reinterpret_cast<Vector<N>*>(bytes + o) = all;
      return;
    }
    for (int k = 0; k < N; ++k) {
      if (k >= lanes) continue;
      if (bytes) {
        bytes[o + k] = static_cast<uint8_t>(chosen[k]);
      } else {
        words[o + k] = chosen[k];
      }
    }
  }

 private:
  template <int N>
  struct alignas(N) Vector {
    uint8_t of[N];
  };
};
using PoolingCells = PoolingCellsOf<uint8_t, int32_t>;
using KeptPoolingCells = PoolingCellsOf<const uint8_t, const int32_t>;

/// Where the packs of a tensor lie: (images, places, channels) in channels_last memory; in
/// contiguous memory each channel is an image of one channel.
struct DevicePooling {
  DevicePoolingAxis z, y, x;
  int64_t channels;
  bool counts_padding, vectors;
  FastDivision packs;  // of a place

  /// `lanes` channels a pack. `aligned`: packs of all operands may go in vectors.
  DevicePooling(const PoolingWindows& windows, int64_t values, int64_t channels_side_by_side,
                int lanes, bool aligned)
      : z(windows.z, values),
        y(windows.y, values),
        x(windows.x, values),
        channels(channels_side_by_side),
        counts_padding(windows.counts_padding),
        vectors(aligned && channels % lanes == 0),
        packs((channels + lanes - 1) / lanes, values) {}

  /// The place of pack `number` in a map of z, y and x, and the channels of the pack.
  struct Place {
    int64_t image;
    int z, y, x;
    int64_t channel;
    int lanes;
  };
  template <int N>
  CREMA_FUNCTOR Place place(int64_t number, const FastDivision& of_x, const FastDivision& of_y,
                            const FastDivision& of_z) const {
    const auto by_pack = packs.divide(number);
    const auto by_x = of_x.divide(by_pack.quotient);
    const auto by_y = of_y.divide(by_x.quotient);
    const auto by_z = of_z.divide(by_y.quotient);
    const int64_t channel = by_pack.remainder * N, left = channels - channel;
    return {by_z.quotient,
            static_cast<int>(by_z.remainder),
            static_cast<int>(by_y.remainder),
            static_cast<int>(by_x.remainder),
            channel,
            left < N ? static_cast<int>(left) : N};
  }
  template <int N>
  CREMA_FUNCTOR Place output(int64_t number) const {
    return place<N>(number, x.by_out, y.by_out, z.by_out);
  }
  template <int N>
  CREMA_FUNCTOR Place input(int64_t number) const {
    return place<N>(number, x.by_size, y.by_size, z.by_size);
  }
  CREMA_FUNCTOR int64_t output_at(const Place& p, int oz, int oy, int ox) const {
    return (((p.image * z.out + oz) * y.out + oy) * x.out + ox) * channels + p.channel;
  }
  CREMA_FUNCTOR int64_t input_at(const Place& p, int iz, int iy, int ix) const {
    return (((p.image * z.size + iz) * y.size + iy) * x.size + ix) * channels + p.channel;
  }
  /// The number of a cell in the window of an output, padding counted.
  CREMA_FUNCTOR int cell(int oz, int oy, int ox, int iz, int iy, int ix) const {
    return ((iz - z.start(oz)) * y.kernel + iy - y.start(oy)) * x.kernel + ix - x.start(ox);
  }
  CREMA_FUNCTOR int divisor(int oz, int oy, int ox) const {
    if (counts_padding) return z.padded_extent(oz) * y.padded_extent(oy) * x.padded_extent(ox);
    return (z.end(oz) - z.begin(oz)) * (y.end(oy) - y.begin(oy)) * (x.end(ox) - x.begin(ox));
  }
};

/// Body for packs of outputs: maxima or averages.
template <class T, int N>
struct PoolingForwardPack {
  DevicePooling at;
  bool maximum, rectifies;  // a ReLU follows the maximum
  ValuesIn<T> in;
  ValuesOut<T> out;
  PoolingCells cells;
  T* mask;  // places within the channel; may be null

  using Packs = PackAt<T, N>;

  CREMA_FUNCTOR void operator()(int64_t number) const {
    const auto p = at.template output<N>(number);
    const int x_begin = at.x.begin(p.x), x_end = at.x.end(p.x);
    const int y_begin = at.y.begin(p.y), y_end = at.y.end(p.y);
    const int z_begin = at.z.begin(p.z), z_end = at.z.end(p.z);
    const int64_t o = at.output_at(p, p.z, p.y, p.x);
    const bool empty = x_begin >= x_end || y_begin >= y_end || z_begin >= z_end;
    Pack<T, N> result(0);
    int chosen[N] = {};
    bool first = true;
    for (int iz = z_begin; !empty && iz < z_end; ++iz) {
      for (int iy = y_begin; iy < y_end; ++iy) {
        const int64_t row = at.input_at(p, iz, iy, 0);
        int cell = at.cell(p.z, p.y, p.x, iz, iy, x_begin);
        auto next = pack(p, row + x_begin * at.channels).fetch(in);
        for (int ix = x_begin; ix < x_end; ++ix, ++cell) {
          const Packs here = pack(p, row + ix * at.channels);
          const auto raw = next;
          if (ix + 1 < x_end) next = pack(p, row + (ix + 1) * at.channels).fetch(in);
          const Pack<T, N> value = here.value(in, raw);
          for (int k = 0; k < N; ++k) {
            if (!maximum) {
              result.lanes[k] += value.lanes[k];
            } else if (first || value.lanes[k] > result.lanes[k] ||
                       value.lanes[k] != value.lanes[k]) {
              // NaN, which alone differs from itself, wins and stays.
              result.lanes[k] = value.lanes[k];
              chosen[k] = cell;
            }
          }
          first = false;
        }
      }
    }
    if (!maximum && !empty) {
      const T share = T{1} / static_cast<T>(at.divisor(p.z, p.y, p.x));
      for (int k = 0; k < N; ++k) result.lanes[k] *= share;
    }
    if (mask) {
      for (int k = 0; k < N; ++k) {
        if (k < p.lanes) mask[o + k] = empty ? T{-1} : static_cast<T>(place_of(p, chosen[k]));
      }
    }
    const int none = cells.bytes ? PoolingCells::kNoByte : PoolingCells::kNoWord;
    for (int k = 0; k < N; ++k) {
      if (empty || (rectifies && !(result.lanes[k] > T{0}))) chosen[k] = none;
      if (rectifies && result.lanes[k] < T{0}) result.lanes[k] = T{0};
    }
    pack(p, o).store(result, out);
    if (cells) cells.template write<N>(chosen, o, p.lanes, at.vectors);
  }

 private:
  CREMA_FUNCTOR Packs pack(const DevicePooling::Place& p, int64_t first) const {
    return {first, p.lanes, at.vectors};
  }
  /// The place, within the channel, of a cell.
  CREMA_FUNCTOR int place_of(const DevicePooling::Place& p, int cell) const {
    const int row = cell / at.x.kernel, ix = at.x.start(p.x) + cell % at.x.kernel;
    const int iy = at.y.start(p.y) + row % at.y.kernel, iz = at.z.start(p.z) + row / at.y.kernel;
    return (iz * at.y.size + iy) * at.x.size + ix;
  }
};

/// Body for packs of inputs, each of which gathers from the windows that hold it.
template <class T, int N>
struct PoolingBackwardPack {
  DevicePooling at;
  ValuesIn<T> dy;
  KeptPoolingCells cells;  // none: of averages
  ValuesOut<T> dx;

  using Packs = PackAt<T, N>;

  CREMA_FUNCTOR void operator()(int64_t number) const {
    const auto p = at.template input<N>(number);
    Pack<T, N> sum(0);
    const int z_end = at.z.last_cover(p.z), y_end = at.y.last_cover(p.y);
    const int x_end = at.x.last_cover(p.x), x_begin = at.x.first_cover(p.x);
    for (int oz = at.z.first_cover(p.z); oz < z_end; ++oz) {
      for (int oy = at.y.first_cover(p.y); oy < y_end; ++oy) {
        for (int ox = x_begin; ox < x_end; ++ox) {
          const int64_t o = at.output_at(p, oz, oy, ox);
          const Packs here{o, p.lanes, at.vectors};
          const auto raw = here.fetch(dy);
          if (cells) {
            const int cell = at.cell(oz, oy, ox, p.z, p.y, p.x);
            int chosen[N] = {};
            cells.template read<N>(o, p.lanes, at.vectors, chosen);
            const Pack<T, N> value = here.value(dy, raw);
            for (int k = 0; k < N; ++k) {
              if (chosen[k] == cell) sum.lanes[k] += value.lanes[k];
            }
          } else {
            const T share = T{1} / static_cast<T>(at.divisor(oz, oy, ox));
            const Pack<T, N> value = here.value(dy, raw);
            for (int k = 0; k < N; ++k) sum.lanes[k] += share * value.lanes[k];
          }
        }
      }
    }
    Packs{at.input_at(p, p.z, p.y, p.x), p.lanes, at.vectors}.store(sum, dx);
  }
};

/// Body for packs of averages of whole maps, the cells shared by a team.
template <class T, int N>
struct PoolingWholePack {
  DevicePooling at;
  ValuesIn<T> in;
  ValuesOut<T> out;

  template <class Team>
  CREMA_FUNCTOR void operator()(int64_t number, const Team& team) const {
    const auto p = at.template output<N>(number);
    const int cells = at.z.size * at.y.size * at.x.size;
    const int64_t first = p.image * cells * at.channels + p.channel;
    const auto pack = [&](int cell) {
      return PackAt<T, N>{first + cell * at.channels, p.lanes, at.vectors};
    };
    Pack<T, N> sum(0);
    auto next = pack(team.first < cells ? team.first : 0).fetch(in);
    for (int cell = team.first; cell < cells; cell += team.count) {
      const auto raw = next;
      if (cell + team.count < cells) next = pack(cell + team.count).fetch(in);
      sum = sum + pack(cell).value(in, raw);
    }
    const T share = T{1} / static_cast<T>(at.divisor(0, 0, 0));
    for (int k = 0; k < N; ++k) sum.lanes[k] = share * team.sum(sum.lanes[k]);
    if (team.writes) {
      PackAt<T, N>{p.image * at.channels + p.channel, p.lanes, at.vectors}.store(sum, out);
    }
  }
};

}  // namespace crema
