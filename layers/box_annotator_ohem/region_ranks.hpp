// BoxAnnotatorOHEM on a device.
#pragma once

#include "core/axis_split.hpp"
#include "core/move.hpp"
#include "crema/blob.hpp"
#include "layer_support/device_check.hpp"

namespace crema {

struct RegionRanks {
  AxisSplit regions, weights;
  int64_t keep;     // regions an image
  double ignored;   // label of the others
  NotesBad images;  // that are no whole numbers from 0 on, by the place in bottom 0
  NotesBad labels;  // of kept regions, that are no whole numbers
};

/// Writes both tops: queued.
void keep_regions(const ComputeDevice& device, const RegionRanks& ranks, Blobs bottom, Blobs top);

}  // namespace crema
