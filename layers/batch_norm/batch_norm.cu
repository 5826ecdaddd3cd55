#include "backend/cuda/kernels.cuh"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/batch_norm/batch_norm.hpp"

namespace crema {
namespace {

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
  __device__ void operator()(int64_t c) const {
    const double scale = factor[0] == T{0} ? 0 : 1 / static_cast<double>(factor[0]);
    statistics.mean[c] = scale * static_cast<double>(mean[c]);
    statistics.inverse_deviation[c] = 1 / sqrt(scale * static_cast<double>(variance[c]) + epsilon);
  }
};

struct StoreMean {
  double count;
  double* mean;
  __device__ void operator()(int64_t c, const CudaPair& sums) const {
    mean[c] = sums.first / count;
  }
};

template <class T>
struct SquaredDeviation {
  const T* x;
  const double* mean;
  __device__ CudaPair operator()(int64_t place, int64_t c) const {
    const double deviation = static_cast<double>(x[place]) - mean[c];
    return {deviation * deviation, 0};
  }
};

/// Completes the batch's statistics and moves the stored ones, of which the variance is the
/// unbiased one, towards them.
template <class T>
struct StoreVariance {
  double count, fraction, epsilon;
  Statistics statistics;
  T* mean;
  T* variance;
  T* factor;
  __device__ void operator()(int64_t c, const CudaPair& sums) const {
    const double of_batch = sums.first / count;
    statistics.inverse_deviation[c] = 1 / sqrt(of_batch + epsilon);
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    mean[c] = static_cast<T>(fraction * static_cast<double>(mean[c]) + statistics.mean[c]);
    variance[c] = static_cast<T>(fraction * static_cast<double>(variance[c]) + unbiased * of_batch);
    if (c == 0) factor[0] = static_cast<T>(fraction * static_cast<double>(factor[0]) + 1);
  }
};

/// y = relu(scale * (x - mean) / deviation + bias); scale and bias may be null.
template <class T>
struct Normalize {
  CudaChannels layout;
  Statistics statistics;
  const T* scale;
  const T* bias;
  bool relu;

