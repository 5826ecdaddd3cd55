// Resize: resizes maps to a size, by a factor, or to the size of another blob. See README.md.
#include <cmath>

#include "layer_support/resample.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ResizeLayer : public ResampleLayer {
 public:
  explicit ResizeLayer(const LayerInit& init) : ResampleLayer(init) {
    const ResizeLayerParameter& settings = init.param.resize_param();
    if (settings.has_scale() && (settings.has_scale_h() || settings.has_scale_w()))
      throw Error("scale and scale_h or scale_w mean the same; give scale, or one an axis");
    for (const float scale : {settings.scale(), settings.scale_h(), settings.scale_w()}) {
      if (scale < 0 || !std::isfinite(scale)) throw Error("a scale of ", scale, " is not above 0");
    }
    if (settings.align_corners() && settings.mode() == ResizeLayerParameter::NEAREST_EXACT)
      throw Error(
          "align_corners has no meaning for mode NEAREST_EXACT, which takes the pixel under "
          "the middle of each pixel of the top; use NEAREST, or leave align_corners out");
  }

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  // Only the shape of the second one is read.
  bool is_constant(int bottom) const override { return bottom == 1; }
  bool is_exact_bottom(int) const override { return false; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() < 2)
      throw Error("takes maps, whose last axes are height and width, but the bottom is ",
                  shape.str());
    const ResizeLayerParameter& s = param().resize_param();
    const Blob* like = bottom.size() == 2 ? bottom[1] : nullptr;
    const Taps height = taps(shape, -2, "height", s.height(), s.scale_h(), like);
    set_taps(bottom, top, height, taps(shape, -1, "width", s.width(), s.scale_w(), like));
  }

 private:
  Taps taps(const Shape& shape, int axis, const char* name, int64_t size, float factor,
            const Blob* like) const {
    const ResizeLayerParameter& settings = param().resize_param();
    if (settings.has_scale()) factor = settings.scale();
    const int ways = (size > 0) + (factor > 0) + (like != nullptr);
    if (ways != 1)
      throw Error("the ", name, " of the top is given ", ways, " times; give ", name,
                  ", a scale, or a second bottom of that size");
    if (like != nullptr) {
      if (like->shape().rank() < 2)
        throw Error("'", like->name, "' (", like->shape().str(), ") has no height and width");
      size = like->shape()[axis];
    }
    const int64_t from = shape[axis];
    if (factor > 0)
      size = static_cast<int64_t>(static_cast<double>(from) * static_cast<double>(factor));
    if (from < 1 || size < 1)
      throw Error("the ", name, " ", from, " of the bottom, ", shape.str(), ", cannot become ",
                  size);
    const Sampling sampling = settings.align_corners() ? Sampling::corners : Sampling::edges;
    switch (settings.mode()) {
      case ResizeLayerParameter::NEAREST:
        return nearest_taps(from, size, sampling);
      case ResizeLayerParameter::NEAREST_EXACT:
        return nearest_exact_taps(from, size);
      case ResizeLayerParameter::BICUBIC:
        return cubic_taps(from, size, sampling);
      default:
        return linear_taps(from, size, sampling);
    }
  }
};

}  // namespace

void register_resize(Registry& registry) { add_two_sided<ResizeLayer>(registry, "Resize"); }

}  // namespace crema
