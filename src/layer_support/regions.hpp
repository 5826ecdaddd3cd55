// Layers that pool regions of maps: bottom 0 are maps (N, C, H, W), bottom 1 regions (R, 5): the
// number of an image, x1, y1, x2, y2 in pixels of the image.
#pragma once

#include <string>

#include "core/functor.hpp"
#include "layer_support/device_check.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

/// A region in pixels of the image.
struct Region {
  int64_t image;
  double x1, y1, x2, y2;
};

/// Larger coordinates would not fit whole numbers of pixels.
inline constexpr double kMostCoordinate = 1e9;

class RegionLayer : public TwoSidedLayer {
 public:
  /// Error unless `scale`, from image to map, is above 0.
  RegionLayer(const LayerInit& init, float scale);

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  bool takes_constants(int bottom) const override { return bottom == 1; }
  size_t kept_bytes() const override { return regions_.bytes(); }

 protected:
  /// Error, with what to set, unless there are rows and columns of cells.
  static void check_grid(int64_t height, int64_t width);
  /// For reshape(): checks the bottoms, and gives top 0 the shape (R, channels, height, width).
  void reshape_regions(Blobs bottom, Blobs top, int64_t channels, int64_t height, int64_t width);
  /// For forward: reads the regions. Error if one is of an image that is not there, or no number;
  /// on a device, the run of the device reports that (core/device_run.hpp).
  const Region* read_regions(const ComputeDevice& device, Blobs bottom);
  /// Those of the last read_regions().
  const Region* regions(const ComputeDevice& device) const {
    return reinterpret_cast<const Region*>(device.read_bytes(regions_));
  }

 private:
  static_assert(sizeof(Region) % sizeof(double) == 0);
  static constexpr int64_t kWords = sizeof(Region) / sizeof(double);

  void read_there(const ComputeDevice& device, Blobs bottom);
  [[noreturn]] static void refuse_image(const std::string& name, int64_t region, double image,
                                        int64_t images);
  [[noreturn]] static void refuse_coordinate(const std::string& name, int64_t region, double value);

  Tensor regions_{Shape{0}, DType::i64};  // (R, kWords), as Region
  LayerCheck check_;
  int64_t images_ = 0;  // of the last read_regions()
};

/// The integer range [begin, end), cut to [0, size).
struct CellRange {
  int64_t begin, end;
  CREMA_FUNCTOR CellRange cut(int64_t size) const {
    const int64_t from = begin < 0 ? 0 : begin > size ? size : begin;
    const int64_t to = end < 0 ? 0 : end > size ? size : end;
    return {from, to};
  }
  CREMA_FUNCTOR int64_t count() const { return end > begin ? end - begin : 0; }
};

}  // namespace crema
