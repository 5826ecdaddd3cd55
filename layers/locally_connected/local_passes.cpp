#include "layers/locally_connected/local_passes.hpp"

#include <algorithm>

#include "layer_support/pieces.hpp"
#include "layers/locally_connected/local_kernels.hpp"

namespace crema {
namespace {

constexpr int64_t kLanes = 16;  // vectors may reach so far

/// Samples of the next tile.
int64_t tile_samples(int64_t left) {
  int64_t samples = kLocalSamples;
  while (samples > left) samples /= 2;
  return samples;
}

}  // namespace

template <class T>
LocalPasses<T>::LocalPasses(const LocalSizes& sizes, bool trains, int threads)
    : sizes_(sizes), threads_(threads) {
  // Many positions: long pieces of the rows of weights, and few rows at a time, whose memory the
  // processor foresees. Few: what a tile reads of the columns again and again stays in the first
  // cache.
  const int64_t positions = std::max<int64_t>(sizes.positions(), 1);
  const bool many = positions >= 1024;
  tile_ = std::min<int64_t>(many ? 512 : 64, (positions + kLanes - 1) / kLanes * kLanes);
  taps_ = (many ? 4096 : 1024) / tile_;
  row_ = tile_ + kLanes;  // not a power of two: rows of columns must not share a set of the cache
  room_ = std::max(taps_, trains ? sizes.kernel_h * sizes.kernel_w : 0) * kLocalSamples * row_;
  columns_ = Tensor(Shape{threads, room_}, dtype_of<T>());
}

/// Calls body(item, columns of the thread) for the items on the threads.
template <class T>
template <class Body>
void LocalPasses<T>::each(int64_t items, const Body& body) {
  T* const columns = columns_.template overwrite<T>();
  for_pieces(items, threads_, [&](int64_t piece, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i, columns + piece * room_);
  });
}

/// Calls body(first position, count, first output, behind the last one, columns) for parts of the
/// top, one a thread at a time.
template <class T>
template <class Body>
void LocalPasses<T>::each_tile(const Body& body) {
  const int64_t blocks = (sizes_.positions() + tile_ - 1) / tile_;
  const int64_t pairs = (sizes_.outputs + kLocalOutputs - 1) / kLocalOutputs;
  // Parts of the outputs need the same columns: only where there are few positions.
  const int64_t parts = std::min<int64_t>(blocks >= 4 * threads_ ? 1 : threads_, pairs);
  each(blocks * parts, [&](int64_t item, T* columns) {
    const int64_t first = item / parts * tile_, part = item % parts;
    const auto output = [&](int64_t i) {
      return std::min(sizes_.outputs, pairs * i / parts * kLocalOutputs);
    };
    body(first, std::min(tile_, sizes_.positions() - first), output(part), output(part + 1),
         columns);
  });
}

template <class T>
template <class Run>
void LocalPasses<T>::each_run(int64_t tap, int64_t first, int64_t count, const Run& run) const {
  const int64_t i = tap / sizes_.kernel_w % sizes_.kernel_h, j = tap % sizes_.kernel_w;
  const int64_t shift = j - sizes_.pad_w, stride = sizes_.stride_w;
  const int64_t begin = std::clamp<int64_t>((-shift + stride - 1) / stride, 0, sizes_.out_width);
  const int64_t end = sizes_.width > shift ? (sizes_.width - shift + stride - 1) / stride : 0;
  for (int64_t p = first; p < first + count;) {
    const int64_t row = p / sizes_.out_width, column = p % sizes_.out_width;
    const int64_t last = std::min(sizes_.out_width, column + first + count - p);
    const int64_t y = row * sizes_.stride_h + i - sizes_.pad_h;
    const int64_t from = std::max(column, begin), to = std::min(last, end);
    if (y >= 0 && y < sizes_.height && from < to)
      run(p - first + from - column, y * sizes_.width + from * stride + shift, to - from);
    p += last - column;
  }
}

template <class T>
void LocalPasses<T>::unfold(const T* x, int64_t first_sample, int64_t samples, int64_t first_tap,
                            int64_t taps, int64_t first, int64_t count, T* columns) const {
  const int64_t each = sizes_.kernel_h * sizes_.kernel_w, plane = sizes_.height * sizes_.width;
  std::fill_n(columns, taps * samples * row_, T{0});
  for (int64_t tap = first_tap; tap < first_tap + taps; ++tap, columns += samples * row_) {
    const T* const channel = x + (first_sample * sizes_.channels + tap / each) * plane;
    each_run(tap % each, first, count, [&](int64_t to, int64_t from, int64_t n) {
      for (int64_t s = 0; s < samples; ++s) {
        const T* const source = channel + s * sizes_.channels * plane + from;
        T* const target = columns + s * row_ + to;
        if (sizes_.stride_w == 1) {
          std::copy_n(source, n, target);
        } else {
          for (int64_t i = 0; i < n; ++i) target[i] = source[i * sizes_.stride_w];
        }
      }
    });
  }
}

