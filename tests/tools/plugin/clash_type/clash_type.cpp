// A type that Crema has.
#include "crema/registry.hpp"

namespace crema {
namespace {

class Mine : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs, Blobs) override {}
  void forward_cpu(Blobs, Blobs) override {}
};

}  // namespace

void register_clash_type(Registry& registry);
void register_clash_type(Registry& registry) { registry.add<Mine>("ReLU"); }

}  // namespace crema
