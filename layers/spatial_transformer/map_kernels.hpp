// The inner loops of sampling on the CPU, in f32 and f64 by Highway: the channels of a pixel are
// neighbours, and lanes.
#pragma once

#include <cstdint>

namespace crema {

inline constexpr int64_t kMapPositions = 64;  // at a time
inline constexpr int64_t kMapChannels = 16;   // at a time, at most: 1, 4, 8 or 16

/// The four pixels around each of some points, corner k of point i at k * kMapPositions + i.
template <class T>
struct MapCorners {
  int64_t count;                                // of points
  alignas(64) int32_t at[4 * kMapPositions];    // the pixel
  alignas(64) T weight[4 * kMapPositions];      // in the value at the point
  alignas(64) int32_t near[4 * kMapPositions];  // the pixel, where it counts in a slope
  alignas(64) T below[kMapPositions];           // how far the point lies below corner 0
  alignas(64) T behind[kMapPositions];          // and behind it
  const T *y, *x;                               // coordinates of the points in the top
};

/// Maps of `width` channels: (pixels, width). Values at points: (count, width).
template <class T>
struct MapKernels {
  /// The corners of `corners.count` points (count, 2), without or with those for slopes. What has
  /// the weight 0 is the pixel behind the last, whose values are 0; at points that are no numbers,
  /// weights are none either. With `border`, points outside are moved to the border along each
  /// axis, and have no slope along it.
  void (*find)(const double* points, int64_t rows, int64_t columns, bool slopes, bool border,
               MapCorners<T>& corners);
  /// values = those of the maps at the points
  void (*sample)(const MapCorners<T>& corners, int64_t width, const T* maps, T* values);
  /// maps += the values, as the corners weigh them; in the order of the points
  void (*spread)(const MapCorners<T>& corners, int64_t width, const T* values, T* maps);
  /// sums[e, c] += the slopes of channel c of the maps times the values, along the rows' axis times
  /// y, x and 1 of the points for e = 0 to 2, along the columns' for e = 3 to 5. sums: (6, width).
  void (*add_slopes)(const MapCorners<T>& corners, int64_t width, const T* maps, const T* values,
                     double* sums);
};

/// For the instructions that this processor has. T: float or double.
template <class T>
const MapKernels<T>& map_kernels();

}  // namespace crema
