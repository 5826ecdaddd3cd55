// Reverse: turns the order along one axis. See README.md.
#include "layer_support/index_map.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ReverseLayer : public IndexMapLayer {
 public:
  using IndexMapLayer::IndexMapLayer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    const int reversed = from.canonical_axis(param().reverse_param().axis());
    std::vector<std::vector<Factor>> axes;
    for (int axis = 0; axis < from.rank(); ++axis) {
      axes.push_back({{from[axis], axis, axis == reversed ? -1 : 1}});
    }
    map(top, std::move(axes));
  }
};

}  // namespace

void register_reverse(Registry& registry) { add_two_sided<ReverseLayer>(registry, "Reverse"); }

}  // namespace crema
