// What RowNormLayer runs on either side.
#include "layer_support/row_norm_passes.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"

namespace crema {

void RowNormLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    for_each_position(
        device, by_row(), kPassGrain,
        row_norm::Forward<T>{rows_, settings_.eps, device.read<T>(bottom[0]->data),
                             read_parameter<T>(device, scale_), read_parameter<T>(device, bias_),
                             statistics(device, true), device.overwrite<T>(top[0]->data)});
  });
}

void RowNormLayer::run_backward(const ComputeDevice& device, Blobs top,
                                const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const T *x = device.read<T>(bottom[0]->data), *dy = device.read<T>(top[0]->diff);
    const row_norm::Statistics known = statistics(device, false);
    // First: dx may overwrite dy.
    T *of_scale = gradient_of<T>(device, scale_), *of_bias = gradient_of<T>(device, bias_);
    if (of_scale || of_bias) {
      AxisSplit by_channel;
      by_channel.outer = rows_.channels();
      by_channel.size = std::max<int64_t>(rows_.each(), 1);
      for_each_position(device, by_channel, kPassGrain,
                        row_norm::ParameterGradients<T>{rows_, x, dy, known, of_scale, of_bias});
    }
    if (!propagate[0]) return;
    for_each_position(device, by_row(), kPassGrain,
                      row_norm::Backward<T>{rows_, x, dy, read_parameter<T>(device, scale_), known,
                                            device.overwrite<T>(bottom[0]->diff)});
  });
}

AxisSplit RowNormLayer::by_row() const {
  AxisSplit split;
  split.outer = rows_.rows;
  split.size = std::max<int64_t>(rows_.size, 1);
  return split;
}

row_norm::Statistics RowNormLayer::statistics(const ComputeDevice& device, bool written) {
  const auto values = [&](Tensor& tensor) {
    return written ? device.overwrite<double>(tensor) : device.change<double>(tensor);
  };
  return {values(mean_), values(inverse_deviation_)};
}

}  // namespace crema
