// Reorg: moves blocks of positions into channels, or back. See README.md.
#include "layer_support/index_map.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ReorgLayer : public IndexMapLayer {
 public:
  explicit ReorgLayer(const LayerInit& init)
      : IndexMapLayer(init), stride_(init.param.reorg_param().stride()) {
    if (stride_ == 0)
      throw Error("stride is ", init.param.reorg_param().has_stride() ? "0" : "missing",
                  "; say reorg_param { stride: 2 }, the side of a block");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    if (from.rank() != 4) throw Error("takes bottoms N x C x H x W, not ", from.str());
    const int64_t n = from[0], c = from[1], h = from[2], w = from[3], s = stride_;
    const bool reverse = param().reorg_param().reverse();
    const bool channel_first = param().reorg_param().order() == ReorgParameter::CHANNEL_FIRST;
    // Channels are moved to positions, or seen as such.
    if (c % (s * s) != 0 && (reverse || !channel_first))
      throw Error("the ", c, " channels of the bottom, ", from.str(), ", are no multiple of the ",
                  s * s, " pixels of a block");
    const int64_t each = c / s / s;
    if (reverse) {
      // The steps from channel to channel, from row to row of a block, and from column to column.
      const int64_t channel = channel_first ? s * s : 1;
      const int64_t column = channel_first ? 1 : each, row = s * column;
      return map(
          top,
          {{{n, 0}}, {{each, 1, channel}}, {{h, 2, 1}, {s, 1, row}}, {{w, 3, 1}, {s, 1, column}}});
    }
    if (h % s != 0 || w % s != 0)
      throw Error("height and width of the bottom, ", from.str(), ", are no multiples of stride, ",
                  s, "; pad or crop it before");
    if (channel_first)
      return map(top,
                 {{{n, 0}}, {{c, 1, 1}, {s, 2, 1}, {s, 3, 1}}, {{h / s, 2, s}}, {{w / s, 3, s}}});
    // Blocks are those of the values as if they were (c / s^2, h * s, w * s); see README.md.
    map_values(top, Shape{n, each, h * s, w * s},
               {{{n, 0}}, {{s, 2, 1}, {s, 3, 1}, {each, 1, 1}}, {{h, 2, s}}, {{w, 3, s}}},
               Shape{n, c * s * s, h / s, w / s});
  }

 private:
  int64_t stride_;
};

}  // namespace

void register_reorg(Registry& registry) { add_two_sided<ReorgLayer>(registry, "Reorg"); }

}  // namespace crema
