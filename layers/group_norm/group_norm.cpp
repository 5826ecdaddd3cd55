// GroupNorm: zero mean and unit variance over each group of channels of each sample. See README.md.
#include "layer_support/row_norm.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class GroupNormLayer : public RowNormLayer {
 public:
  explicit GroupNormLayer(const LayerInit& init)
      : RowNormLayer(init, settings_of(init.param.group_norm_param())),
        groups_(init.param.group_norm_param().group()) {
    if (groups_ == 0) throw Error("group is 0; give the number of groups of channels");
  }

 protected:
  row_norm::Rows rows_of(const Shape& bottom) const override {
    check(bottom);
    const int64_t each = bottom[1] / groups_, inner = bottom.count(2);
    return {bottom[0] * groups_, each * inner, groups_, each, inner};
  }
  Shape parameter_shape(const Shape& bottom) const override {
    check(bottom);
    return Shape{bottom[1]};
  }

 private:
  void check(const Shape& bottom) const {
    if (bottom.rank() < 2 || bottom[1] % groups_ != 0)
      throw Error("the bottom, ", bottom.str(), ", has no channels (axis 1) in ", groups_,
                  " equal groups; set group_norm_param { group: ... }");
  }

  int64_t groups_;
};

}  // namespace

void register_group_norm(Registry& registry) {
  add_two_sided<GroupNormLayer>(registry, "GroupNorm");
}

}  // namespace crema
