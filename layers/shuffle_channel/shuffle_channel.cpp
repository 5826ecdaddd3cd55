// ShuffleChannel: interleaves groups of channels. See README.md.
#include "layer_support/index_map.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ShuffleChannelLayer : public IndexMapLayer {
 public:
  explicit ShuffleChannelLayer(const LayerInit& init)
      : IndexMapLayer(init), group_(init.param.shuffle_channel_param().group()) {
    if (group_ == 0) throw Error("group is 0; give the number of groups of channels");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    if (from.rank() < 2) throw Error("shuffles channels, axis 1, but the bottom is ", from.str());
    if (from[1] % group_ != 0)
      throw Error("the ", from[1], " channels of the bottom, ", from.str(), ", are no multiple of ",
                  "group, ", group_);
    std::vector<std::vector<Factor>> axes;
    for (int axis = 0; axis < from.rank(); ++axis) axes.push_back({{from[axis], axis}});
    const int64_t each = from[1] / group_;
    axes[1] = {{each, 1, 1}, {group_, 1, each}};
    map(top, std::move(axes));
  }

 private:
  int64_t group_;
};

}  // namespace

void register_shuffle_channel(Registry& registry) {
  add_two_sided<ShuffleChannelLayer>(registry, "ShuffleChannel");
}

}  // namespace crema
