// ContinuationIndicator: which steps of the sequences go on from the step before. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct Indicate {
  int64_t first;  // elements of step 0
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = static_cast<T>(i < first ? 0 : 1); }
};

class ContinuationIndicatorLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override { return {.min_bottoms = 0, .max_bottoms = 1}; }
  bool can_propagate(int) const override { return false; }
  bool is_constant(int) const override { return true; }
  bool is_exact_bottom(int) const override { return false; }

  void reshape(Blobs bottom, Blobs top) override {
    const ContinuationIndicatorParameter& settings = param().continuation_indicator_param();
    int64_t steps = settings.time_step(), batch = settings.batch_size();
    if (!bottom.empty()) {
      const Shape& shape = bottom[0]->shape();
      if (shape.rank() < 2)
        throw Error("'", bottom[0]->name, "' (", shape.str(),
                    ") has no steps and samples; it needs ", "the axes T x N");
      if ((steps != 0 && steps != shape[0]) || (batch != 0 && batch != shape[1]))
        throw Error("time_step ", steps, " and batch_size ", batch, " are not those of '",
                    bottom[0]->name, "', ", shape.str(), "; leave them out");
      steps = shape[0];
      batch = shape[1];
    } else if (steps == 0 || batch == 0) {
      throw Error("time_step ", steps, " and batch_size ", batch, " must be above 0, or a bottom ",
                  "T x N x ... must give the shape");
    }
    top[0]->reshape(Shape{steps, batch});
  }

  void run_forward(const ComputeDevice& device, Blobs, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, top[0]->count(), kElementGrain,
               Indicate<T>{top[0]->shape()[1], device.overwrite<T>(top[0]->data)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
};

}  // namespace

void register_continuation_indicator(Registry& registry) {
  add_two_sided<ContinuationIndicatorLayer>(registry, "ContinuationIndicator");
}

}  // namespace crema
