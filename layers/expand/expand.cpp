// Expand: repeats the bottom along axes of size 1. See README.md.
#include <algorithm>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "core/strided.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/spread.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The gradient of each copy.
template <class T, class In>
struct CopyGradient {
  using Value = T;
  In dy;
  CREMA_FUNCTOR T operator()(const Spread<2>::Places& at) const { return dy[at.of[1]]; }
  void run(const Spread<2>&, const Spread<2>::Places& at, int64_t n, T* to) const {
    std::copy_n(dy + at.of[1], n, to);
  }
};

class ExpandLayer : public TwoSidedLayer {
 public:
  explicit ExpandLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const auto& dims = init.param.expand_param().dim();
    for (const int64_t dim : dims) {
      if (dim < kOfSecond)
        throw Error("dim ", dim, " is no size; give 0 or more, -1 for the size of bottom 0, or -2 ",
                    "for that of bottom 1");
    }
    const bool follows = std::ranges::find(dims, kOfSecond) != dims.end();
    has_second_ = init.param.bottom_size() > 1;
    if (follows && !has_second_)
      throw Error("dim: -2 is the size of bottom 1, which is not given; name a bottom that has it");
    if (has_second_ && !follows)
      throw Error("'", init.param.bottom(1), "' is of no use, because no dim is -2, the size of ",
                  "bottom 1; say dim: -2, or leave the bottom out");
  }

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  // Of bottom 1, the shape alone counts.
  bool is_constant(int bottom) const override { return bottom == 1; }
  bool is_exact_bottom(int) const override { return false; }
  bool moves_values() const override { return true; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& from = bottom[0]->shape();
    const auto& given = param().expand_param().dim();
    const int rank = std::max(from.rank(), given.size());
    std::vector<int64_t> dims;
    for (int a = 0; a < rank; ++a) {
      const int of_bottom = a - (rank - from.rank()), of_setting = a - (rank - given.size());
      int64_t dim = of_setting < 0 ? kOfFirst : given[of_setting];
      if (dim == kOfSecond) dim = size_of_second(*bottom[1], a);
      const int64_t size = of_bottom < 0 ? 1 : from[of_bottom];
      if (dim == kOfFirst && of_bottom < 0)
        throw Error("dim ", of_setting, " is -1, the size of the bottom, but '", bottom[0]->name,
                    "' (", from.str(), ") has no such axis; give a size");
      if (dim != kOfFirst && size != 1 && dim != size)
        throw Error("axis ", of_bottom, " of '", bottom[0]->name, "' (", from.str(), ") has ", size,
                    " elements and cannot get ", dim, "; give -1 or ", size, " there");
      dims.push_back(dim == kOfFirst ? size : dim);
    }
    const Shape whole(std::move(dims));
    spread_ = spread_of<2>(whole, {from, whole});
    box_ = {};
    const std::vector<int64_t> strides = spread_strides(from, whole);
    for (int a = 0; a < whole.rank(); ++a) box_.add(whole[a], strides[static_cast<size_t>(a)]);
    box_.simplify();
    same_ = from.count() == whole.count();
    top[0]->reshape(whole);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return {uniform_option(bottom, top, dtype())};
  }
  bool stores_16_bits() const override { return true; }
  Flops flops(Blobs, Blobs top) const override {
    return {0, same_ ? 0 : static_cast<double>(top[0]->count())};
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
    const Tensor& dy = top[0]->diff;
    Tensor& dx = bottom[0]->diff;
    if (same_) return copy(device, dy, dx);
    const SpreadSplit<2> split(spread_, 0);
    dispatch_float(dtype(), [&]<class T>(T) {
      if (device.on_host()) {
        return spread_sums(HostSide(), split, CopyGradient<T, const T*>{device.read<T>(dy)},
                           StoreSpreadSum<T, T*>{device.overwrite<T>(dx)});
      }
      spread_sums(DeviceSide(device), split, CopyGradient<T, ValuesIn<T>>{values_in<T>(device, dy)},
                  StoreSpreadSum<T, ValuesOut<T>>{values_out<T>(device, dx)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return same_ && !has_second_ ? InPlace::alias : InPlace::never;
  }

 private:
  static constexpr int64_t kOfFirst = -1, kOfSecond = -2;  // sizes that are those of bottoms

  static int64_t size_of_second(const Blob& second, int axis) {
    if (axis >= second.shape().rank())
      throw Error("dim ", axis, " of the top is -2, the size of bottom 1, but '", second.name,
                  "' (", second.shape().str(), ") has no axis ", axis, "; give a size");
    return second.shape()[axis];
  }

  Spread<2> spread_;  // of the bottom and the top
  StridedGather box_;
  bool same_ = false;        // as many values
  bool has_second_ = false;  // bottom 1
};

}  // namespace

void register_expand(Registry& registry) { add_two_sided<ExpandLayer>(registry, "Expand"); }

}  // namespace crema
