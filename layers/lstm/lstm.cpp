// LSTM. See README.md.
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_passes.hpp"

namespace crema {
namespace {

class LstmLayer : public CellLayer<LstmCell> {
 public:
  explicit LstmLayer(const LayerInit& init) : CellLayer(init, 4, 2) {}
};

}  // namespace

void register_lstm(Registry& registry) { add_recurrent<LstmLayer>(registry, "LSTM"); }

}  // namespace crema
