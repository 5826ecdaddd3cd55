// Slice: cuts its bottom along one axis. See README.md.
#include "layer_support/parts.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

int axis_in(const SliceParameter& settings) {
  if (settings.has_slice_dim() && settings.has_axis())
    throw Error("axis and slice_dim mean the same; keep axis");
  return settings.has_slice_dim() ? static_cast<int>(settings.slice_dim()) : settings.axis();
}

class SliceLayer : public PartsLayer {
 public:
  explicit SliceLayer(const LayerInit& init)
      : PartsLayer(init, Makes::parts, axis_in(init.param.slice_param())) {}

  Arity arity() const override { return {.min_tops = 1, .max_tops = -1}; }

  void setup(Blobs, Blobs top) override {
    const auto tops = static_cast<int>(top.size());
    const int points = param().slice_param().slice_point_size();
    if (points != 0 && points != tops - 1)
      throw Error(points, " values of slice_point cut the bottom into ", points + 1,
                  " parts, but there are ", tops,
                  " tops; give one value less than tops, or none for equal parts");
  }

  void reshape(Blobs bottom, Blobs top) override {
    Shape part = bottom[0]->shape();
    const int axis = axis_of(part);
    const int64_t size = part[axis], tops = static_cast<int64_t>(top.size());
    const auto& points = param().slice_param().slice_point();
    if (points.empty() && size % tops != 0)
      throw Error("axis ", axis, " of the bottom, ", part.str(), ", cannot be cut into ", tops,
                  " equal parts; set slice_point");
    int64_t begin = 0;
    for (int64_t k = 0; k < tops; ++k) {
      const bool last = k + 1 == tops;
      const int64_t end = last             ? size
                          : points.empty() ? size / tops * (k + 1)
                                           : int64_t{points[static_cast<int>(k)]};
      if (!points.empty() && begin >= end)
        throw Error("part ", k, " of axis ", axis, " goes from ", begin, " to ", end,
                    "; the values of slice_point must ascend and lie between 0 and ", size,
                    ", the size of the axis");
      part.set(axis, end - begin);
      top[static_cast<size_t>(k)]->reshape(part);
      begin = end;
    }
  }
};

}  // namespace

void register_slice(Registry& registry) { add_two_sided<SliceLayer>(registry, "Slice"); }

}  // namespace crema
