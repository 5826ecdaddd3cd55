// Permute: changes the order of the axes. See README.md.
#include "layer_support/index_map.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class PermuteLayer : public IndexMapLayer {
 public:
  using IndexMapLayer::IndexMapLayer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    const auto& order = param().permute_param().order();
    std::vector<std::vector<Factor>> axes;
    for (const int axis : axis_order(from, {order.begin(), order.end()}, "order", true)) {
      axes.push_back({{from[axis], axis}});
    }
    map(top, std::move(axes));
  }
};

}  // namespace

void register_permute(Registry& registry) { add_two_sided<PermuteLayer>(registry, "Permute"); }

}  // namespace crema
