// The vectorized engine of BatchNorm: f32, every memory format, with every tail. In training,
// forward reads x twice and writes y once; backward reads x and dy twice and writes dx once. If a
// channel (or block of channels) of the batch fits the cache, the second read is from the cache.
#include <algorithm>
#include <vector>

#include "backend/cpu/channelwise.hpp"
#include "layer_support/native_engine.hpp"
#include "layer_support/options.hpp"
#include "layers/batch_norm/batch_norm.hpp"

namespace crema {
namespace {

class BatchNormKernel : public NativeKernel<BatchNormLayer> {
 public:
  static std::vector<Option> options(const BatchNormLayer& norm, Blobs bottom, Blobs top,
                                     std::string& why) {
    if (norm.is_synchronized()) {
      why = "sync: true is computed by the reference alone";
      return {};
    }
    return same_format_options(bottom, top, DType::f32, true);
  }

  BatchNormKernel(BatchNormLayer& norm, Blobs bottom, Blobs) : NativeKernel(norm) {
    const Tensor& x = bottom[0]->data;
    const ChannelLayout layout = x.shape().rank() == 1 ? ChannelLayout::of(1, 1, x.count())
                                                       : ChannelLayout::of(x.shape(), x.format());
    split_ = ChannelSplit(layout, norm.context().threads());
    scratch_.resize(split_);
    const auto channels = static_cast<size_t>(layout.padded_channels());
    for (auto* values : {&gain_, &shift_, &centre_, &slope_, &offset_}) values->assign(channels, 0);
    for (auto* values : {&mean_, &inverse_deviation_}) values->assign(channels, 0);
  }

  size_t bytes() const override {
    return scratch_.bytes() + 5 * gain_.size() * sizeof(float) + 2 * mean_.size() * sizeof(double);
  }

 protected:
  void run_forward(BatchNormLayer& norm, Blobs bottom, Blobs top) override {
    if (norm.is_empty()) return;
    const ChannelLayout& layout = split_.layout();
    const float* x = bottom[0]->data.read<float>();
    float* y = top[0]->data.overwrite<float>();
    const float* scale = read_parameter<float>(ComputeDevice(), norm.ending().scale);
    const float* bias = read_parameter<float>(ComputeDevice(), norm.ending().bias);
    const Blob* const other = norm.summand(bottom);
    const float* const add = other != nullptr ? other->data.read<float>() : nullptr;
    auto apply = [&](const ChannelPiece& piece) {
      AffineCoefficients coefficients = affine(norm);
      coefficients.add = add;
      channel_affine(layout, piece, x, coefficients, y);
    };

    if (norm.uses_stored_statistics()) {
      const auto take = norm.take_stored<float>(ComputeDevice(), statistics());
      for (int64_t c = 0; c < norm.channels(); ++c) {
        take(c);
        set_coefficients(scale, bias, c);
      }
      channel_apply(split_, apply);
      return;
    }
    const double count = static_cast<double>(norm.channel_count());
    const auto store = norm.store_variance<float>(ComputeDevice(), statistics());
    channel_origins(layout, x, centre_.data());
    channel_passes(
        split_, scratch_,
        [&](const ChannelPiece& piece, const ChannelSums& sums) {
          channel_moments(layout, piece, x, centre_.data(), sums);
        },
        [&](int64_t begin, int64_t end, const ChannelSums& sums) {
          for (int64_t c = begin; c < end; ++c) {
            const auto i = static_cast<size_t>(c);
            const ChannelMoments moments = moments_of(sums, c, count, centre_[i]);
            mean_[i] = moments.mean;
            store.set(c, moments.variance);
            set_coefficients(scale, bias, c);
          }
        },
        apply);
  }

