// Input: tops that the caller fills. See README.md.
#pragma once

#include <vector>

#include "crema/layer.hpp"

namespace crema {

class InputLayer : public Layer {
 public:
  explicit InputLayer(const LayerInit& init);

  Arity arity() const override { return {0, 0, 1, -1}; }
  bool is_source() const override { return true; }
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  void forward_cpu(Blobs, Blobs) override {}

 private:
  std::vector<Shape> shapes_;  // none, one for all tops, or one each
};

}  // namespace crema
