#include "layers/flatten/flatten.hpp"

#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {

FlattenLayer::FlattenLayer(const LayerInit& init)
    : Layer(init),
      axis_(init.param.flatten_param().axis()),
      end_axis_(init.param.flatten_param().end_axis()) {}

void FlattenLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  const int first = shape.canonical_axis(axis_), last = shape.canonical_axis(end_axis_);
  require(first <= last, "end_axis ", end_axis_, " lies before axis ", axis_, " in ", shape.str(),
          "; exchange them");
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + first);
  dims.push_back(shape.count(first, last + 1));
  dims.insert(dims.end(), shape.dims().begin() + last + 1, shape.dims().end());
  top[0]->reshape(Shape(std::move(dims)));
}

void FlattenLayer::forward_cpu(Blobs bottom, Blobs top) {
  if (!top[0]->data.same_memory(bottom[0]->data)) {
    top[0]->data.copy_from(bottom[0]->data.view(top[0]->shape()));
  }
}

void FlattenLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (propagate[0] && !bottom[0]->diff.same_memory(top[0]->diff)) {
    bottom[0]->diff.copy_from(top[0]->diff.view(bottom[0]->shape()));
  }
}

void register_flatten(Registry& registry);

void register_flatten(Registry& registry) { registry.add<FlattenLayer>("Flatten"); }

}  // namespace crema