  // Sums are of d = dL/dy where ReLU let it through, and of d * (x - mean). With k = 1 / deviation,
  // dx = scale * k * (d - mean(d)) - (x - mean) * scale * k^3 * mean(d * (x - mean)). The gradient
  // of a summand is d.
  void run_backward(BatchNormLayer& norm, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (norm.is_empty()) return;
    const BatchNormLayer::Ending tail = norm.ending();
    const ChannelLayout& layout = split_.layout();
    const float* dy = top[0]->diff.read<float>();
    const bool reads_x = backward_reads().bottom_data[0];
    // If backward does not read x, its memory may be reused; dy is passed instead.
    const float* x = reads_x ? bottom[0]->data.read<float>() : dy;
    float* dx = propagate[0] ? bottom[0]->diff.overwrite<float>() : nullptr;
    const size_t other = norm.in_place_bottom();
    const bool passes_on = other > 0 && propagate[other];
    ReluMask mask{affine(norm)};
    if (other > 0 && tail.relu) {
      mask.y = top[0]->data.read<float>();
      if (passes_on) mask.passed = bottom[other]->diff.overwrite<float>();
    } else if (passes_on && !bottom[other]->diff.same_memory(top[0]->diff)) {
      bottom[other]->diff.copy_from(top[0]->diff);
    }
    float* d_scale = gradient_of<float>(ComputeDevice(), tail.scale);
    float* d_bias = gradient_of<float>(ComputeDevice(), tail.bias);

    ChannelGradient gradient{.gain = gain_.data()};
    if (!norm.uses_stored_statistics()) {
      gradient = {gain_.data(), centre_.data(), slope_.data(), offset_.data()};
    }
    const double count = static_cast<double>(norm.channel_count());
    auto reduce = [&](const ChannelPiece& piece, const ChannelSums& sums) {
      channel_gradient_sums(layout, piece, x, dy, centre_.data(), mask, sums);
    };
    auto finish = [&](int64_t begin, int64_t end, const ChannelSums& sums) {
      for (int64_t c = begin; c < end; ++c) {
        const auto i = static_cast<size_t>(c);
        const double k = inverse_deviation_[i];
        const double rounding = static_cast<double>(centre_[i]) - mean_[i];
        const double product = sums.second[c] + rounding * sums.first[c];
        if (d_scale) d_scale[c] += static_cast<float>(product * k);
        if (d_bias) d_bias[c] += static_cast<float>(sums.first[c]);
        const double gain = static_cast<double>(gain_[i]);
        const double slope = -gain * k * k * product / count;
        slope_[i] = static_cast<float>(slope);
        offset_[i] = static_cast<float>(slope * rounding - gain * sums.first[c] / count);
      }
    };
    // What counts of dy is passed on by the one pass there is, or by the pass that sums.
    const bool needs_sums = d_scale || d_bias || (dx && !norm.uses_stored_statistics()) ||
                            (!dx && mask.passed != nullptr);
    const bool summed = needs_sums && mask.passed != nullptr;
    const float* const counts = summed ? mask.passed : dy;
    const ReluMask mask_of_counts = summed ? ReluMask() : mask;
    auto apply = [&](const ChannelPiece& piece) {
      channel_gradient(layout, piece, x, counts, gradient, mask_of_counts, dx);
    };

    if (needs_sums && dx) {
      channel_passes(split_, scratch_, reduce, finish, apply);
    } else if (needs_sums) {
      channel_reduce(split_, scratch_, reduce, finish);
    } else if (dx) {
      channel_apply(split_, apply);
    }
  }

 private:
  batch_norm::Statistics statistics() { return {mean_.data(), inverse_deviation_.data()}; }
  /// Sets gain, centre and shift of channel c.
  void set_coefficients(const float* scale, const float* bias, int64_t c) {
    const auto i = static_cast<size_t>(c);
    const double gain = inverse_deviation_[i] * (scale ? static_cast<double>(scale[c]) : 1.0);
    set_affine(mean_[i], gain, bias ? static_cast<double>(bias[c]) : 0.0, gain_[i], centre_[i],
               shift_[i]);
  }
  AffineCoefficients affine(const BatchNormLayer& norm) const {
    return {gain_.data(), centre_.data(), shift_.data(), norm.ending().relu};
  }

  ChannelSplit split_;
  ChannelScratch scratch_;
  std::vector<double> mean_, inverse_deviation_;  // what the last forward pass used, a channel
  // Coefficients, a channel; see AffineCoefficients and ChannelGradient. Until the statistics are
  // known, centre_ holds the origin of the moments. Padding channels hold zeros.
  std::vector<float> gain_, shift_, centre_, slope_, offset_;
};

}  // namespace

void register_batch_norm_native(Registry& registry) {
  for (const char* type : {"BatchNorm", "BN"})
    registry.add_engine<NativeEngine<BatchNormKernel>>(type, "native", DeviceType::cpu);
}

}  // namespace crema
