// Sampling of maps on the CPU, and its gradients. Some channels of a sample at a time are copied so
// that those of a pixel are neighbours: a point is then four vectors, whatever its place. All
// pixels are copied, so this is for grids that are not sparse.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/spatial_transformer/grid.hpp"

namespace crema {

/// T: float or double. points: (samples, positions, 2), row and column in pixels of the bottom;
/// u, du: (samples, channels, pixels); y, dy: (samples, channels, positions). What lies outside of
/// the maps counts as 0, or as the pixel at the border if the grid says so. Results do not depend
/// on the number of threads.
template <class T>
class MapSampler {
 public:
  void set_sizes(const SamplingGrid& grid, int64_t samples);

  void forward(const double* points, const T* u, T* y);
  /// du, unless it is null: the gradient of u. theta, unless it is null: (samples, 6), the gradient
  /// of the maps' elements, theta_1_1 to theta_2_3.
  void backward(const double* points, const T* u, const T* dy, T* du, double* theta);

  /// Of scratch memory; `trains`: with that of backward.
  size_t bytes(bool trains) const;

 private:
  /// Channels of a sample.
  struct Block {
    int64_t sample, map, channels;  // the first map, and how many
  };
  /// Lanes without a channel hold anything.
  struct Scratch {
    std::vector<T> maps, slopes;  // (pixels + 1, width): behind the pixels, what lies outside
    std::vector<T> values;        // (kMapPositions, width)
  };

  /// body(number, block, scratch of the thread) for all blocks on the threads.
  template <class Body>
  void each_block(const Body& body);
  void read_maps(const Block& block, const T* u, Scratch& scratch) const;

  SamplingGrid grid_;
  int64_t samples_ = 0, width_ = 1, blocks_ = 0;  // blocks of a sample
  std::vector<Scratch> scratch_;                  // of each thread
  std::vector<double> parts_;                     // (samples, blocks, 6)
  std::vector<T> y_, x_;                          // coordinates of the top's pixels
};

}  // namespace crema
