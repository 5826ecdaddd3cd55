// Layers that normalize parts of each sample: LayerNorm, GroupNorm, InstanceNorm. A part is a row
// of contiguous memory. Sources include layer_support/passes.hpp themselves, so that nvcc compiles
// them.
//
//   y = (x - mean) / sqrt(variance + eps) * scale + bias, the variance being that of the row itself
#pragma once

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/common.pb.h"

namespace crema {
namespace row_norm {

/// Rows of `size` elements. Element j of row r has the coefficients of channel
/// r % groups * channels_each + j / inner.
struct Rows {
  int64_t rows = 0, size = 1;
  int64_t groups = 1, channels_each = 1, inner = 1;

  CREMA_FUNCTOR int64_t channel(int64_t row, int64_t j) const {
    return row % groups * channels_each + j / inner;
  }
  CREMA_FUNCTOR int64_t channels() const { return groups * channels_each; }
  /// The places of a channel: value k of rows / groups * inner.
  CREMA_FUNCTOR int64_t each() const { return rows / groups * inner; }
  CREMA_FUNCTOR int64_t row_of(int64_t channel, int64_t k) const {
    return k / inner * groups + channel / channels_each;
  }
  CREMA_FUNCTOR int64_t place(int64_t channel, int64_t k) const {
    return row_of(channel, k) * size + channel % channels_each * inner + k % inner;
  }
};

/// Of each row; what backward reads.
struct Statistics {
  double* mean;
  double* inverse_deviation;
};

/// A forward pass over rows. The scale and the bias may be null: 1 and 0.
template <class T>
struct Forward {
  Rows rows;
  double eps;
  const T *x, *scale, *bias;
  Statistics statistics;
  T* y;

  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const T* const from = x + row * rows.size;
    const auto count = static_cast<double>(rows.size);
    double sum = 0, squares = 0;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      sum += static_cast<double>(from[j]);
    }
    const double mean = lanes.sum(sum) / count;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const double deviation = static_cast<double>(from[j]) - mean;
      squares += deviation * deviation;
    }
    const double inverse = 1 / std::sqrt(lanes.sum(squares) / count + eps);
    if (lanes.first == 0) {
      statistics.mean[row] = mean;
      statistics.inverse_deviation[row] = inverse;
    }
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const int64_t c = rows.channel(row, j);
      const double normalized = (static_cast<double>(from[j]) - mean) * inverse;
      y[row * rows.size + j] =
          static_cast<T>(normalized * (scale ? static_cast<double>(scale[c]) : 1) +
                         (bias ? static_cast<double>(bias[c]) : 0));
    }
  }
  /// With vectors; for rows [begin, end).
  void on_host(int64_t begin, int64_t end) const;
};

/// dx of rows.
template <class T>
struct Backward {
  Rows rows;
  const T *x, *dy, *scale;
  Statistics statistics;
  T* dx;

  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const int64_t first = row * rows.size;
    const double mean = statistics.mean[row], inverse = statistics.inverse_deviation[row];
    const auto count = static_cast<double>(rows.size);
    double sum = 0, products = 0;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const double g = gradient(row, j);
      sum += g;
      products += g * (static_cast<double>(x[first + j]) - mean) * inverse;
    }
    sum = lanes.sum(sum) / count;
    products = lanes.sum(products) / count;
    for (int64_t j = lanes.first; j < rows.size; j += lanes.count) {
      const double normalized = (static_cast<double>(x[first + j]) - mean) * inverse;
      dx[first + j] = static_cast<T>(inverse * (gradient(row, j) - sum - normalized * products));
    }
  }
  CREMA_FUNCTOR double gradient(int64_t row, int64_t j) const {
    const double g = static_cast<double>(dy[row * rows.size + j]);
    return scale ? g * static_cast<double>(scale[rows.channel(row, j)]) : g;
  }
  void on_host(int64_t begin, int64_t end) const;
};

/// The gradients of the scale and of the bias of each channel grow. Either may be null: not wanted.
template <class T>
struct ParameterGradients {
  Rows rows;
  const T *x, *dy;
  Statistics statistics;
  T *of_scale, *of_bias;

  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t channel, const Lanes& lanes = {}) const {
    double sum = 0, products = 0;
    for (int64_t k = lanes.first; k < rows.each(); k += lanes.count) {
      const int64_t place = rows.place(channel, k), row = rows.row_of(channel, k);
      const double g = static_cast<double>(dy[place]);
      sum += g;
      products += g * (static_cast<double>(x[place]) - statistics.mean[row]) *
                  statistics.inverse_deviation[row];
    }
    sum = lanes.sum(sum);
    products = lanes.sum(products);
    if (lanes.first != 0) return;
    if (of_scale) of_scale[channel] += static_cast<T>(products);
    if (of_bias) of_bias[channel] += static_cast<T>(sum);
  }
  void on_host(int64_t begin, int64_t end) const;
};

}  // namespace row_norm

class RowNormLayer : public TwoSidedLayer {
 public:
  struct Settings {
    double eps;
    bool scales, adds;
    Filler scale, bias;
  };
  /// Those of a message with eps, scale_term, bias_term and their fillers. Error for a negative
  /// eps.
  template <class Message>
  static Settings settings_of(const Message& message) {
    return checked(
        {static_cast<double>(message.eps()), message.scale_term(), message.bias_term(),
         message.has_scale_filler() ? Filler(message.scale_filler()) : Filler::constant(1),
         message.has_bias_filler() ? Filler(message.bias_filler()) : Filler::constant(0)});
  }

  RowNormLayer(const LayerInit& init, Settings settings)
      : TwoSidedLayer(init), settings_(std::move(settings)) {}

  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {6 * n, 10 * n};
  }
  size_t kept_bytes() const override { return mean_.bytes() + inverse_deviation_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each_position(
          device, by_row(), kPassGrain,
          row_norm::Forward<T>{rows_, settings_.eps, device.read<T>(bottom[0]->data),
                               read_parameter<T>(device, scale_), read_parameter<T>(device, bias_),
                               statistics(device, true), device.overwrite<T>(top[0]->data)});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
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
                        row_norm::Backward<T>{rows_, x, dy, read_parameter<T>(device, scale_),
                                              known, device.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  /// The rows of a bottom, and the shape of the scale and the bias. Error if they do not fit.
  virtual row_norm::Rows rows_of(const Shape& bottom) const = 0;
  virtual Shape parameter_shape(const Shape& bottom) const = 0;

  BackwardReads reference_backward_reads() const override { return {true, false}; }

 private:
  static Settings checked(Settings settings);
  AxisSplit by_row() const {
    AxisSplit split;
    split.outer = rows_.rows;
    split.size = std::max<int64_t>(rows_.size, 1);
    return split;
  }
  row_norm::Statistics statistics(const ComputeDevice& device, bool written) {
    const auto values = [&](Tensor& tensor) {
      return written ? device.overwrite<double>(tensor) : device.change<double>(tensor);
    };
    return {values(mean_), values(inverse_deviation_)};
  }

  Settings settings_;
  row_norm::Rows rows_;
  Parameter *scale_ = nullptr, *bias_ = nullptr;
  Tensor mean_{Shape{0}, DType::f64}, inverse_deviation_{Shape{0}, DType::f64};  // one a row
};

}  // namespace crema
