// Concat: joins its bottoms along one axis. See README.md.
#include "layer_support/parts.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

int axis_in(const ConcatParameter& settings) {
  if (settings.has_concat_dim() && settings.has_axis())
    throw Error("axis and concat_dim mean the same; keep axis");
  return settings.has_concat_dim() ? static_cast<int>(settings.concat_dim()) : settings.axis();
}

class ConcatLayer : public PartsLayer {
 public:
  explicit ConcatLayer(const LayerInit& init)
      : PartsLayer(init, Makes::whole, axis_in(init.param.concat_param())) {}

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = -1}; }

  void reshape(Blobs bottom, Blobs top) override {
    Shape joined = bottom[0]->shape();
    const int axis = axis_of(joined);
    int64_t total = joined[axis];
    for (const Blob* other : bottom.subspan(1)) {
      const Shape& shape = other->shape();
      bool fits = shape.rank() == joined.rank();
      for (int a = 0; fits && a < shape.rank(); ++a) fits = a == axis || shape[a] == joined[a];
      if (!fits)
        throw Error("bottoms differ in more than axis ", axis, ", along which they are joined: '",
                    bottom[0]->name, "' is ", joined.str(), ", '", other->name, "' is ",
                    shape.str());
      total += shape[axis];
    }
    joined.set(axis, total);
    top[0]->reshape(joined);
  }
};

}  // namespace

void register_concat(Registry& registry) { add_two_sided<ConcatLayer>(registry, "Concat"); }

}  // namespace crema
