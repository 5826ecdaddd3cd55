// Interp: bilinear resizing with aligned corners. See README.md.
#include "layer_support/resample.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The size of the top along an axis, of which `from` values count.
int64_t resized(int64_t from, const InterpParameter& settings, int64_t given) {
  if (settings.has_height() || settings.has_width()) return given;
  int64_t to = from;
  if (settings.has_shrink_factor()) to = (to - 1) / settings.shrink_factor() + 1;
  if (settings.has_zoom_factor()) to += (to - 1) * (settings.zoom_factor() - 1);
  return to;
}

class InterpLayer : public ResampleLayer {
 public:
  explicit InterpLayer(const LayerInit& init) : ResampleLayer(init) {
    const InterpParameter& settings = init.param.interp_param();
    const bool by_size = settings.has_height() || settings.has_width();
    const bool by_factor = settings.has_zoom_factor() || settings.has_shrink_factor();
    if (by_size == by_factor)
      throw Error("needs ", by_size ? "only " : "", "one of height with width, and zoom_factor or ",
                  "shrink_factor");
    if (by_size && (settings.height() <= 0 || settings.width() <= 0))
      throw Error("height ", settings.height(), " and width ", settings.width(),
                  " are no size; give both, above 0");
    if (settings.zoom_factor() < 1 || settings.shrink_factor() < 1)
      throw Error("zoom_factor ", settings.zoom_factor(), " and shrink_factor ",
                  settings.shrink_factor(), " must be at least 1");
    if (settings.pad_beg() > 0 || settings.pad_end() > 0)
      throw Error("pad_beg ", settings.pad_beg(), " and pad_end ", settings.pad_end(),
                  " must be 0, or negative to cut; pad in the layer before");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() != 4) throw Error("takes bottoms N x C x H x W, not ", shape.str());
    const InterpParameter& settings = param().interp_param();
    const Taps height = taps(shape, 2, settings.height());
    set_taps(bottom, top, height, taps(shape, 3, settings.width()));
  }

 private:
  Taps taps(const Shape& shape, int axis, int64_t given) const {
    const InterpParameter& settings = param().interp_param();
    const int64_t cut = -settings.pad_beg(), from = shape[axis] - cut + settings.pad_end();
    if (from < 1)
      throw Error("axis ", axis, " of the bottom, ", shape.str(), ", is cut by ", cut, " and ",
                  -settings.pad_end(), " values: nothing is left; raise pad_beg and pad_end");
    Taps all = linear_taps(from, resized(from, settings, given), Sampling::corners);
    for (int32_t& source : all.sources) source += static_cast<int32_t>(cut);
    return all;
  }
};

}  // namespace

void register_interp(Registry& registry) { add_two_sided<InterpLayer>(registry, "Interp"); }

}  // namespace crema
