// What RowNormLayer runs on either side.
#include "layer_support/row_norm_passes.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"

namespace crema {
namespace {

constexpr int64_t kRowGrain = 4096;  // values for which a further thread is worthwhile

/// Runs body.on_host() for [0, count), each of `values` values, on the threads.
template <class Body>
void run_rows(int64_t count, int64_t values, const Body& body) {
  parallel_for(count, kRowGrain / std::max<int64_t>(values, 1) + 1,
               [&](int64_t begin, int64_t end) { body.on_host(begin, end); });
}

}  // namespace

void RowNormLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (!device.on_host()) return forward_on(device, bottom, top);
  dispatch_float(dtype(), [&]<class T>(T) {
    run_rows(
        rows_.rows, rows_.size,
        row_norm::Forward<T>{rows_, settings_.eps, device.read<T>(bottom[0]->data),
                             read_parameter<T>(device, scale_), read_parameter<T>(device, bias_),
                             statistics(device, true), device.overwrite<T>(top[0]->data)});
  });
}

void RowNormLayer::run_backward(const ComputeDevice& device, Blobs top,
                                const std::vector<bool>& propagate, Blobs bottom) {
  if (!device.on_host()) return backward_on(device, top, propagate[0], bottom);
  dispatch_float(dtype(), [&]<class T>(T) {
    const T *x = device.read<T>(bottom[0]->data), *dy = device.read<T>(top[0]->diff);
    const row_norm::Statistics known = statistics(device, false);
    // First: dx may overwrite dy.
    T *of_scale = gradient_of<T>(device, scale_), *of_bias = gradient_of<T>(device, bias_);
    if (of_scale || of_bias) {
      run_rows(rows_.channels(), rows_.each(),
               row_norm::ParameterGradients<T>{rows_, x, dy, known, of_scale, of_bias});
    }
    if (!propagate[0]) return;
    run_rows(rows_.rows, rows_.size,
             row_norm::Backward<T>{rows_, x, dy, read_parameter<T>(device, scale_), known,
                                   device.overwrite<T>(bottom[0]->diff)});
  });
}

row_norm::Statistics RowNormLayer::statistics(const ComputeDevice& device, bool written) {
  const auto values = [&](Tensor& tensor) {
    return written ? device.overwrite<double>(tensor) : device.change<double>(tensor);
  };
  return {values(mean_), values(inverse_deviation_)};
}

}  // namespace crema
