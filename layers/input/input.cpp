#include "layers/input/input.hpp"

#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {

InputLayer::InputLayer(const LayerInit& init) : Layer(init) {
  for (const BlobShape& shape : init.param.input_param().shape()) {
    shapes_.emplace_back(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
  }
}

void InputLayer::setup(Blobs, Blobs top) {
  if (shapes_.size() > 1 && shapes_.size() != top.size())
    throw Error("input_param gives ", shapes_.size(), " shapes for ", top.size(),
                " tops; give one for all of them, one each, or none");
}

void InputLayer::reshape(Blobs, Blobs top) {
  if (shapes_.empty()) return;  // the caller gives the shape with the values
  for (size_t i = 0; i < top.size(); ++i) top[i]->reshape(shapes_[shapes_.size() == 1 ? 0 : i]);
}

void register_input(Registry& registry);

void register_input(Registry& registry) { registry.add<InputLayer>("Input"); }

}  // namespace crema
