// Flip: mirrors maps. See README.md.
#include "layer_support/index_map.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class FlipLayer : public IndexMapLayer {
 public:
  using IndexMapLayer::IndexMapLayer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    if (from.rank() < 2)
      throw Error("takes maps, whose last axes are height and width, but the bottom is ",
                  from.str());
    const FlipParameter& settings = param().flip_param();
    std::vector<std::vector<Factor>> axes;
    for (int axis = 0; axis < from.rank(); ++axis) {
      const bool flipped = axis == from.rank() - 1   ? settings.flip_width()
                           : axis == from.rank() - 2 ? settings.flip_height()
                                                     : false;
      axes.push_back({{from[axis], axis, flipped ? -1 : 1}});
    }
    map(top, std::move(axes));
  }
};

}  // namespace

void register_flip(Registry& registry) { add_two_sided<FlipLayer>(registry, "Flip"); }

}  // namespace crema
