// BatchNorm as passes over elements (backend/device_passes.hpp): the reference, and the engines of
// devices.
#pragma once

#include "backend/device_passes.hpp"
#include "layers/batch_norm/batch_norm.hpp"

namespace crema {
namespace batch_norm_passes {

/// What a forward pass normalized with, one a channel.
struct Statistics {
  double* mean;
  double* inverse_deviation;
};

/// Body for channels: the statistics are those stored.
template <class T>
struct TakeStored {
  const T* mean;
  const T* variance;
  const T* factor;
  double epsilon;
  Statistics statistics;
  CREMA_FUNCTOR void operator()(int64_t c) const {
    const double scale = factor[0] == T{0} ? 0 : 1 / static_cast<double>(factor[0]);
    statistics.mean[c] = scale * static_cast<double>(mean[c]);
    statistics.inverse_deviation[c] =
        1 / std::sqrt(scale * static_cast<double>(variance[c]) + epsilon);
  }
};

struct StoreMean {
  double count;
  double* mean;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    mean[c] = sums.first / count;
  }
};

template <class T>
struct SquaredDeviation {
  const T* x;
  const double* mean;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t c) const {
    const double deviation = static_cast<double>(x[place]) - mean[c];
    return {deviation * deviation, 0};
  }
};

/// Completes the batch's statistics and moves the stored ones, of which the variance is the
/// unbiased one, towards them.
template <class T>
struct StoreVariance {
  double count, fraction, epsilon;
  bool moves;  // false: they were moved already, and the pass is a repetition
  Statistics statistics;
  T* mean;
  T* variance;
  T* factor;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    set(c, sums.first / count);
  }
  CREMA_FUNCTOR void set(int64_t c, double of_batch) const {
    statistics.inverse_deviation[c] = 1 / std::sqrt(of_batch + epsilon);
    if (!moves) return;
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    mean[c] = static_cast<T>(fraction * static_cast<double>(mean[c]) + statistics.mean[c]);
    variance[c] = static_cast<T>(fraction * static_cast<double>(variance[c]) + unbiased * of_batch);
    if (c == 0) factor[0] = static_cast<T>(fraction * static_cast<double>(factor[0]) + 1);
  }
};

template <class Pass>
TakeStored<typename Pass::Element> take_stored(const Pass& pass, const BatchNormLayer& layer,
                                               const Statistics& statistics) {
  return {pass.read(layer.stored_means()), pass.read(layer.stored_variances()),
          pass.read(layer.stored_factor()), layer.epsilon(), statistics};
}
template <class Pass>
StoreVariance<typename Pass::Element> store_variance(const Pass& pass, BatchNormLayer& layer,
                                                     const Statistics& statistics) {
  return {static_cast<double>(layer.channel_count()),
          layer.fraction(),
          layer.epsilon(),
          !layer.run().recomputing,
          statistics,
          pass.change(layer.stored_means()),
          pass.change(layer.stored_variances()),
          pass.change(layer.stored_factor())};
}

/// y = relu(scale * (x - mean) / deviation + bias); scale and bias may be null.
template <class T>
struct Normalize {
  Statistics statistics;
  const T* scale;
  const T* bias;
  bool relu;

  /// x - mean, which rounding the mean to T first would spoil where it is far from 0.
  CREMA_FUNCTOR T centred(T x, int64_t c) const {
    return static_cast<T>(static_cast<double>(x) - statistics.mean[c]);
  }
  CREMA_FUNCTOR T inverse(int64_t c) const {
    return static_cast<T>(statistics.inverse_deviation[c]);
  }
  CREMA_FUNCTOR T gain(int64_t c) const { return inverse(c) * (scale ? scale[c] : T{1}); }
  CREMA_FUNCTOR T before_relu(T x, int64_t c) const {
    return centred(x, c) * gain(c) + (bias ? bias[c] : T{0});
  }
};

template <class T>
struct Forward {
  Normalize<T> norm;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    const T z = norm.before_relu(x[i], c);
    y[i] = norm.relu && z < T{0} ? T{0} : z;
  }
};

/// d, the gradient behind the ReLU, and the normalized value. x may be null: it is read where
/// something depends on it.
template <class T>
struct Incoming {
  Normalize<T> norm;
  const T* dy;
  const T* x;
  CREMA_FUNCTOR T d(int64_t i, int64_t c) const {
    const T gradient = dy[i];
    return !norm.relu || norm.before_relu(x[i], c) > T{0} ? gradient : T{0};
  }
  CREMA_FUNCTOR T normal(int64_t i, int64_t c) const {
    return x ? norm.centred(x[i], c) * norm.inverse(c) : T{0};
  }
  /// Of d, and of d * normal.
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t c) const {
    const double gradient = static_cast<double>(d(place, c));
    return {gradient, gradient * static_cast<double>(normal(place, c))};
  }
};

