#include "layers/box_annotator_ohem/region_ranks.hpp"

#include <cmath>
#include <limits>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

/// Region i is kept if fewer than `keep` of its image come before it: by falling loss, and index
/// among equal ones. A loss that is NaN comes first.
template <class T>
struct KeepRegion {
  RegionRanks ranks;
  const T *regions, *losses, *labels, *weights;
  T *kept_labels, *kept_weights;

  CREMA_FUNCTOR static double rank_of(T loss) {
    return loss == loss ? static_cast<double>(loss) : std::numeric_limits<double>::infinity();
  }
  CREMA_FUNCTOR void operator()(int64_t i) const { (*this)(i, OneLane()); }
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes) const {
    const AxisSplit &split = ranks.regions, &of_weights = ranks.weights;
    const T image = regions[split.at(i)];
    const double own = rank_of(losses[i]);
    double before = 0;
    for (int64_t k = lanes.first; k < split.positions(); k += lanes.count) {
      if (regions[split.at(k)] != image) continue;
      const double other = rank_of(losses[k]);
      before += other > own || (other == own && k < i) ? 1 : 0;
    }
    before = lanes.sum(before);
    const bool kept = before < static_cast<double>(ranks.keep);
    for (int64_t c = lanes.first; c < of_weights.size; c += lanes.count) {
      const int64_t at = of_weights.at(i) + c * of_weights.inner;
      kept_weights[at] = kept ? weights[at] : T{0};
    }
    if (lanes.first != 0) return;
    kept_labels[i] = kept ? labels[i] : static_cast<T>(ranks.ignored);
    // Also true for NaN.
    if (!(static_cast<double>(image) >= 0 && static_cast<double>(image) < 0x1p53) ||
        std::floor(image) != image)
      ranks.images(split.at(i));
    if (kept && std::floor(labels[i]) != labels[i]) ranks.labels(i);
  }
};

}  // namespace

void keep_regions(const ComputeDevice& device, const RegionRanks& ranks, Blobs bottom, Blobs top) {
  dispatch_float(bottom[0]->data.dtype(), [&]<class T>(T) {
    const T *const regions = device.read<T>(bottom[0]->data), *const labels =
                                                                  device.read<T>(bottom[2]->data);
    AxisSplit split;
    split.outer = split.size = ranks.regions.positions();
    for_each_position(
        DeviceSide(device), split, kPassGrain,
        KeepRegion<T>{ranks, regions, device.read<T>(bottom[1]->data), labels,
                      device.read<T>(bottom[3]->data), device.overwrite<T>(top[0]->data),
                      device.overwrite<T>(top[1]->data)});
    if (ranks.images.block == nullptr) return;
    for_each(device, 1, 1, FinishCheck<T>{ranks.images, regions});
    for_each(device, 1, 1, FinishCheck<T>{ranks.labels, labels});
  });
}

}  // namespace crema
