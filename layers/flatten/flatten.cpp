// Flatten: joins neighbouring axes into one. See README.md.
#include "layer_support/reshaping.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class FlattenLayer : public ReshapingLayer {
 public:
  explicit FlattenLayer(const LayerInit& init)
      : ReshapingLayer(init),
        axis_(init.param.flatten_param().axis()),
        end_axis_(init.param.flatten_param().end_axis()) {}

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const int first = shape.canonical_axis(axis_), last = shape.canonical_axis(end_axis_);
    if (first > last)
      throw Error("end_axis ", end_axis_, " lies before axis ", axis_, " in ", shape.str(),
                  "; exchange them");
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + first);
    dims.push_back(shape.count(first, last + 1));
    dims.insert(dims.end(), shape.dims().begin() + last + 1, shape.dims().end());
    top[0]->reshape(Shape(std::move(dims)));
  }

 private:
  int axis_, end_axis_;
};

}  // namespace

void register_flatten(Registry& registry) { add_two_sided<FlattenLayer>(registry, "Flatten"); }

}  // namespace crema
