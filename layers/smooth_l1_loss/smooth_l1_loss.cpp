// SmoothL1Loss: squares of small differences, and larger ones as they are. See README.md.
#include "kit/element_loss.hpp"
#include "kit/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

struct SmoothL1 {
  double square = 1;  // of sigma

  static SmoothL1 of(const LayerParameter& param) {
    const float sigma = param.smooth_l1_loss_param().sigma();
    if (!(sigma > 0 && std::isfinite(sigma)))
      throw Error("sigma ", sigma, " is not above 0; the loss is linear from 1 / sigma^2 on");
    return {static_cast<double>(sigma) * static_cast<double>(sigma)};
  }
  CREMA_FUNCTOR double value(double d) const {
    const double size = d < 0 ? -d : d;
    return size * square < 1 ? 0.5 * square * d * d : size - 0.5 / square;
  }
  CREMA_FUNCTOR double slope(double d) const {
    const double size = d < 0 ? -d : d;
    return size * square < 1 ? square * d : d > 0 ? 1 : d < 0 ? -1 : d;  // NaN stays
  }
};

class SmoothL1LossLayer : public ElementLossLayer<SmoothL1> {
 public:
  explicit SmoothL1LossLayer(const LayerInit& init) : ElementLossLayer(init, 4) {}
};

}  // namespace

void register_smooth_l1_loss(Registry& registry) {
  add_two_sided<SmoothL1LossLayer>(registry, "SmoothL1Loss");
}

}  // namespace crema
