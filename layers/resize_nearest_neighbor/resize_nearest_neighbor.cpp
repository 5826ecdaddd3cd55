// ResizeNearestNeighbor: resizes maps without interpolation. See README.md.
#include "layer_support/resample.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ResizeNearestNeighborLayer : public ResampleLayer {
 public:
  using ResampleLayer::ResampleLayer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() != 4) throw Error("takes bottoms N x C x H x W, not ", shape.str());
    const ResizeNearestNeighborParameter& s = param().resize_nearest_neighbor_param();
    const Taps height = taps(shape, 2, "height", s.output_height(), s.scaling_factor_height());
    set_taps(bottom, top, height,
             taps(shape, 3, "width", s.output_width(), s.scaling_factor_width()));
  }

 private:
  Taps taps(const Shape& shape, int axis, const char* name, int64_t size, float factor) const {
    if ((size > 0) == (factor > 0))
      throw Error("needs one of output_", name, " and scaling_factor_", name, ", above 0");
    const int64_t from = shape[axis];
    if (factor > 0)
      size = static_cast<int64_t>(static_cast<double>(from) * static_cast<double>(factor));
    if (from < 1 || size < 1)
      throw Error("the ", name, " ", from, " of the bottom, ", shape.str(), ", cannot become ",
                  size);
    const bool corners = param().resize_nearest_neighbor_param().align_corners();
    return nearest_taps(from, size, corners ? Sampling::corners : Sampling::edges);
  }
};

}  // namespace

void register_resize_nearest_neighbor(Registry& registry) {
  add_two_sided<ResizeNearestNeighborLayer>(registry, "ResizeNearestNeighbor");
}

}  // namespace crema