/// The gradients may be null: not wanted.
template <class T>
struct StoreGradients {
  double count;
  SumPair* means;
  T* of_bias;
  T* of_scale;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    means[c] = {sums.first / count, sums.second / count};
    if (of_bias) of_bias[c] += static_cast<T>(sums.first);
    if (of_scale) of_scale[c] += static_cast<T>(sums.second);
  }
};

/// dx = scale / deviation * (d - mean(d) - normal * mean(d * normal)); the means are 0 where the
/// statistics do not depend on x. `means` is null then. dx may be dy.
template <class T>
struct DataGradient {
  Incoming<T> in;
  const SumPair* means;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i, int64_t c) const {
    T centred = in.d(i, c);
    if (means) {
      centred -= static_cast<T>(means[c].first) + in.normal(i, c) * static_cast<T>(means[c].second);
    }
    dx[i] = in.norm.gain(c) * centred;
  }
};

/// A training step reads x three times and writes y once forward; backward reads x and dy twice and
/// writes dx once.
class Passes {
 public:
  template <class Pass>
  void forward(const Pass& pass, BatchNormLayer& layer, Blobs bottom, Blobs top) {
    using T = typename Pass::Element;
    if (layer.is_empty()) return;
    const T* x = pass.read(bottom[0]->data);
    const Normalize<T> norm = normalize(pass, layer);
    if (layer.uses_stored_statistics()) {
      pass.each(layer.channels(), take_stored(pass, layer, norm.statistics));
    } else {
      const double count = static_cast<double>(layer.channel_count());
      pass.channel_sums(layout_, ValueTerm<T>{x}, StoreMean{count, norm.statistics.mean});
      pass.channel_sums(layout_, SquaredDeviation<T>{x, norm.statistics.mean},
                        store_variance(pass, layer, norm.statistics));
    }
    pass.each(layout_, Forward<T>{norm, x, pass.write(top[0]->data)});
  }

  template <class Pass>
  void backward(const Pass& pass, BatchNormLayer& layer, Blobs top,
                const std::vector<bool>& propagate, Blobs bottom) {
    using T = typename Pass::Element;
    const BatchNormLayer::Ending tail = layer.ending();
    const T* dy = pass.read(top[0]->diff);
    const T* x = layer.backward_reads().bottom_data ? pass.read(bottom[0]->data) : nullptr;
    const Incoming<T> in{normalize(pass, layer), dy, x};
    // The memory of `channels` pairs.
    auto* means = reinterpret_cast<SumPair*>(pass.template change<double>(means_));
    const bool depends = propagate[0] && !layer.uses_stored_statistics();
    if (depends || tail.wants_scale_gradient() || tail.wants_bias_gradient()) {
      pass.channel_sums(
          layout_, in,
          StoreGradients<T>{static_cast<double>(layer.channel_count()), means,
                            gradient_of(pass, tail.bias, tail.wants_bias_gradient()),
                            gradient_of(pass, tail.scale, tail.wants_scale_gradient())});
    }
    if (!propagate[0]) return;
    pass.each(layout_, DataGradient<T>{in, depends ? means : nullptr, pass.write(bottom[0]->diff)});
  }

  size_t extra_bytes() const { return mean_.bytes() + inverse_deviation_.bytes() + means_.bytes(); }

  void make_room(const BatchNormLayer& layer, Blobs bottom, Blobs /*top*/) {
    const int64_t channels = layer.channels();
    const Shape& shape = bottom[0]->shape();
    const int64_t outer = shape.rank() == 1 ? 1 : shape[0];
    layout_ = {outer, channels, layer.channel_count() / std::max<int64_t>(outer, 1)};
    for (Tensor* values : {&mean_, &inverse_deviation_}) values->reshape(Shape{channels});
    means_.reshape(Shape{channels, 2});
  }

 private:
  template <class Pass>
  Normalize<typename Pass::Element> normalize(const Pass& pass, const BatchNormLayer& layer) {
    const BatchNormLayer::Ending tail = layer.ending();
    return {{pass.template change<double>(mean_), pass.template change<double>(inverse_deviation_)},
            read_parameter(pass, tail.scale),
            read_parameter(pass, tail.bias),
            tail.relu};
  }

  ChannelView layout_;
  Tensor mean_{Shape{0}, DType::f64}, inverse_deviation_{Shape{0}, DType::f64};  // (channels)
  Tensor means_{Shape{0}, DType::f64};  // (channels, 2): of d, and of d * normal
};

}  // namespace batch_norm_passes
}  // namespace crema
