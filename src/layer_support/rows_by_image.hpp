// Rows of a batch, such as true boxes, listed by their images on a device. For sources that include
// layer_support/passes.hpp.
#pragma once

#include <algorithm>

#include "layer_support/block_choice.hpp"
#include "layer_support/blocks.hpp"

namespace crema {

/// Rows in memory of the device.
struct RowsByImage {
  int64_t images, rows;
  int32_t* images_of;  // (rows): given; -1 for rows that are left out
  int32_t* order;      // (rows): those of image 0, then of image 1, ...; each in the order of rows
  int64_t* first;      // (images + 1): of each image, in `order`

  CREMA_FUNCTOR int64_t count_of(int64_t image) const { return first[image + 1] - first[image]; }
  /// Row t of an image.
  CREMA_FUNCTOR int64_t row(int64_t image, int64_t t) const { return order[first[image] + t]; }
};

/// Item: an image.
struct ListRows {
  RowsByImage all;
  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t image, const Lanes& lanes) const {
    int64_t before = 0;
    for (int64_t i = lanes.first; i < all.rows; i += lanes.count)
      before += all.images_of[i] >= 0 && all.images_of[i] < image ? 1 : 0;
    before = static_cast<int64_t>(lanes.sum(static_cast<double>(before)));
    const int64_t own = take_items(
        lanes, all.rows, [&](int64_t i) { return all.images_of[i] == image; },
        [&](int64_t i, int64_t k) { all.order[before + k] = static_cast<int32_t>(i); });
    if (lanes.first != 0) return;
    all.first[image] = before;
    if (image + 1 == all.images) all.first[image + 1] = before + own;
  }
};

/// Queued: writes `order` and `first`.
inline void list_rows(const ComputeDevice& device, const RowsByImage& all) {
  for_each_block(device, all.images, std::clamp<int64_t>(all.rows, 1, kMostLanes), kMostLanes,
                 ListRows{all});
}

}  // namespace crema
