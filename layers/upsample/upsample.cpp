// Upsample: puts values back where maximum pooling took them, or repeats them. See README.md.
#include "core/checked.hpp"
#include "layers/upsample/mask_unpool.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class UpsampleLayer : public UnpoolingLayer {
 public:
  explicit UpsampleLayer(const LayerInit& init) : UnpoolingLayer(init) {
    const UpsampleParameter& settings = init.param.upsample_param();
    if (settings.has_scale() && (settings.has_scale_h() || settings.has_scale_w()))
      throw Error("scale and scale_h or scale_w mean the same; give scale, or one an axis");
    if (settings.has_upsample_h() != settings.has_upsample_w())
      throw Error("upsample_h and upsample_w are the size of the top; give both");
    if (scale_h() == 0 || scale_w() == 0)
      throw Error("a scale of 0 leaves no values; give 1 or more");
  }

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = 2}; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() != 4) throw Error("takes bottoms N x C x H x W, not ", shape.str());
    const UpsampleParameter& settings = param().upsample_param();
    const auto extent = [&](int axis, bool given, int64_t size, int64_t scale, bool odd) {
      return given ? size
                   : checked_multiply(shape[axis], scale, "size times scale") - (odd ? 1 : 0);
    };
    const bool given = settings.has_upsample_h();
    const int64_t height = extent(2, given, settings.upsample_h(), scale_h(), settings.pad_out_h());
    const int64_t width = extent(3, given, settings.upsample_w(), scale_w(), settings.pad_out_w());
    if (shape[2] < 1 || shape[3] < 1 || height < 1 || width < 1)
      throw Error("maps of ", shape[2], " x ", shape[3], " cannot become ", height, " x ", width);
    if (bottom.size() == 2) return set_mask(bottom, top, height, width);
    set_taps(bottom, top, nearest_taps(shape[2], height, Sampling::edges),
             nearest_taps(shape[3], width, Sampling::edges));
  }

 private:
  std::string way_to_size(const PlacedMap& map) const override {
    return text("set upsample_h: ", map.height, " and upsample_w: ", map.width,
                ", or, beside a scale, pad_out_h or pad_out_w for one row or column less");
  }
  int64_t scale_h() const {
    const UpsampleParameter& settings = param().upsample_param();
    return settings.has_scale_h() ? settings.scale_h() : settings.scale();
  }
  int64_t scale_w() const {
    const UpsampleParameter& settings = param().upsample_param();
    return settings.has_scale_w() ? settings.scale_w() : settings.scale();
  }
};

}  // namespace

void register_upsample(Registry& registry) { add_two_sided<UpsampleLayer>(registry, "Upsample"); }

}  // namespace crema
