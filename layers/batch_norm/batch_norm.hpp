// BatchNorm: normalizes each channel to mean 0 and variance 1. It can apply a Scale and a ReLU
// behind it in the same pass. See README.md.
#pragma once

#include <vector>

#include "kit/pass_layer.hpp"

namespace crema {

class BatchNormLayer : public PassLayer {
 public:
  /// What follows the normalization in the same pass: y = relu(scale * xhat + bias). Null: 1, 0.
  /// The parameters are the layer's own, or those of a Scale layer behind it.
  struct Ending {
    Parameter* scale = nullptr;
    Parameter* bias = nullptr;
    bool relu = false;

    bool wants_scale_gradient() const { return scale && scale->needs_gradient; }
    bool wants_bias_gradient() const { return bias && bias->needs_gradient; }
  };

  explicit BatchNormLayer(const LayerInit& init);

  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Files of others hold mean and variance, the factor that they are divided by or not, scale and
  /// bias or not, a shape of four dimensions or of one. A layer without scale and bias takes such
  /// that change nothing.
  bool adopt(std::vector<Tensor>& published) const override;
  /// A Scale of one number a channel, then a ReLU.
  bool accepts(const Tail& tail) const override;

  Ending ending() const;
  /// The stored statistics are used, not the batch's.
  bool uses_stored_statistics() const { return stored_; }
  /// moving_average_fraction and eps.
  double fraction() const { return fraction_; }
  double epsilon() const { return epsilon_; }
  int64_t channels() const { return channels_; }
  /// Values of one channel.
  int64_t channel_count() const { return channel_count_; }
  /// There is nothing to normalize, nor to take statistics of: the stored ones stay.
  bool is_empty() const { return channel_count_ == 0; }

  // The stored sums of means and of variances, a channel, and the factor that both are divided by.
  Tensor& stored_means() const { return params()[kMeans]->data; }
  Tensor& stored_variances() const { return params()[kVariances]->data; }
  Tensor& stored_factor() const { return params()[kFactor]->data; }

 protected:
  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  // Parameters, in the order of published files.
  static constexpr size_t kMeans = 0, kVariances = 1, kFactor = 2;

  bool stored_ = false;
  double fraction_ = 0, epsilon_ = 0;
  Parameter* own_scale_ = nullptr;
  Parameter* own_bias_ = nullptr;
  bool own_relu_ = false;  // the message sets relu
  int64_t channels_ = 1, channel_count_ = 0;
};

}  // namespace crema
