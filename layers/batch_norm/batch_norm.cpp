#include "layers/batch_norm/batch_norm.hpp"

#include <cmath>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Parameters, in the order of published files.
constexpr size_t kMean = 0, kVariance = 1, kFactor = 2;

int64_t channels_of(const Shape& shape) { return shape.rank() == 1 ? 1 : shape[1]; }

template <class T>
T value_or(const Parameter* parameter, int64_t index, T otherwise) {
  return parameter ? parameter->data.host<T>()[index] : otherwise;
}

}  // namespace

BatchNormLayer::BatchNormLayer(const LayerInit& init) : Layer(init) {
  const BatchNormParameter& settings = init.param.batch_norm_param();
  stored_ = settings.has_use_global_stats() ? settings.use_global_stats() : phase() == Phase::test;
  fraction_ = settings.moving_average_fraction();
  epsilon_ = settings.eps();
  require(epsilon_ >= 0, "eps ", epsilon_, " is negative; variances would become so too");
  require(settings.stats_batch_size() == 0, "stats_batch_size ", settings.stats_batch_size(),
          " is not there: statistics are those of the whole batch; leave it out");
  own_relu_ = settings.relu();
}

void BatchNormLayer::setup(Blobs bottom, Blobs) {
  require(bottom[0]->shape().rank() >= 1, "needs a bottom with at least 1 axis, not a scalar");
  channels_ = channels_of(bottom[0]->shape());
  for (const Shape& shape : {Shape{channels_}, Shape{channels_}, Shape{1}}) {
    add_param(shape, Filler::constant(0)).learnable = false;
  }
  const BatchNormParameter& settings = param().batch_norm_param();
  const bool by_weight = settings.has_use_weight_bias() && settings.use_weight_bias();
  if (!settings.scale_bias() && !by_weight) return;
  const bool has_filler = settings.has_scale_filler() || settings.has_filler();
  const FillerParameter& filler =
      settings.has_scale_filler() ? settings.scale_filler() : settings.filler();
  own_scale_ = &add_param({channels_}, has_filler ? Filler(filler) : Filler::constant(1));
  if (settings.scale_bias() || settings.bias_term()) {
    own_bias_ = &add_param({channels_}, settings.has_bias_filler() ? Filler(settings.bias_filler())
                                                                   : Filler::constant(0));
  }
}

bool BatchNormLayer::adopt(std::vector<Tensor>& published) const {
  const size_t count = published.size();
  const bool has_factor = count == 3 || count == 5, has_scale = count == 4 || count == 5;
  if (count < 2 || count > 5) return false;
  const size_t first_scale = has_factor ? 3 : 2;
  for (size_t i = 0; i < count; ++i) {
    const Shape own = has_factor && i == kFactor ? Shape{1} : Shape{channels_};
    if (published[i].count() != own.count()) return false;
    published[i].reshape(own);
  }
  std::vector<Tensor> own(published.begin(), published.begin() + (has_factor ? 3 : 2));
  const auto constant = [&](const Shape& shape, double value) {
    own.emplace_back(shape, dtype()).fill(value);
  };
  if (!has_factor) constant({1}, 1);
  const Parameter* const wanted[] = {own_scale_, own_bias_};
  for (size_t i = 0; i < 2; ++i) {
    const double neutral = i == 0 ? 1 : 0;
    if (wanted[i] != nullptr) {
      if (!has_scale) return false;
      own.push_back(published[first_scale + i]);
    } else if (has_scale) {
      bool changes = false;
      dispatch_float(dtype(), [&](auto zero) {
        for (const auto value : published[first_scale + i].values<decltype(zero)>()) {
          changes = changes || static_cast<double>(value) != neutral;
        }
      });
      require(!changes, "the file has a ", i == 0 ? "scale" : "bias",
              " in this layer, the net has none; say batch_norm_param { scale_bias: true }");
    }
  }
  published = std::move(own);
  return true;
}

void BatchNormLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  require(shape.rank() >= 1 && channels_of(shape) == channels_, "bottom of shape ", shape.str(),
          " does not have the ", channels_, " channels that the layer was made for");
  channel_count_ = channels_ == 0 ? 0 : shape.count() / channels_;
  const auto channels = static_cast<size_t>(channels_);
  for (auto* values : {&mean_, &variance_, &inverse_deviation_}) values->assign(channels, 0.0);
  top[0]->reshape(shape);
}

Flops BatchNormLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  // Batch statistics: two sums forward; backward two sums, of which one of products, and three
  // coefficients.
  return stored_ ? Flops{2 * n, n} : Flops{5 * n, 9 * n};
}

bool BatchNormLayer::accepts(const Tail& tail) const {
  // At most: one affine step where the layer has none of its own, then a ReLU.
  size_t step = 0;
  if (step < tail.size() && tail[step].kind == TailStep::Kind::affine) {
    if (own_scale_ != nullptr || own_relu_) return false;
    ++step;
  }
  if (step < tail.size()) {
    if (own_relu_ || relu_slope_of({tail[step]}) != 0.0F) return false;
    ++step;
  }
  return step == tail.size();
}

BatchNormLayer::Ending BatchNormLayer::ending() const {
  Ending ending{own_scale_, own_bias_, own_relu_};
  for (const TailStep& step : tail()) {
    if (step.kind == TailStep::Kind::affine) {
      ending.scale = step.scale;
      ending.bias = step.bias;
    } else {
      ending.relu = true;
    }
  }
  return ending;
}

BackwardReads BatchNormLayer::reference_backward_reads() const {
  // With stored statistics the layer is linear. The sign that ReLU saw is computed again.
  const Ending ending = this->ending();
  const bool reads_x = !stored_ || ending.relu || ending.wants_scale_gradient();
  return {.bottom_data = reads_x, .top_data = false};
}

void BatchNormLayer::set_statistics(int64_t c, double mean, double variance) {
  const auto i = static_cast<size_t>(c);
  mean_[i] = mean;
  variance_[i] = variance;
  inverse_deviation_[i] = 1 / std::sqrt(variance + epsilon_);
}

void BatchNormLayer::take_stored_statistics() {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* mean = params()[kMean]->data.host<T>();
    const T* variance = params()[kVariance]->data.host<T>();
    const T factor = params()[kFactor]->data.host<T>()[0];
    const double scale = factor == 0 ? 0 : 1 / static_cast<double>(factor);
    for (int64_t c = 0; c < channels_; ++c) set_statistics(c, scale * mean[c], scale * variance[c]);
  });
}

void BatchNormLayer::update_stored_statistics() {
  if (run().recomputing) return;
  // The stored variance is the unbiased one.
  const double m = static_cast<double>(channel_count_);
  const double unbiased = m > 1 ? m / (m - 1) : 1;
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* mean = params()[kMean]->data.host_mut<T>();
    T* variance = params()[kVariance]->data.host_mut<T>();
    T* factor = params()[kFactor]->data.host_mut<T>();
    for (int64_t c = 0; c < channels_; ++c) {
      const auto i = static_cast<size_t>(c);
      mean[c] = static_cast<T>(fraction_ * mean[c] + mean_[i]);
      variance[c] = static_cast<T>(fraction_ * variance[c] + unbiased * variance_[i]);
    }
    factor[0] = static_cast<T>(fraction_ * factor[0] + 1);
  });
}

