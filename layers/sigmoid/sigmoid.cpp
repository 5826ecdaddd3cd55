#include "layers/sigmoid/sigmoid.hpp"

#include "crema/registry.hpp"

namespace crema {

void register_sigmoid(Registry& registry);

void register_sigmoid(Registry& registry) { registry.add<SigmoidLayer>("Sigmoid"); }

}  // namespace crema
