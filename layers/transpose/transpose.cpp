// Transpose: changes the order of the axes. See README.md.
#include "layer_support/index_map.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class TransposeLayer : public IndexMapLayer {
 public:
  using IndexMapLayer::IndexMapLayer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    const auto& dim = param().transpose_param().dim();
    std::vector<std::vector<Factor>> axes;
    for (const int axis : axis_order(from, {dim.begin(), dim.end()}, "dim", false)) {
      axes.push_back({{from[axis], axis}});
    }
    map(top, std::move(axes));
  }
};

}  // namespace

void register_transpose(Registry& registry) {
  add_two_sided<TransposeLayer>(registry, "Transpose");
}

}  // namespace crema
