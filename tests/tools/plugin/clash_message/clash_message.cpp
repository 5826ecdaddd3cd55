// A layer beside messages that clash.
#include "../no_op_layer.hpp"
#include "crema/registry.hpp"

namespace crema {

void register_clash_message(Registry& registry);
void register_clash_message(Registry& registry) { registry.add<NoOpLayer>("Clash_message"); }

}  // namespace crema