template <class T>
void BatchNormLayer::forward_as(Blobs bottom, Blobs top) {
  if (is_empty()) return;
  const Ending ending = this->ending();
  const T* x = bottom[0]->data.host<T>();  // (outer, channels, inner)
  T* y = top[0]->data.host_overwrite<T>();
  const int64_t outer = bottom[0]->shape().rank() == 1 ? 1 : bottom[0]->shape()[0];
  const int64_t inner = channel_count_ / std::max<int64_t>(outer, 1);
  const double count = static_cast<double>(channel_count_);

  auto each = [&](int64_t c, const auto& body) {
    for (int64_t n = 0; n < outer; ++n) {
      const int64_t row = (n * channels_ + c) * inner;
      for (int64_t i = row; i < row + inner; ++i) body(i);
    }
  };
  if (stored_) take_stored_statistics();
  parallel_for(channels_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      if (!stored_) {
        double sum = 0, squares = 0;
        each(c, [&](int64_t i) { sum += static_cast<double>(x[i]); });
        const double batch_mean = sum / count;
        each(c, [&](int64_t i) {
          const double deviation = static_cast<double>(x[i]) - batch_mean;
          squares += deviation * deviation;
        });
        set_statistics(c, batch_mean, squares / count);
      }
      const T gain = static_cast<T>(inverse_deviation(c)) * value_or<T>(ending.scale, c, T{1});
      const T offset = value_or<T>(ending.bias, c, T{0});
      each(c, [&](int64_t i) {
        const T z = centred(x[i], c) * gain + offset;
        y[i] = ending.relu && z < T{0} ? T{0} : z;
      });
    }
  });
  if (!stored_) update_stored_statistics();
}

// With d = dL/dy where ReLU let it through, xhat = (x - mean) / deviation, and means over the
// channel: dx = scale / deviation * (d - mean(d) - xhat * mean(d * xhat)).
template <class T>
void BatchNormLayer::backward_as(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  const Ending ending = this->ending();
  const T* dy = top[0]->diff.host<T>();
  const bool reads_x = reference_backward_reads().bottom_data[0];
  const T* x = reads_x ? bottom[0]->data.host<T>() : nullptr;
  T* dx = propagate[0] ? bottom[0]->diff.host_overwrite<T>() : nullptr;
  T* d_scale = ending.wants_scale_gradient() ? ending.scale->gradient().host_mut<T>() : nullptr;
  T* d_bias = ending.wants_bias_gradient() ? ending.bias->gradient().host_mut<T>() : nullptr;
  const int64_t outer = bottom[0]->shape().rank() == 1 ? 1 : bottom[0]->shape()[0];
  const int64_t inner = channel_count_ / std::max<int64_t>(outer, 1);
  const double count = static_cast<double>(channel_count_);

  parallel_for(channels_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const T inverse = static_cast<T>(inverse_deviation(c));
      const T scale = value_or<T>(ending.scale, c, T{1});
      const T offset = value_or<T>(ending.bias, c, T{0});
      auto each = [&](const auto& body) {
        for (int64_t n = 0; n < outer; ++n) {
          const int64_t row = (n * channels_ + c) * inner;
          for (int64_t i = row; i < row + inner; ++i) {
            const T from_mean = x ? centred(x[i], c) : T{0};
            const bool passes = !ending.relu || from_mean * (inverse * scale) + offset > 0;
            body(i, passes ? dy[i] : T{0}, from_mean * inverse);
          }
        }
      };
      double sum = 0, product = 0;
      each([&](int64_t, T d, T normal) {
        sum += static_cast<double>(d);
        product += static_cast<double>(d) * static_cast<double>(normal);
      });
      if (d_scale) d_scale[c] += static_cast<T>(product);
      if (d_bias) d_bias[c] += static_cast<T>(sum);
      if (!dx) continue;
      const T mean_d = stored_ ? T{0} : static_cast<T>(sum / count);
      const T mean_product = stored_ ? T{0} : static_cast<T>(product / count);
      each([&](int64_t i, T d, T normal) {
        dx[i] = scale * inverse * (d - mean_d - normal * mean_product);
      });
    }
  });
}

void BatchNormLayer::forward_cpu(Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&](auto zero) { forward_as<decltype(zero)>(bottom, top); });
}

void BatchNormLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&](auto zero) { backward_as<decltype(zero)>(top, propagate, bottom); });
}

void register_batch_norm(Registry& registry);

void register_batch_norm(Registry& registry) { registry.add<BatchNormLayer>("BatchNorm"); }

}  // namespace crema