  /// x - mean, which rounding the mean to T first would spoil where it is far from 0.
  __device__ T centred(T x, int64_t c) const {
    return static_cast<T>(static_cast<double>(x) - statistics.mean[c]);
  }
  __device__ T inverse(int64_t c) const { return static_cast<T>(statistics.inverse_deviation[c]); }
  __device__ T gain(int64_t c) const { return inverse(c) * (scale ? scale[c] : T{1}); }
  __device__ T before_relu(T x, int64_t c) const {
    return centred(x, c) * gain(c) + (bias ? bias[c] : T{0});
  }
};

template <class T>
struct Forward {
  Normalize<T> norm;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    const T z = norm.before_relu(x[i], norm.layout.channel_of(i));
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
  __device__ T d(int64_t i, int64_t c) const {
    return !norm.relu || norm.before_relu(x[i], c) > T{0} ? dy[i] : T{0};
  }
  __device__ T normal(int64_t i, int64_t c) const {
    return x ? norm.centred(x[i], c) * norm.inverse(c) : T{0};
  }
  /// Of d, and of d * normal.
  __device__ CudaPair operator()(int64_t place, int64_t c) const {
    const double gradient = static_cast<double>(d(place, c));
    return {gradient, gradient * static_cast<double>(normal(place, c))};
  }
};

/// The gradients may be null: not wanted.
template <class T>
struct StoreGradients {
  CudaPair* sums_of;
  T* of_bias;
  T* of_scale;
  __device__ void operator()(int64_t c, const CudaPair& sums) const {
    sums_of[c] = sums;
    if (of_bias) of_bias[c] += static_cast<T>(sums.first);
    if (of_scale) of_scale[c] += static_cast<T>(sums.second);
  }
};

/// dx = scale / deviation * (d - mean(d) - normal * mean(d * normal)); the means are 0 where the
/// statistics do not depend on x. `sums` is null then. dx may be dy.
template <class T>
struct DataGradient {
  Incoming<T> in;
  const CudaPair* sums;
  double count;
  T* dx;
  __device__ void operator()(int64_t i) const {
    const int64_t c = in.norm.layout.channel_of(i);
    T centred = in.d(i, c);
    if (sums) {
      centred -= static_cast<T>(sums[c].first / count) +
                 in.normal(i, c) * static_cast<T>(sums[c].second / count);
    }
    dx[i] = in.norm.gain(c) * centred;
  }
};

/// A training step reads x three times and writes y once forward; backward reads x and dy twice and
/// writes dx once.
class BatchNormCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }

  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs /*top*/) override {
    const int64_t channels = of(layer).channels();
    const Shape& shape = bottom[0]->shape();
    const int64_t outer = shape.rank() == 1 ? 1 : shape[0];
    layout_ = {outer, channels, of(layer).channel_count() / std::max<int64_t>(outer, 1)};
    for (Tensor* values : {&mean_, &inverse_deviation_}) values->reshape(Shape{channels});
    sums_.reshape(Shape{channels, 2});
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    dispatch_float(layer.dtype(),
                   [&](auto zero) { forward_as<decltype(zero)>(of(layer), bottom, top); });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    dispatch_float(layer.dtype(), [&](auto zero) {
      backward_as<decltype(zero)>(of(layer), top, propagate[0], bottom);
    });
  }

  size_t extra_bytes() const override {
    return mean_.bytes() + inverse_deviation_.bytes() + sums_.bytes();
  }

 private:
  static BatchNormLayer& of(Layer& layer) { return static_cast<BatchNormLayer&>(layer); }

  template <class T>
  Normalize<T> normalize(CudaBackend& backend, const BatchNormLayer& layer) {
    const BatchNormLayer::Ending tail = layer.ending();
    return {layout_,
            {mean_.device_mut<double>(backend), inverse_deviation_.device_mut<double>(backend)},
            tail.scale ? tail.scale->data.device<T>(backend) : nullptr,
            tail.bias ? tail.bias->data.device<T>(backend) : nullptr,
            tail.relu};
  }

  template <class T>
  void forward_as(BatchNormLayer& layer, Blobs bottom, Blobs top) {
    if (layer.is_empty()) return;
    CudaBackend& backend = cuda(layer.context());
    const T* x = bottom[0]->data.device<T>(backend);
    const Normalize<T> norm = normalize<T>(backend, layer);
    const double count = static_cast<double>(layer.channel_count());
    Tensor& mean = layer.params()[0]->data;
    Tensor& variance = layer.params()[1]->data;
    Tensor& factor = layer.params()[2]->data;
    if (layer.uses_stored_statistics()) {
      cuda_for_each(backend, layer.channels(),
                    TakeStored<T>{mean.device<T>(backend), variance.device<T>(backend),
                                  factor.device<T>(backend), layer.epsilon(), norm.statistics});
    } else {
      cuda_channel_sums(backend, layout_, CudaValue<T>{x}, StoreMean{count, norm.statistics.mean});
      cuda_channel_sums(
          backend, layout_, SquaredDeviation<T>{x, norm.statistics.mean},
          StoreVariance<T>{count, layer.fraction(), layer.epsilon(), norm.statistics,
                           mean.device_mut<T>(backend), variance.device_mut<T>(backend),
                           factor.device_mut<T>(backend)});
    }
    cuda_for_each(backend, layout_.count(),
                  Forward<T>{norm, x, top[0]->data.device_overwrite<T>(backend)});
  }

  template <class T>
  void backward_as(BatchNormLayer& layer, Blobs top, bool propagate, Blobs bottom) {
    CudaBackend& backend = cuda(layer.context());
    const BatchNormLayer::Ending tail = layer.ending();
    const T* dy = top[0]->diff.device<T>(backend);
    const T* x = backward_reads(layer).bottom_data ? bottom[0]->data.device<T>(backend) : nullptr;
    const Incoming<T> in{normalize<T>(backend, layer), dy, x};
    // The memory of `channels` pairs.
    auto* sums = reinterpret_cast<CudaPair*>(sums_.device_mut<double>(backend));
    const bool depends = propagate && !layer.uses_stored_statistics();
    if (depends || tail.wants_scale_gradient() || tail.wants_bias_gradient()) {
      StoreGradients<T> store{sums, nullptr, nullptr};
      if (tail.wants_bias_gradient()) store.of_bias = tail.bias->gradient().device_mut<T>(backend);
      if (tail.wants_scale_gradient()) {
        store.of_scale = tail.scale->gradient().device_mut<T>(backend);
      }
      cuda_channel_sums(backend, layout_, in, store);
    }
    if (!propagate) return;
    cuda_for_each(
        backend, layout_.count(),
        DataGradient<T>{in, depends ? sums : nullptr, static_cast<double>(layer.channel_count()),
                        bottom[0]->diff.device_overwrite<T>(backend)});
  }

  CudaChannels layout_;
  Tensor mean_{Shape{0}, DType::f64}, inverse_deviation_{Shape{0}, DType::f64};  // (channels)
  Tensor sums_{Shape{0}, DType::f64};  // (channels, 2): of d, and of d * normal
};

}  // namespace

void register_batch_norm_cuda(Registry& registry);

void register_batch_norm_cuda(Registry& registry) {
  registry.add_engine<BatchNormCuda>("BatchNorm", "cuda", DeviceType::cuda);
}

}  // namespace crema
