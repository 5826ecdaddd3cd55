// RegionLayer on a device.
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/regions.hpp"

namespace crema {
namespace {

/// Region r; what is wrong counts as an empty one of image 0.
template <class T>
struct ReadRegion {
  NotesBad bad;
  int64_t images;
  const T* from;
  Region* to;
  CREMA_FUNCTOR void operator()(int64_t r) const {
    const T* const row = from + 5 * r;
    const auto image = static_cast<double>(row[0]);
    int64_t wrong = -1;
    if (!(image >= 0 && image < static_cast<double>(images)) || std::floor(image) != image)
      wrong = 0;
    for (int64_t k = 1; k < 5; ++k) {
      if (wrong < 0 && !(std::abs(static_cast<double>(row[k])) < kMostCoordinate)) wrong = k;
    }
    if (wrong >= 0) {
      to[r] = {0, 0, 0, 0, 0};
      return bad(5 * r + wrong);
    }
    to[r] = {static_cast<int64_t>(image), static_cast<double>(row[1]), static_cast<double>(row[2]),
             static_cast<double>(row[3]), static_cast<double>(row[4])};
  }
};

}  // namespace

void RegionLayer::read_there(const ComputeDevice& device, Blobs bottom) {
  const std::string& name = bottom[1]->name;
  const NotesBad bad = check_.begin(*this, [this, name](int64_t index, double value) {
    if (index % 5 == 0) refuse_image(name, index / 5, value, images_);
    refuse_coordinate(name, index / 5, value);
  });
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* const from = device.read<T>(bottom[1]->data);
    auto* const to = reinterpret_cast<Region*>(device.overwrite<int64_t>(regions_));
    for_each(device, bottom[1]->shape()[0], kPassGrain, ReadRegion<T>{bad, images_, from, to});
    if (bad.block) for_each(device, 1, 1, FinishCheck<T>{bad, from});
  });
}

}  // namespace crema
