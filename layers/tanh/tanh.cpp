#include "layers/tanh/tanh.hpp"

#include "crema/registry.hpp"

namespace crema {

void register_tanh(Registry& registry);

void register_tanh(Registry& registry) { registry.add<TanHLayer>("TanH"); }

}  // namespace crema
