// What RowNormLayer runs on either side.
#include "layer_support/row_norm_passes.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "layer_support/row_norm_kernels.hpp"

namespace crema {
namespace {

constexpr int64_t kRowGrain = 4096;  // values for which a further thread is worthwhile

/// Runs body.on_host() for [0, count), each of `values` values, on the threads.
template <class Body>
void run_rows(int64_t count, int64_t values, const Body& body) {
  parallel_for(count, kRowGrain / std::max<int64_t>(values, 1) + 1,
               [&](int64_t begin, int64_t end) { body.on_host(begin, end); });
}

/// Rows whose gradients of the coefficients are added up in f32 before those of all rows are, in
/// f64. The sums do not depend on the number of threads.
constexpr int64_t kMostTogether = 64, kLeastTogether = 8, kPieces = 16;

int64_t rows_together(int64_t rows) {
  return std::clamp(rows / kPieces, kLeastTogether, kMostTogether);
}

}  // namespace

bool RowNormLayer::has_vector_rows() const {
  return dtype() == DType::f32 && rows_.inner == 1 && rows_.groups == 1 && rows_.size > 0;
}

int64_t RowNormLayer::partial_sums() const {
  const bool wanted = scale_ != nullptr || bias_ != nullptr;
  if (!has_vector_rows() || !trains() || !wanted || rows_.rows < kLeastTogether) return 0;
  const int64_t together = rows_together(rows_.rows);
  return (rows_.rows + together - 1) / together * 2 * rows_.size;
}

void RowNormLayer::vector_rows_forward(const float* x, const float* scale, const float* bias,
                                       const row_norm::Statistics& to, float* y) const {
  const int64_t n = rows_.size;
  parallel_for(rows_.rows, kRowGrain / n + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const row_norm::Moments moments =
          row_norm::normalize_row(n, x + row * n, settings_.eps, scale, bias, y + row * n);
      to.mean[row] = moments.mean;
      to.inverse_deviation[row] = moments.inverse_deviation;
    }
  });
}

void RowNormLayer::vector_rows_backward(const float* x, const float* dy, const float* scale,
                                        const row_norm::Statistics& known, float* dx,
                                        float* of_scale, float* of_bias) {
  const int64_t n = rows_.size, together = rows_together(rows_.rows);
  const int64_t pieces = (rows_.rows + together - 1) / together;
  float* const sums = partial_.overwrite<float>();  // (piece, of scale and of bias, n)
  parallel_for(pieces, kRowGrain / (n * together) + 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      float* const own = sums + piece * 2 * n;
      std::fill_n(own, 2 * n, 0.0F);
      const int64_t end = std::min(rows_.rows, (piece + 1) * together);
      for (int64_t row = piece * together; row < end; ++row) {
        row_norm::normalize_row_backward(
            n, x + row * n, dy + row * n, scale, {known.mean[row], known.inverse_deviation[row]},
            dx != nullptr ? dx + row * n : nullptr, of_scale != nullptr ? own : nullptr,
            of_bias != nullptr ? own + n : nullptr);
      }
    }
  });
  const auto add_up = [&](const float* from, float* to) {
    if (to == nullptr) return;
    parallel_for(n, kRowGrain / pieces + 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < pieces; ++p) sum += static_cast<double>(from[p * 2 * n + j]);
        to[j] += static_cast<float>(sum);
      }
    });
  };
  add_up(sums, of_scale);
  add_up(sums + n, of_bias);
}

void RowNormLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (!device.on_host()) return forward_on(device, bottom, top);
  if (has_vector_rows()) {
    return vector_rows_forward(device.read<float>(bottom[0]->data),
                               read_parameter<float>(device, scale_),
                               read_parameter<float>(device, bias_), statistics(device, true),
                               device.overwrite<float>(top[0]->data));
  }
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
  if (partial_.count() > 0) {
    const float *x = device.read<float>(bottom[0]->data), *dy = device.read<float>(top[0]->diff);
    return vector_rows_backward(
        x, dy, read_parameter<float>(device, scale_), statistics(device, false),
        propagate[0] ? device.overwrite<float>(bottom[0]->diff) : nullptr,
        gradient_of<float>(device, scale_), gradient_of<float>(device, bias_));
  }
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
