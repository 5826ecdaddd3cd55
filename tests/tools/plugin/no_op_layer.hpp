// The layer of plug-ins that have to be refused: it does nothing.
#pragma once

#include "crema/layer.hpp"

namespace crema {
namespace {

class NoOpLayer : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs, Blobs) override {}
  void forward_cpu(Blobs, Blobs) override {}
};

}  // namespace
}  // namespace crema
