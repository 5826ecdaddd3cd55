#include "backend/onednn/activation.hpp"
#include "crema/registry.hpp"

namespace crema {

void register_tanh_onednn(Registry& registry);

void register_tanh_onednn(Registry& registry) {
  registry.add_engine(
      "TanH", {"onednn", DeviceType::cpu,
               [] { return std::make_unique<onednn::ActivationEngine>(Activation::Kind::tanh); }});
}

}  // namespace crema