template <class T>
void LocalPasses<T>::fold(const T* columns, int64_t first_sample, int64_t samples, int64_t channel,
                          int64_t first, int64_t count, T* dx) const {
  const int64_t each = sizes_.kernel_h * sizes_.kernel_w, plane = sizes_.height * sizes_.width;
  T* const image = dx + (first_sample * sizes_.channels + channel) * plane;
  for (int64_t tap = 0; tap < each; ++tap, columns += samples * row_) {
    each_run(tap, first, count, [&](int64_t from, int64_t to, int64_t n) {
      for (int64_t s = 0; s < samples; ++s) {
        const T* const source = columns + s * row_ + from;
        T* const target = image + s * sizes_.channels * plane + to;
        for (int64_t i = 0; i < n; ++i) target[i * sizes_.stride_w] += source[i];
      }
    });
  }
}

template <class T>
template <class Body>
void LocalPasses<T>::each_product(const T* x, T* w, T* y, const Body& body) {
  const int64_t positions = sizes_.positions(), taps = sizes_.taps();
  each_tile([&](int64_t first, int64_t count, int64_t begin, int64_t end, T* columns) {
    for (int64_t n = 0, samples = 0; n < sizes_.batch; n += samples) {
      samples = tile_samples(sizes_.batch - n);
      for (int64_t t = 0; t < taps; t += taps_) {
        const int64_t some = std::min(taps_, taps - t);
        unfold(x, n, samples, t, some, first, count, columns);
        for (int64_t o = begin; o < end; o += kLocalOutputs) {
          const int64_t next = o + kLocalOutputs < end ? kLocalOutputs * taps * positions
                                                       : ((begin - o) * taps + some) * positions;
          body(LocalTile<T>{samples, std::min(kLocalOutputs, end - o), some, count, row_,
                            w + (o * taps + t) * positions + first, taps * positions, positions,
                            next, columns, y + (n * sizes_.outputs + o) * positions + first,
                            sizes_.outputs * positions, positions},
               n == 0);
        }
      }
    }
  });
}

template <class T>
void LocalPasses<T>::forward(const T* x, const T* w, T* y) {
  // The kernel does not change the weights.
  each_product(x, const_cast<T*>(w), y,
               [](const LocalTile<T>& tile, bool) { local_kernels<T>().forward(tile); });
}

template <class T>
void LocalPasses<T>::add_weights(const T* x, const T* dy, bool adds, T* dw) {
  if (sizes_.batch == 0 && !adds)
    std::fill_n(dw, sizes_.outputs * sizes_.taps() * sizes_.positions(), T{0});
  each_product(x, dw, const_cast<T*>(dy), [adds](const LocalTile<T>& tile, bool first) {
    local_kernels<T>().weights(tile, adds || !first);
  });
}

template <class T>
void LocalPasses<T>::find_images(const T* w, const T* dy, T* dx) {
  const int64_t positions = sizes_.positions(), taps = sizes_.taps();
  const int64_t each_taps = sizes_.kernel_h * sizes_.kernel_w;
  const int64_t plane = sizes_.height * sizes_.width;
  // A channel of all samples is one thread's: its windows overlap.
  each(sizes_.channels, [&](int64_t channel, T* columns) {
    for (int64_t n = 0; n < sizes_.batch; ++n) {
      std::fill_n(dx + (n * sizes_.channels + channel) * plane, plane, T{0});
    }
    for (int64_t n = 0, samples = 0; n < sizes_.batch; n += samples) {
      samples = tile_samples(sizes_.batch - n);
      for (int64_t first = 0; first < positions; first += tile_) {
        const int64_t count = std::min(tile_, positions - first);
        for (int64_t o = 0; o < sizes_.outputs; o += kLocalSums) {
          local_kernels<T>().columns(
              {samples, std::min(kLocalSums, sizes_.outputs - o), each_taps, count, row_,
               const_cast<T*>(w) + (o * taps + channel * each_taps) * positions + first,
               taps * positions, positions, 0, columns,
               const_cast<T*>(dy) + (n * sizes_.outputs + o) * positions + first,
               sizes_.outputs * positions, positions},
              o > 0);
        }
        fold(columns, n, samples, channel, first, count, dx);
      }
    }
  });
}

template class LocalPasses<float>;
template class LocalPasses<double>;

}  // namespace crema
