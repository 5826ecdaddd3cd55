#include "layers/tile/tile.hpp"

#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/position_sums.hpp"
#include "layer_support/sums.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// On a device.

template <class T>
struct CopyTerm {
  ValuesIn<T> dy;
  CREMA_FUNCTOR double operator()(int64_t i) const { return static_cast<double>(dy[i]); }
};
template <class T>
struct StoreCopies {
  ValuesOut<T> dx;
  CREMA_FUNCTOR void operator()(int64_t i, double sum) const { dx[i] = static_cast<T>(sum); }
};

class TileLayer : public CopiesLayer {
 public:
  explicit TileLayer(const LayerInit& init)
      : CopiesLayer(init, init.param.tile_param().tiles(), init.param.tile_param().axis(),
                    Piece::axis) {
    const TileParameter& settings = init.param.tile_param();
    if (settings.tiles() <= 0)
      throw Error("tiles is ", settings.has_tiles() ? text(settings.tiles()) : "missing",
                  "; say tile_param { tiles: N } with N > 0, the number of copies");
  }
};

}  // namespace

void CopiesLayer::reshape(Blobs bottom, Blobs top) {
  Shape shape = bottom[0]->shape();
  const int axis = shape.canonical_axis(axis_);
  const int first = piece_ == Piece::axis ? axis : axis + 1;
  split_.outer = shape.count(0, first);
  split_.size = times_;
  split_.inner = shape.count(first);
  box_ = {};
  box_.add(split_.outer, split_.inner);
  box_.add(times_, 0);
  box_.add(split_.inner, 1);
  box_.simplify();
  shape.set(axis, checked_multiply(shape[axis], times_, "axis times copies"));
  top[0]->reshape(shape);
}

Flops CopiesLayer::flops(Blobs, Blobs top) const {
  return {0, times_ == 1 ? 0 : static_cast<double>(top[0]->count())};
}

void CopiesLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  if (times_ == 1) return copy(device, x, top[0]->data);
  gather(device, box_, size_of(x.dtype()), device.read_bytes(x),
         device.overwrite_bytes(top[0]->data));
}

void CopiesLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                               Blobs bottom) {
  if (times_ == 1) return copy(device, top[0]->diff, bottom[0]->diff);
  const Tensor& dy = top[0]->diff;
  Tensor& dx = bottom[0]->diff;
  dispatch_float(dtype(), [&]<class T>(T) {
    if (device.on_host()) {
      return position_sums(HostSide(), split_, Value<T>{device.read<T>(dy)},
                           StoreSum<T>{1, device.overwrite<T>(dx)});
    }
    position_sums(DeviceSide(device), split_, CopyTerm<T>{values_in<T>(device, dy)},
                  StoreCopies<T>{values_out<T>(device, dx)});
  });
}

void register_tile(Registry& registry) { add_two_sided<TileLayer>(registry, "Tile"); }

}  // namespace crema
