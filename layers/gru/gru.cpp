// GRU. See README.md.
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class GruLayer : public CellLayer<GruCell> {
 public:
  explicit GruLayer(const LayerInit& init) : CellLayer(init, 3, 1, Reset::after_product) {}
};

/// The reset gate is applied to the state before its product.
class ResetFirstLayer : public CellLayer<GruGatesCell, GruCandidateCell> {
 public:
  explicit ResetFirstLayer(const LayerInit& init) : CellLayer(init, 3, 1, Reset::before_product) {}
};

std::unique_ptr<Layer> make_gru(const LayerInit& init) {
  if (init.param.recurrent_param().linear_before_reset()) return std::make_unique<GruLayer>(init);
  return std::make_unique<ResetFirstLayer>(init);
}

}  // namespace

void register_gru(Registry& registry) {
  registry.add("GRU", make_gru);
  add_device_engine(registry, "GRU");
  add_recurrent_engine(registry, "GRU");
}

}  // namespace crema
