// Unpooling by the mask of a pooling layer: Upsample and Unpooling.
#pragma once

#include <string>

#include "layer_support/device_check.hpp"
#include "layer_support/resample.hpp"

namespace crema {

/// Bottom 0: values (N, C, H, W), bottom 1: their places (N, C, H, W), each y * width + x in a map
/// of the top. The other places of the top are 0. Of several values with one place, the last
/// counts.
class MaskUnpool {
 public:
  /// Sets the shape of the top. Error if the bottoms differ in shape.
  void reshape(Blobs bottom, Blobs top, int64_t height, int64_t width);
  /// Error if a place is no whole number inside the map; on a device, the run of the device
  /// reports it (core/device_run.hpp).
  void forward(const ComputeDevice& device, const Layer& layer, Blobs bottom, Blobs top);
  void backward(const ComputeDevice& device, Blobs top, Blobs bottom) const;
  size_t kept_bytes() const { return places_.bytes(); }

 private:
  template <class T>
  void read_there(const ComputeDevice& device, const Layer& layer, const Blob& mask);
  [[noreturn]] void refuse(const std::string& mask, int64_t i, double place) const;

  int64_t map_ = 0, pooled_ = 0;    // values of a map of the top and of the bottom
  int64_t height_ = 0, width_ = 0;  // of a map of the top
  LayerCheck check_;
  Tensor places_{Shape{0}, DType::i64};  // of each value, in the whole top
};

/// A layer that unpools by its bottom 1, or resamples where it has none.
class UnpoolingLayer : public ResampleLayer {
 public:
  using ResampleLayer::ResampleLayer;

  bool can_propagate(int bottom) const override { return bottom == 0; }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;
  size_t kept_bytes() const override;
  /// Error unless the maps of the top have the width of `map`, and all rows with places.
  void check_places(int b, const PlacedMap& map, const std::string& maker) const override;
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  /// What to set so that the maps of the top are those of a pooled map.
  virtual std::string way_to_size(const PlacedMap& map) const = 0;
  /// For reshape(): bottom 1 has the places in maps of this size.
  void set_mask(Blobs bottom, Blobs top, int64_t height, int64_t width);

 private:
  bool has_mask_ = false;
  int64_t map_height_ = 0, map_width_ = 0;  // of the top, with a mask
  MaskUnpool unpool_;
};

}  // namespace crema
