// StridedSlice: every step-th slice of a range, along several axes. See README.md.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/dispatch.hpp"
#include "core/strided.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/spread.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Element i of the top goes where it came from.
template <class E>
struct PutBack {
  Spread<1> spread;
  int64_t offset;
  const E* dy;
  E* dx;

  void on_host(int64_t begin, int64_t end) const {
    for_each_run(spread, begin, end, [&](int64_t i, const auto& places, int64_t count) {
      const int64_t step = spread.step(0);
      E* const to = dx + offset + places.of[0];
      for (int64_t k = 0; k < count; ++k) to[k * step] = dy[i + k];
    });
  }
  CREMA_FUNCTOR void operator()(int64_t i) const { dx[offset + spread.at(i).of[0]] = dy[i]; }
};

class StridedSliceLayer : public TwoSidedLayer {
 public:
  explicit StridedSliceLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const StridedSliceParameter& s = init.param.strided_slice_param();
    if (s.begin_size() != s.axis_size() || s.end_size() != s.axis_size() ||
        (s.step_size() != 0 && s.step_size() != s.axis_size()))
      throw Error(s.axis_size(), " values of axis, ", s.begin_size(), " of begin, ", s.end_size(),
                  " of end and ", s.step_size(),
                  " of step; give one of each for each axis, step may be left out");
    for (const int64_t step : s.step()) {
      if (step == 0) throw Error("step 0 goes nowhere; give another one");
    }
  }

  bool moves_values() const override { return true; }

  void reshape(Blobs bottom, Blobs top) override {
    const StridedSliceParameter& s = param().strided_slice_param();
    const Shape& from = bottom[0]->shape();
    const auto rank = static_cast<size_t>(from.rank());
    std::vector<int64_t> first(rank, 0), step(rank, 1);
    std::vector<bool> is_cut(rank, false);
    Shape to = from;
    for (int i = 0; i < s.axis_size(); ++i) {
      const int axis = from.canonical_axis(s.axis(i));
      const auto a = static_cast<size_t>(axis);
      if (is_cut[a])
        throw Error("axis ", s.axis(i), " of '", bottom[0]->name, "' (", from.str(),
                    ") is cut twice; name each axis once");
      is_cut[a] = true;
      const int64_t by = s.step_size() == 0 ? 1 : s.step(i);
      const int64_t size = from[axis];
      const int64_t begin = place(s.begin(i), size, by), end = place(s.end(i), size, by);
      // Of a distance of up to `size`: no sum below leaves 64 bits.
      const int64_t distance = by > 0 ? end - begin : begin - end;
      const int64_t stride = by > 0                                      ? by
                             : by == std::numeric_limits<int64_t>::min() ? size + 1
                                                                         : -by;
      to.set(axis, distance <= 0 ? 0 : (distance - 1) / stride + 1);
      first[a] = begin;
      step[a] = to[axis] > 1 ? by : 1;
    }
    box_ = {};
    spread_ = {};
    int64_t stride = 1;
    std::vector<int64_t> strides(rank);
    for (size_t a = rank; a-- > 0;) {
      strides[a] = stride;
      stride *= from[static_cast<int>(a)];
    }
    top[0]->reshape(to);
    if (to.count() == 0) return;
    for (size_t a = 0; a < rank; ++a) {
      box_.add(to[static_cast<int>(a)], strides[a] * step[a]);
      box_.offset += strides[a] * first[a];
    }
    box_.simplify();
    if (box_.rank() > kSpreadAxes) refuse_spread(to);
    for (size_t a = 0; a < box_.extents.size(); ++a)
      spread_.add(box_.extents[a], {box_.strides[a]});
    same_ = to == from && box_.offset == 0 && box_.is_copy();
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return moving_options(*this, bottom, top, false);
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const Tensor& x = bottom[0]->data;
    if (same_) return copy(device, x, top[0]->data);
    if (top[0]->count() == 0) return;
    gather(device, box_, size_of(x.dtype()), device.read_bytes(x),
           device.overwrite_bytes(top[0]->data));
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    if (same_) return copy(device, top[0]->diff, bottom[0]->diff);
    fill_zero(device, bottom[0]->diff);
    if (top[0]->count() == 0) return;
    dispatch_any_float(top[0]->diff.dtype(), [&]<class E>(E) {
      for_each(device, top[0]->count(), kElementGrain,
               PutBack<E>{spread_, box_.offset, device.read<E>(top[0]->diff),
                          device.change<E>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return same_ ? InPlace::alias : InPlace::never; }

 private:
  /// `given`, counted from the end if negative, moved to where a walk along the axis begins or
  /// ends.
  static int64_t place(int64_t given, int64_t size, int64_t step) {
    const int64_t at = given < 0 ? given + size : given;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  }

  StridedGather box_;
  Spread<1> spread_;  // the box without its offset
  bool same_ = false;
};

}  // namespace

void register_strided_slice(Registry& registry) {
  add_two_sided<StridedSliceLayer>(registry, "StridedSlice");
}

}  // namespace crema
