// Layers that normalize parts of each sample: LayerNorm, GroupNorm, InstanceNorm. A part is a row
// of contiguous memory.
//
//   y = (x - mean) / sqrt(variance + eps) * scale + bias, the variance being that of the row itself
#pragma once

#include "core/functor.hpp"
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
  size_t kept_bytes() const override {
    return mean_.bytes() + inverse_deviation_.bytes() + coefficients_.bytes() + partial_.bytes();
  }
  bool stores_16_bits() const override { return true; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override;
  void prepare_reference(Blobs, Blobs) override { partial_.reshape(Shape{partial_sums()}); }
  void prepare_device(Blobs bottom, Blobs top) override;
  size_t scratch_bytes() const override { return scratch_bytes_; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  /// The rows of a bottom, and the shape of the scale and the bias. Error if they do not fit.
  virtual row_norm::Rows rows_of(const Shape& bottom) const = 0;
  virtual Shape parameter_shape(const Shape& bottom) const = 0;

  BackwardReads reference_backward_reads() const override { return {true, false}; }

 private:
  static Settings checked(Settings settings);
  row_norm::Statistics statistics(const ComputeDevice& device, bool written);

  // row_norm_passes.cpp: rows on the host in f32 with coefficients for each element.
  bool has_vector_rows() const;
  /// The number of sums of backward that are added up later; 0: it has other passes.
  int64_t partial_sums() const;
  void vector_rows_forward(const float* x, const float* scale, const float* bias,
                           const row_norm::Statistics& to, float* y) const;
  void vector_rows_backward(const float* x, const float* dy, const float* scale,
                            const row_norm::Statistics& known, float* dx, float* of_scale,
                            float* of_bias);

  // row_norm_device.cpp
  bool runs_by_rows() const;
  void forward_on(const ComputeDevice& device, Blobs bottom, Blobs top);
  void backward_on(const ComputeDevice& device, Blobs top, bool propagates, Blobs bottom);
  template <class S>
  void rows_forward_on(const ComputeDevice& device, Blobs bottom, Blobs top);
  template <class S>
  void rows_backward_on(const ComputeDevice& device, Blobs top, bool propagates, Blobs bottom);
  template <class T>
  void groups_forward_on(const ComputeDevice& device, Blobs bottom, Blobs top);
  template <class T>
  void groups_backward_on(const ComputeDevice& device, Blobs top, bool propagates, Blobs bottom);

  Settings settings_;
  row_norm::Rows rows_;
  Parameter *scale_ = nullptr, *bias_ = nullptr;
  Tensor mean_{Shape{0}, DType::f64}, inverse_deviation_{Shape{0}, DType::f64};  // one a row
  Tensor coefficients_{Shape{0}};  // of devices: channels::coefficients_in()
  Tensor partial_{Shape{0}};       // of the host: sums of a few rows each
  size_t scratch_bytes_ = 0;
};

}  // namespace crema
