// MemoryData: how programs feed layers of type MemoryData.
//
//   crema::MemoryData& memory = crema::MemoryData::of(net.layer("data"));
//   memory.set(pixels, labels);     // vectors of n * C * H * W and of n numbers
//   net.forward();                  // the first batch; each forward takes the next one
//
// One thread at a time may use a layer.
#pragma once

#include <span>

#include "crema/layer.hpp"
#include "crema/tensor.hpp"

namespace crema {

class MemoryData {
 public:
  virtual ~MemoryData() = default;
  /// Error if the layer is of another type.
  static MemoryData& of(Layer& layer);

  /// Gives the layer n records, n >= 1: `data` (n, C, H, W), with C, H, W of the layer's settings,
  /// and `labels`, n numbers of any shape. Both are contiguous, of any element type: forward
  /// converts to that of the net, and refuses integers that have no exact value in it. Nothing is
  /// copied: the layer keeps views of the memory, which must not change while forward runs. The
  /// next batch begins at the first record; behind the last one follows the first again. Give the
  /// data before Solver::restore().
  virtual void set(Tensor data, Tensor labels) = 0;
  /// The same for arrays, which are copied.
  void set(std::span<const float> data, std::span<const float> labels);

 protected:
  /// (C, H, W) of a record.
  virtual Shape record_shape() const = 0;
};

}  // namespace crema
