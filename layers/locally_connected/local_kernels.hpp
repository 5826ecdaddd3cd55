// The inner loops of a locally connected layer on the CPU, in f32 and f64 by Highway: positions are
// lanes, and each vector of weights meets all samples of a tile.
#pragma once

#include <cstdint>

namespace crema {

inline constexpr int64_t kLocalSamples = 8;  // of a tile, at most: 1, 2, 4 or 8
inline constexpr int64_t kLocalOutputs = 2;  // likewise: 1 or 2
inline constexpr int64_t kLocalSums = 16;    // outputs that columns() adds up, at most

/// Strides are in elements; positions are neighbours everywhere.
template <class T>
struct LocalTile {
  int64_t samples, outputs, taps, positions;
  int64_t room;  // a multiple of 16 positions, at least as many
  T* weights;    // or their gradients
  int64_t weights_output, weights_tap;
  int64_t next;  // from these weights to those of the following tile, which are fetched ahead
  T* columns;    // (taps, samples, room), or their gradients
  T* top;        // or its gradients
  int64_t top_sample, top_output;
};

template <class T>
struct LocalKernels {
  /// top[n, o, p] += sum over t of weights[o, t, p] * columns[t, n, p]
  void (*forward)(const LocalTile<T>& tile);
  /// weights[o, t, p] = the sum over n of top[n, o, p] * columns[t, n, p], or += with `adds`
  void (*weights)(const LocalTile<T>& tile, bool adds);
  /// columns[t, n, p] = sum over o of weights[o, t, p] * top[n, o, p], or += with `adds`
  void (*columns)(const LocalTile<T>& tile, bool adds);
};

/// For the instructions that this processor has. T: float or double.
template <class T>
const LocalKernels<T>& local_kernels();

}  // namespace crema
