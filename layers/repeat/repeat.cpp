// Repeat: repeats each slice of an axis. See README.md.
#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "core/moves_values.hpp"
#include "core/strided.hpp"
#include "kit/passes.hpp"
#include "kit/position_sums.hpp"
#include "kit/sums.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class RepeatLayer : public TwoSidedLayer, public MovesValues {
 public:
  explicit RepeatLayer(const LayerInit& init)
      : TwoSidedLayer(init), times_(init.param.repeat_param().times()) {
    if (times_ == 0) throw Error("times is 0; give the number of copies of each slice");
  }

  void reshape(Blobs bottom, Blobs top) override {
    Shape shape = bottom[0]->shape();
    const int axis = shape.canonical_axis(param().repeat_param().axis());
    // The top: (outer and the slices, copies, inner).
    split_.outer = shape.count(0, axis + 1);
    split_.size = times_;
    split_.inner = shape.count(axis + 1);
    box_ = {};
    box_.add(split_.outer, split_.inner);
    box_.add(times_, 0);
    box_.add(split_.inner, 1);
    box_.simplify();
    shape.set(axis, checked_multiply(shape[axis], times_, "axis times times"));
    top[0]->reshape(shape);
  }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return {uniform_option(bottom, top, dtype())};
  }
  Flops flops(Blobs, Blobs top) const override {
    return {0, times_ == 1 ? 0 : static_cast<double>(top[0]->count())};
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    const Tensor& x = bottom[0]->data;
    if (times_ == 1) return copy(side, x, top[0]->data);
    gather(side, box_, size_of(x.dtype()), side.read_bytes(x), side.overwrite_bytes(top[0]->data));
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    if (times_ == 1) return copy(side, top[0]->diff, bottom[0]->diff);
    dispatch_float(dtype(), [&]<class T>(T) {
      position_sums(side, split_, Value<T>{side.read<T>(top[0]->diff)},
                    StoreSum<T>{1, side.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return times_ == 1 ? InPlace::alias : InPlace::never;
  }

 private:
  int64_t times_;
  AxisSplit split_;
  StridedGather box_;
};

}  // namespace

void register_repeat(Registry& registry) { add_two_sided<RepeatLayer>(registry, "Repeat"); }

}  // namespace crema
