// Reshape: the same values in another shape. See README.md.
#include <algorithm>

#include "core/checked.hpp"
#include "layer_support/reshaping.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ReshapeLayer : public ReshapingLayer {
 public:
  explicit ReshapeLayer(const LayerInit& init) : ReshapingLayer(init) {
    const ReshapeParameter& settings = init.param.reshape_param();
    dims_.assign(settings.shape().dim().begin(), settings.shape().dim().end());
    axis_ = settings.axis();
    num_axes_ = settings.num_axes();
    if (num_axes_ < -1)
      throw Error("num_axes ", num_axes_,
                  " is below -1; give the number of axes to replace, or -1 for all from axis on");
    if (std::ranges::count(dims_, -1) > 1)
      throw Error("shape has ", std::ranges::count(dims_, -1),
                  " dimensions of -1; only one of them can be inferred");
    for (const int64_t dim : dims_) {
      if (dim < -1)
        throw Error("shape has dimension ", dim,
                    "; give a size, 0 for the bottom's, or -1 for the one to infer");
    }
    if (settings.pixelshuffler() != 1)
      throw Error("pixelshuffler ", settings.pixelshuffler(),
                  " of a fork would move values, which Reshape does not; remove it");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    const int first = axis_ < 0 ? axis_ + from.rank() + 1 : axis_;
    if (first < 0 || first > from.rank() || num_axes_ > from.rank() - first)
      throw Error("axis ", axis_, " and num_axes ", num_axes_, " do not lie within the ",
                  from.rank(), " axes of '", bottom[0]->name, "' (", from.str(), ")");
    const int end = num_axes_ == -1 ? from.rank() : first + num_axes_;
    std::vector<int64_t> dims(from.dims().begin(), from.dims().begin() + first);
    // What replaces axes has to have as many values as they have, beside those that it keeps: an
    // empty axis that is kept leaves the others' sizes known.
    int64_t replaced = 1, given = 1;
    int inferred = -1;
    for (int a = first; a < end; ++a) {
      const bool kept = a - first < static_cast<int>(dims_.size()) && dim(a - first) == 0;
      if (!kept) replaced = checked_multiply(replaced, from[a], "the axes to replace");
    }
    for (int i = 0; i < static_cast<int>(dims_.size()); ++i) {
      if (dim(i) == 0 && first + i >= from.rank())
        throw Error("dimension ", i, " of shape is 0 and stands for axis ", first + i, " of '",
                    bottom[0]->name, "', which has ", from.rank(), " axes (", from.str(),
                    "); give its size");
      if (dim(i) == -1) inferred = first + i;
      dims.push_back(dim(i) == 0 ? from[first + i] : std::max<int64_t>(dim(i), 1));
      if (dim(i) > 0 || first + i >= end)
        given = checked_multiply(given, dims.back(), "dimensions of shape");
    }
    dims.insert(dims.end(), from.dims().begin() + end, from.dims().end());
    if (inferred >= 0) {
      if (given == 0 || replaced % given != 0)
        throw Error("the dimension -1 cannot be inferred: the axes of '", bottom[0]->name, "' (",
                    from.str(), ") that shape replaces have ", replaced,
                    " values, which its other dimensions, ", given, " values, do not divide");
      dims[static_cast<size_t>(inferred)] = replaced / given;
    }
    const Shape to(std::move(dims));
    if (to.count() != from.count())
      throw Error("shape makes a top of ", to.str(), ", ", to.count(), " values, of '",
                  bottom[0]->name, "' (", from.str(), "), ", from.count(),
                  " values; give one dimension as -1 to infer it");
    top[0]->reshape(to);
  }

 private:
  int64_t dim(int i) const { return dims_[static_cast<size_t>(i)]; }

  std::vector<int64_t> dims_;
  int axis_, num_axes_;
};

}  // namespace

void register_reshape(Registry& registry) { add_two_sided<ReshapeLayer>(registry, "Reshape"); }

}  // namespace crema
