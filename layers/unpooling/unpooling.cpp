// Unpooling: spreads values over the windows that a pooling layer took them from. See README.md.
#include <algorithm>

#include "layers/upsample/mask_unpool.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The windows along an axis.
struct Windows {
  int64_t kernel, stride, pad;

  /// The size of the map that `count` windows cover.
  int64_t extent(int64_t count) const { return (count - 1) * stride + kernel - 2 * pad; }
  /// Each place of the map gets the values of all windows over it; of each, its part if `shares`.
  Taps taps(int64_t count, int64_t extent, bool shares) const {
    Taps taps;
    for (int64_t at = 0; at < extent; ++at) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = i * stride - pad, end = std::min(begin + kernel, extent + pad);
        if (at >= begin && at < end)
          taps.add(i, shares ? 1.0 / static_cast<double>(end - begin) : 1.0);
      }
      taps.end_row();
    }
    return taps;
  }
};

class WindowsLayer : public UnpoolingLayer {
 public:
  explicit WindowsLayer(const LayerInit& init) : UnpoolingLayer(init) {
    const UnpoolingParameter& s = init.param.unpooling_param();
    const auto of = [](bool own, int64_t value, int64_t common) { return own ? value : common; };
    height_ = {of(s.has_kernel_h(), s.kernel_h(), s.kernel_size()),
               of(s.has_stride_h(), s.stride_h(), s.stride()),
               of(s.has_pad_h(), s.pad_h(), s.pad())};
    width_ = {of(s.has_kernel_w(), s.kernel_w(), s.kernel_size()),
              of(s.has_stride_w(), s.stride_w(), s.stride()),
              of(s.has_pad_w(), s.pad_w(), s.pad())};
    for (const Windows& windows : {height_, width_}) {
      if (windows.kernel < 1 || windows.stride < 1 || windows.pad >= windows.kernel)
        throw Error("kernel ", windows.kernel, ", stride ", windows.stride, " and pad ",
                    windows.pad,
                    " are no windows; set kernel_size and stride above 0, and a smaller pad");
    }
  }

  Arity arity() const override {
    const int bottoms = by_mask() ? 2 : 1;
    return {.min_bottoms = bottoms, .max_bottoms = bottoms};
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() != 4) throw Error("takes bottoms N x C x H x W, not ", shape.str());
    const UnpoolingParameter& s = param().unpooling_param();
    const int64_t height = s.has_unpool_h()      ? s.unpool_h()
                           : s.has_unpool_size() ? s.unpool_size()
                                                 : height_.extent(shape[2]);
    const int64_t width = s.has_unpool_w()      ? s.unpool_w()
                          : s.has_unpool_size() ? s.unpool_size()
                                                : width_.extent(shape[3]);
    if (shape[2] < 1 || shape[3] < 1 || height < 1 || width < 1)
      throw Error("maps of ", shape[2], " x ", shape[3], " cannot become ", height, " x ", width);
    if (by_mask()) return set_mask(bottom, top, height, width);
    const bool shares = s.unpool() == UnpoolingParameter::AVE;
    set_taps(bottom, top, height_.taps(shape[2], height, shares),
             width_.taps(shape[3], width, shares));
  }

 private:
  std::string way_to_size(const PlacedMap& map) const override {
    return text("set unpool_h: ", map.height, " and unpool_w: ", map.width);
  }
  bool by_mask() const { return param().unpooling_param().unpool() == UnpoolingParameter::MAX; }

  Windows height_{}, width_{};
};

}  // namespace

void register_unpooling(Registry& registry) { add_two_sided<WindowsLayer>(registry, "Unpooling"); }

}  // namespace crema
