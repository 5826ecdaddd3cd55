// Flatten: joins neighbouring axes into one. See README.md.
#include "core/move.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class FlattenLayer : public TwoSidedLayer {
 public:
  explicit FlattenLayer(const LayerInit& init)
      : TwoSidedLayer(init),
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

  // Contiguous values are the same in either shape: at most they are copied.
  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    copy(side, bottom[0]->data, top[0]->data);
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    copy(side, top[0]->diff, bottom[0]->diff);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return moving_options(*this, bottom, top, false);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return InPlace::alias; }

 private:
  int axis_, end_axis_;
};

}  // namespace

void register_flatten(Registry& registry) { add_two_sided<FlattenLayer>(registry, "Flatten"); }

}  // namespace crema
