#include "layers/batch_norm/batch_norm_native.hpp"

#include <algorithm>

#include "crema/registry.hpp"
#include "layers/batch_norm/batch_norm.hpp"

namespace crema {
namespace {

const float* values_of(const Parameter* parameter) {
  return parameter ? parameter->data.host<float>() : nullptr;
}

}  // namespace

std::vector<Option> BatchNormNative::layouts(const BatchNormLayer&, Blobs bottom, Blobs top,
                                             std::string&) {
  return same_format_options(bottom, top, DType::f32, true);
}

void BatchNormNative::plan(BatchNormLayer& norm, Blobs bottom, Blobs) {
  const Tensor& x = bottom[0]->data;
  const ChannelLayout layout = x.shape().rank() == 1 ? ChannelLayout::of(1, 1, x.count())
                                                     : ChannelLayout::of(x.shape(), x.format());
  split_ = ChannelSplit(layout, norm.context().threads());
  scratch_.resize(split_);
  const auto channels = static_cast<size_t>(layout.padded_channels());
  for (auto* values : {&gain_, &shift_, &centre_, &slope_, &offset_}) values->assign(channels, 0);
}

void BatchNormNative::set_affine(const BatchNormLayer& norm, const float* scale, const float* bias,
                                 int64_t c) {
  const auto i = static_cast<size_t>(c);
  const double gain = norm.inverse_deviation(c) * (scale ? static_cast<double>(scale[c]) : 1.0);
  gain_[i] = static_cast<float>(gain);
  centre_[i] = static_cast<float>(norm.mean(c));
  // What rounding took from the mean comes back by the shift.
  const double rounding = static_cast<double>(centre_[i]) - norm.mean(c);
  shift_[i] = static_cast<float>((bias ? static_cast<double>(bias[c]) : 0.0) + rounding * gain);
}

ChannelAffine BatchNormNative::affine(const BatchNormLayer& norm) const {
  return {gain_.data(), centre_.data(), shift_.data(), norm.ending().relu};
}

void BatchNormNative::run_forward(BatchNormLayer& norm, Blobs bottom, Blobs top) {
  if (norm.is_empty()) return;
  const ChannelLayout& layout = split_.layout();
  const float* x = bottom[0]->data.host<float>();
  float* y = top[0]->data.host_overwrite<float>();
  const float* scale = values_of(norm.ending().scale);
  const float* bias = values_of(norm.ending().bias);
  auto apply = [&](const ChannelPiece& piece) {
    channel_affine(layout, piece, x, affine(norm), y);
  };

  if (norm.uses_stored_statistics()) {
    norm.take_stored_statistics();
    for (int64_t c = 0; c < norm.channels(); ++c) set_affine(norm, scale, bias, c);
    channel_apply(split_, apply);
    return;
  }
  const double count = static_cast<double>(norm.channel_count());
  channel_origins(layout, x, centre_.data());
  channel_passes(
      split_, scratch_,
      [&](const ChannelPiece& piece, const ChannelSums& sums) {
        channel_moments(layout, piece, x, centre_.data(), sums);
      },
      [&](int64_t begin, int64_t end, const ChannelSums& sums) {
        for (int64_t c = begin; c < end; ++c) {
          const double from_origin = sums.first[c] / count;
          const double mean = static_cast<double>(centre_[static_cast<size_t>(c)]) + from_origin;
          const double variance = sums.second[c] / count - from_origin * from_origin;
          norm.set_statistics(c, mean, std::max(variance, 0.0));
          set_affine(norm, scale, bias, c);
        }
      },
      apply);
  norm.update_stored_statistics();
}

// Sums are of d = dL/dy where ReLU let it through, and of d * (x - mean). With k = 1 / deviation,
// dx = scale * k * (d - mean(d)) - (x - mean) * scale * k^3 * mean(d * (x - mean)).
void BatchNormNative::run_backward(BatchNormLayer& norm, Blobs top,
                                   const std::vector<bool>& propagate, Blobs bottom) {
  const BatchNormLayer::Ending tail = norm.ending();
  const ChannelLayout& layout = split_.layout();
  const float* dy = top[0]->diff.host<float>();
  const bool reads_x = norm.backward_reads().bottom_data[0];
  // If backward does not read x, its memory may be reused; dy is passed instead.
  const float* x = reads_x ? bottom[0]->data.host<float>() : dy;
  float* dx = propagate[0] ? bottom[0]->diff.host_overwrite<float>() : nullptr;
  float* d_scale = tail.wants_scale_gradient() ? tail.scale->gradient().host_mut<float>() : nullptr;
  float* d_bias = tail.wants_bias_gradient() ? tail.bias->gradient().host_mut<float>() : nullptr;

  const ChannelAffine forward = affine(norm);
  ChannelGradient gradient{.gain = gain_.data()};
  if (!norm.uses_stored_statistics()) {
    gradient = {gain_.data(), centre_.data(), slope_.data(), offset_.data()};
  }
  const double count = static_cast<double>(norm.channel_count());
  auto reduce = [&](const ChannelPiece& piece, const ChannelSums& sums) {
    channel_gradient_sums(layout, piece, x, dy, centre_.data(), forward, sums);
  };
  auto finish = [&](int64_t begin, int64_t end, const ChannelSums& sums) {
    for (int64_t c = begin; c < end; ++c) {
      const auto i = static_cast<size_t>(c);
      const double k = norm.inverse_deviation(c);
      const double rounding = static_cast<double>(centre_[i]) - norm.mean(c);
      const double product = sums.second[c] + rounding * sums.first[c];
      if (d_scale) d_scale[c] += static_cast<float>(product * k);
      if (d_bias) d_bias[c] += static_cast<float>(sums.first[c]);
      const double gain = static_cast<double>(gain_[i]);
      const double slope = -gain * k * k * product / count;
      slope_[i] = static_cast<float>(slope);
      offset_[i] = static_cast<float>(slope * rounding - gain * sums.first[c] / count);
    }
  };
  auto apply = [&](const ChannelPiece& piece) {
    channel_gradient(layout, piece, x, dy, gradient, forward, dx);
  };

  const bool needs_sums = d_scale || d_bias || (dx && !norm.uses_stored_statistics());
  if (needs_sums && dx) {
    channel_passes(split_, scratch_, reduce, finish, apply);
  } else if (needs_sums) {
    channel_reduce(split_, scratch_, reduce, finish);
  } else if (dx) {
    channel_apply(split_, apply);
  }
}

size_t BatchNormNative::extra_bytes() const {
  return scratch_.bytes() + 5 * gain_.size() * sizeof(float);
}

void register_batch_norm_native(Registry& registry);

void register_batch_norm_native(Registry& registry) {
  registry.add_engine<BatchNormNative>("BatchNorm", "native", DeviceType::cpu);
}

}  // namespace crema
