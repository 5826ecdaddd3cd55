// Input: tops that the caller fills. See README.md.
#include <vector>

#include "crema/layer.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class InputLayer : public Layer {
 public:
  explicit InputLayer(const LayerInit& init) : Layer(init) {
    for (const BlobShape& shape : init.param.input_param().shape()) {
      shapes_.emplace_back(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
    }
  }

  Arity arity() const override { return {0, 0, 1, -1}; }
  bool is_input() const override { return true; }

  void setup(Blobs, Blobs top) override {
    if (shapes_.size() > 1 && shapes_.size() != top.size())
      throw Error("input_param gives ", shapes_.size(), " shapes for ", top.size(),
                  " tops; give one for all of them, one each, or none");
  }
  void reshape(Blobs, Blobs top) override {
    if (shapes_.empty()) return;  // the caller gives the shape with the values
    for (size_t i = 0; i < top.size(); ++i) top[i]->reshape(shapes_[shapes_.size() == 1 ? 0 : i]);
  }
  void forward_cpu(Blobs, Blobs) override {}

 private:
  std::vector<Shape> shapes_;  // none, one for all tops, or one each
};

}  // namespace

void register_input(Registry& registry) { registry.add<InputLayer>("Input"); }

}  // namespace crema
