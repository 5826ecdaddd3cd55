// Repeat: repeats each slice of an axis. See README.md.
#include "layers/tile/tile.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class RepeatLayer : public CopiesLayer {
 public:
  explicit RepeatLayer(const LayerInit& init)
      : CopiesLayer(init, init.param.repeat_param().times(), init.param.repeat_param().axis(),
                    Piece::slice) {
    if (init.param.repeat_param().times() == 0)
      throw Error("times is 0; give the number of copies of each slice");
  }
};

}  // namespace

void register_repeat(Registry& registry) { add_two_sided<RepeatLayer>(registry, "Repeat"); }

}  // namespace crema
