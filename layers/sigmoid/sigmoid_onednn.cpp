#include "backend/onednn/activation.hpp"
#include "crema/registry.hpp"

namespace crema {

void register_sigmoid_onednn(Registry& registry);

void register_sigmoid_onednn(Registry& registry) {
  registry.add_engine(
      "Sigmoid", {"onednn", DeviceType::cpu, [] {
                    return std::make_unique<onednn::ActivationEngine>(Activation::Kind::sigmoid);
                  }});
}

}  // namespace crema
