// Tile: repeats its bottom along one axis. See README.md.
#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "core/moves_values.hpp"
#include "kit/passes.hpp"
#include "kit/position_sums.hpp"
#include "kit/sums.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The top is `tiles` copies of piece 0 of the bottom, `tiles` of piece 1, ...
template <class T>
struct Repeat {
  int64_t tiles, piece;
  const T* x;
  T* y;

  void on_host(int64_t begin, int64_t end) const {
    const int64_t copies = begin / piece;
    int64_t at = begin, first = copies / tiles * piece, tile = copies % tiles;
    int64_t within = begin - copies * piece;
    while (at < end) {
      int64_t count = piece == 1 ? tiles - tile : piece - within;
      count = std::min(count, end - at);
      if (piece == 1) {
        std::fill_n(y + at, count, x[first]);
        tile = tiles;
      } else {
        std::copy_n(x + first + within, count, y + at);
        ++tile;
      }
      at += count;
      within = 0;
      if (tile == tiles) first += piece, tile = 0;
    }
  }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t copies = i / piece;
    y[i] = x[copies / tiles * piece + i - copies * piece];
  }
};

class TileLayer : public TwoSidedLayer, public MovesValues {
 public:
  explicit TileLayer(const LayerInit& init)
      : TwoSidedLayer(init), tiles_(init.param.tile_param().tiles()) {
    if (tiles_ <= 0)
      throw Error("tiles is ", init.param.tile_param().has_tiles() ? concat(tiles_) : "missing",
                  "; say tile_param { tiles: N } with N > 0, the number of copies");
  }

  void reshape(Blobs bottom, Blobs top) override {
    Shape shape = bottom[0]->shape();
    const int axis = shape.canonical_axis(param().tile_param().axis());
    // The top: (outer, copies, piece of the bottom).
    split_.outer = shape.count(0, axis);
    split_.size = tiles_;
    split_.inner = shape.count(axis);
    shape.set(axis, checked_multiply(shape[axis], tiles_, "axis times tiles"));
    top[0]->reshape(shape);
  }
  Flops flops(Blobs, Blobs top) const override {
    return {0, tiles_ == 1 ? 0 : static_cast<double>(top[0]->count())};
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    if (tiles_ == 1) return copy(side, bottom[0]->data, top[0]->data);
    if (split_.inner == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(side, top[0]->count(), kElementGrain,
               Repeat<T>{tiles_, split_.inner, side.read<T>(bottom[0]->data),
                         side.overwrite<T>(top[0]->data)});
    });
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    if (tiles_ == 1) return copy(side, top[0]->diff, bottom[0]->diff);
    dispatch_float(dtype(), [&]<class T>(T) {
      position_sums(side, split_, Value<T>{side.read<T>(top[0]->diff)},
                    StoreSum<T>{1, side.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return tiles_ == 1 ? InPlace::alias : InPlace::never;
  }

 private:
  int64_t tiles_;
  AxisSplit split_;
};

}  // namespace

void register_tile(Registry& registry) { add_two_sided<TileLayer>(registry, "Tile"); }

}  // namespace crema
