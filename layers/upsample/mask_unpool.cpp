#include "layers/upsample/mask_unpool.hpp"

#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

/// Maps are independent, so that the last value of a place is the last one in memory.
template <class T>
struct Scatter {
  int64_t pooled;
  const int64_t* places;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t map) const {
    for (int64_t i = map * pooled; i < (map + 1) * pooled; ++i) y[places[i]] = x[i];
  }
};

/// Place i of the mask, in the whole top; 0 for what is none.
template <class T>
struct ReadPlace {
  NotesBad bad;
  int64_t pooled, map;
  const T* mask;
  int64_t* places;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T place = mask[i];
    const bool fits = place >= 0 && place < static_cast<T>(map) && std::floor(place) == place;
    places[i] = i / pooled * map + (fits ? static_cast<int64_t>(place) : 0);
    if (!fits) bad(i);
  }
};

template <class T>
struct Fetch {
  const int64_t* places;
  const T* dy;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const { dx[i] = dy[places[i]]; }
};

}  // namespace

void MaskUnpool::reshape(Blobs bottom, Blobs top, int64_t height, int64_t width) {
  const Shape &x = bottom[0]->shape(), &mask = bottom[1]->shape();
  if (x != mask)
    throw Error("the mask '", bottom[1]->name, "' (", mask.str(), ") must have the shape of '",
                bottom[0]->name, "' (", x.str(), "): one place for each value");
  pooled_ = x[2] * x[3];
  map_ = height * width;
  height_ = height;
  width_ = width;
  places_.reshape(x);
  top[0]->reshape(Shape{x[0], x[1], height, width});
}

void MaskUnpool::refuse(const std::string& mask, int64_t i, double place) const {
  throw Error("value ", i, " of the mask '", mask, "' is ", place, ", no place in a map of ",
              height_, " x ", width_, "; set the size that the pooled map had");
}

template <class T>
void MaskUnpool::read_there(const ComputeDevice& device, const Layer& layer, const Blob& mask) {
  const std::string& name = mask.name;
  const NotesBad bad =
      check_.begin(layer, [this, name](int64_t i, double place) { refuse(name, i, place); });
  const T* const values = device.read<T>(mask.data);
  for_each(device, places_.count(), kElementGrain,
           ReadPlace<T>{bad, pooled_, map_, values, device.overwrite<int64_t>(places_)});
  if (bad.block) for_each(device, 1, 1, FinishCheck<T>{bad, values});
}

void MaskUnpool::forward(const ComputeDevice& device, const Layer& layer, Blobs bottom, Blobs top) {
  dispatch_float(layer.dtype(), [&]<class T>(T) {
    if (!device.on_host()) return read_there<T>(device, layer, *bottom[1]);
    const T* mask = bottom[1]->data.template read<T>();
    int64_t* places = places_.overwrite<int64_t>();
    parallel_for(places_.count(), kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T place = mask[i];
        if (!(place >= 0 && place < static_cast<T>(map_)) || std::floor(place) != place)
          refuse(bottom[1]->name, i, static_cast<double>(place));
        places[i] = i / pooled_ * map_ + static_cast<int64_t>(place);
      }
    });
  });
  fill_zero(device, top[0]->data);
  const int64_t maps = pooled_ > 0 ? places_.count() / pooled_ : 0;
  dispatch_any_float(top[0]->data.dtype(), [&]<class S>(S) {
    for_each(device, maps, kPassGrain / std::max<int64_t>(pooled_, 1) + 1,
             Scatter<S>{pooled_, device.read<int64_t>(places_), device.read<S>(bottom[0]->data),
                        device.change<S>(top[0]->data)});
  });
}

void MaskUnpool::backward(const ComputeDevice& device, Blobs top, Blobs bottom) const {
  dispatch_any_float(top[0]->diff.dtype(), [&]<class S>(S) {
    for_each(device, places_.count(), kElementGrain,
             Fetch<S>{device.read<int64_t>(places_), device.read<S>(top[0]->diff),
                      device.overwrite<S>(bottom[0]->diff)});
  });
}

void UnpoolingLayer::set_mask(Blobs bottom, Blobs top, int64_t height, int64_t width) {
  has_mask_ = true;
  map_height_ = height;
  map_width_ = width;
  unpool_.reshape(bottom, top, height, width);
}

void UnpoolingLayer::check_places(int b, const PlacedMap& map, const std::string& maker) const {
  if (!has_mask_ || b != 1) return;
  // In a single row, places are the same in any map that is wide enough.
  const bool same_columns = map_width_ == map.width || (map.rows <= 1 && map_width_ > map.width);
  if (same_columns && map_height_ >= map.rows) return;
  const std::string why = same_columns
                              ? text("places of ", map.rows, " rows are no places of ", map_height_)
                              : text("where a row has ", map_width_, " columns instead of ",
                                     map.width, ", the same numbers mean other positions");
  throw Error("the mask, bottom 1, holds places in maps of ", map.height, " x ", map.width,
              ", which ", maker, " pooled, but the maps of the top are ", map_height_, " x ",
              map_width_, ": ", why, "; ", way_to_size(map));
}

std::vector<Option> UnpoolingLayer::reference_options(Blobs bottom, Blobs top) const {
  if (has_mask_) return {uniform_option(bottom, top, dtype())};
  return ResampleLayer::reference_options(bottom, top);
}

size_t UnpoolingLayer::kept_bytes() const {
  return has_mask_ ? unpool_.kept_bytes() : ResampleLayer::kept_bytes();
}

void UnpoolingLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (has_mask_) return unpool_.forward(device, *this, bottom, top);
  ResampleLayer::run_forward(device, bottom, top);
}

void UnpoolingLayer::run_backward(const ComputeDevice& device, Blobs top,
                                  const std::vector<bool>& propagate, Blobs bottom) {
  if (!has_mask_) return ResampleLayer::run_backward(device, top, propagate, bottom);
  if (propagate[0]) unpool_.backward(device, top, bottom);
}

}  // namespace crema
