// L1Loss: the mean over the batch of summed absolute differences. See README.md.
#include "layer_support/element_loss.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

struct Absolute {
  static Absolute of(const LayerParameter&) { return {}; }
  CREMA_FUNCTOR double value(double d) const { return d < 0 ? -d : d; }
  CREMA_FUNCTOR double slope(double d) const { return d > 0 ? 1 : d < 0 ? -1 : 0; }
};

class L1LossLayer : public ElementLossLayer<Absolute> {
 public:
  explicit L1LossLayer(const LayerInit& init) : ElementLossLayer(init, 2) {}
};

}  // namespace

void register_l1_loss(Registry& registry) { add_two_sided<L1LossLayer>(registry, "L1Loss"); }

}  // namespace crema
