// LayerNorm: zero mean and unit variance over the last axes of each sample. See README.md.
#include "layer_support/row_norm.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class LayerNormLayer : public RowNormLayer {
 public:
  explicit LayerNormLayer(const LayerInit& init)
      : RowNormLayer(init, settings_of(init.param.layer_norm_param())) {}

 protected:
  row_norm::Rows rows_of(const Shape& bottom) const override {
    const int axis = first_axis(bottom);
    return {bottom.count(0, axis), bottom.count(axis), 1, bottom.count(axis), 1};
  }
  Shape parameter_shape(const Shape& bottom) const override {
    return Shape(
        std::vector<int64_t>(bottom.dims().begin() + first_axis(bottom), bottom.dims().end()));
  }

 private:
  int first_axis(const Shape& bottom) const {
    return bottom.canonical_axis(param().layer_norm_param().axis());
  }
};

}  // namespace

void register_layer_norm(Registry& registry) {
  add_two_sided<LayerNormLayer>(registry, "LayerNorm");
}

}  // namespace crema
