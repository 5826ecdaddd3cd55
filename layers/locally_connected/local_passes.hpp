// The passes of a locally connected layer on the CPU, in tiles of positions whose windows lie in
// cache: weights are read once for several samples.
#pragma once

#include <cstdint>

#include "crema/tensor.hpp"

namespace crema {

/// Images (batch, channels, height, width), tops (batch, outputs, out_height, out_width), weights
/// (outputs, taps, positions), taps being (channels, kernel_h, kernel_w).
struct LocalSizes {
  int64_t batch = 0, channels = 0, height = 0, width = 0;
  int64_t outputs = 0, out_height = 0, out_width = 0;
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;

  int64_t positions() const { return out_height * out_width; }
  int64_t taps() const { return channels * kernel_h * kernel_w; }
  bool operator==(const LocalSizes&) const = default;
};

/// T: float or double. Results do not depend on the number of threads.
template <class T>
class LocalPasses {
 public:
  LocalPasses() = default;
  LocalPasses(const LocalSizes& sizes, bool trains, int threads);

  /// y += w x
  void forward(const T* x, const T* w, T* y);
  /// dw = the gradient of the weights, or += with `adds`.
  void add_weights(const T* x, const T* dy, bool adds, T* dw);
  /// dx = the gradient of the images.
  void find_images(const T* w, const T* dy, T* dx);

  const LocalSizes& sizes() const { return sizes_; }
  int threads() const { return threads_; }
  /// Of scratch memory.
  size_t bytes() const { return columns_.bytes(); }

 private:
  template <class Body>
  void each(int64_t items, const Body& body);
  template <class Body>
  void each_tile(const Body& body);
  /// Calls body(tile, whether its samples are the first ones) for all tiles of w, x and y, or of
  /// their gradients.
  template <class Body>
  void each_product(const T* x, T* w, T* y, const Body& body);
  void unfold(const T* x, int64_t first_sample, int64_t samples, int64_t first_tap, int64_t taps,
              int64_t first, int64_t count, T* columns) const;
  void fold(const T* columns, int64_t first_sample, int64_t samples, int64_t channel, int64_t first,
            int64_t count, T* dx) const;
  /// Calls run(index in the tile, element of a channel's image, count) for the positions [first,
  /// first + count) that a tap reads inside of the image; elements are stride_w apart.
  template <class Run>
  void each_run(int64_t tap, int64_t first, int64_t count, const Run& run) const;

  LocalSizes sizes_;
  int threads_ = 1;
  int64_t tile_ = 0, taps_ = 0;  // positions and taps of a tile
  int64_t row_ = 0;              // elements from one row of columns to the next
  int64_t room_ = 0;             // elements of a thread
  Tensor columns_{Shape{0}};
};

}  // namespace crema
