#include "layer_support/regions.hpp"

#include <cmath>

#include "core/dispatch.hpp"

namespace crema {

RegionLayer::RegionLayer(const LayerInit& init, float scale) : TwoSidedLayer(init) {
  if (!(scale > 0 && std::isfinite(scale)))
    throw Error("spatial_scale ", scale, " is not above 0; it is map over image");
}

void RegionLayer::check_grid(int64_t height, int64_t width) {
  if (height < 1 || width < 1)
    throw Error("a grid of ", height, " x ", width, " has no cells; set pooled_h and pooled_w");
}

void RegionLayer::reshape_regions(Blobs bottom, Blobs top, int64_t channels, int64_t height,
                                  int64_t width) {
  const Shape &maps = bottom[0]->shape(), &regions = bottom[1]->shape();
  if (maps.rank() != 4)
    throw Error("'", bottom[0]->name, "' must be maps N x C x H x W, not ", maps.str());
  if (regions.rank() < 2 || regions.count(1) != 5)
    throw Error("'", bottom[1]->name, "' must be regions R x 5 (image, x1, y1, x2, y2), not ",
                regions.str());
  regions_.reshape(Shape{regions[0], kWords});
  top[0]->reshape(Shape{regions[0], channels, height, width});
}

void RegionLayer::refuse_image(const std::string& name, int64_t region, double image,
                               int64_t images) {
  throw Error("region ", region, " of '", name, "' is of image ", image,
              ", but the images of the batch are 0 to ", images - 1);
}

void RegionLayer::refuse_coordinate(const std::string& name, int64_t region, double value) {
  throw Error("region ", region, " of '", name, "' has the coordinate ", value);
}

const Region* RegionLayer::read_regions(const ComputeDevice& device, Blobs bottom) {
  const int64_t count = bottom[1]->shape()[0];
  images_ = bottom[0]->shape()[0];
  if (!device.on_host()) {
    read_there(device, bottom);
    return regions(device);
  }
  auto* const to = reinterpret_cast<Region*>(regions_.overwrite<int64_t>());
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* from = bottom[1]->data.template read<T>();
    for (int64_t r = 0; r < count; ++r, from += 5) {
      const auto image = static_cast<double>(from[0]);
      if (!(image >= 0 && image < static_cast<double>(images_)) || std::floor(image) != image)
        refuse_image(bottom[1]->name, r, image, images_);
      to[r] = {static_cast<int64_t>(image), static_cast<double>(from[1]),
               static_cast<double>(from[2]), static_cast<double>(from[3]),
               static_cast<double>(from[4])};
      for (const double value : {to[r].x1, to[r].y1, to[r].x2, to[r].y2}) {
        if (!(std::abs(value) < kMostCoordinate)) refuse_coordinate(bottom[1]->name, r, value);
      }
    }
  });
  return regions(device);
}

}  // namespace crema
