// GridLossLayer on a device.
#pragma once

#include <cstddef>
#include <memory>

#include "core/move.hpp"
#include "crema/layer.hpp"
#include "layers/region_loss/grid_cell.hpp"

namespace crema {

class GridLossOnDevice {
 public:
  GridLossOnDevice();
  ~GridLossOnDevice();

  /// Queued: writes the loss, and its gradient if `gradient` is not null. `rules` has pointers of
  /// the host. The run of the device reports a wrong row of the labels (core/device_run.hpp).
  void run(const ComputeDevice& device, const Layer& layer, const GridRules& rules, Blobs bottom,
           Tensor* gradient, Tensor& loss);
  size_t bytes() const;

 private:
  template <class T>
  void run_in(const ComputeDevice& device, const Layer& layer, GridRules rules, Blobs bottom,
              Tensor* gradient, Tensor& loss);
  [[noreturn]] void explain(int64_t index, double value) const;

  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace crema
