// Normalize: divides by the L2 norm, then scales. See README.md.
#include <array>
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/channel_phases.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/sums.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/normalize/normalize_device.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using namespace l2_norm;

constexpr int64_t kTogether = 64;  // neighbouring positions that the host takes at once

template <class T>
struct Forward {
  Vectors vectors;
  double eps;
  const T *x, *scale;
  double* inverse_norm;
  T* y;

  void on_host(int64_t begin, int64_t end) const {
    const AxisSplit& split = vectors.split;
    for (int64_t i = begin; i < end;) {
      const int64_t count =
          split.inner == 1 ? 1 : std::min({kTogether, split.inner - i % split.inner, end - i});
      const int64_t first = split.at(i);
      std::array<double, kTogether> sums{};
      if (split.inner == 1) {
        sums[0] = sum_of_piece(first, first + split.size, [this](int64_t at) {
          return static_cast<double>(x[at]) * static_cast<double>(x[at]);
        });
      } else {
        for (int64_t k = 0; k < split.size; ++k) {
          const T* const row = x + first + k * split.inner;
#pragma omp simd
          for (int64_t j = 0; j < count; ++j) {
            sums[static_cast<size_t>(j)] +=
                static_cast<double>(row[j]) * static_cast<double>(row[j]);
          }
        }
      }
      std::array<T, kTogether> factors{};
      for (int64_t j = 0; j < count; ++j) {
        inverse_norm[i + j] = 1 / std::sqrt(sums[static_cast<size_t>(j)] + eps);
        factors[static_cast<size_t>(j)] = static_cast<T>(inverse_norm[i + j]);
      }
      for (int64_t k = 0; k < split.size; ++k) {
        const int64_t at = first + k * split.inner;
        const T s = scale[vectors.channel(k)];
#pragma omp simd
        for (int64_t j = 0; j < count; ++j)
          y[at + j] = x[at + j] * factors[static_cast<size_t>(j)] * s;
      }
      i += count;
    }
  }
};

/// dx = (s dy - x * sum of (s dy x) / norm^2) / norm.
template <class T>
struct Backward {
  Vectors vectors;
  const T *x, *dy, *scale;
  const double* inverse_norm;
  T* dx;

  void on_host(int64_t begin, int64_t end) const {
    const AxisSplit& split = vectors.split;
    for (int64_t i = begin; i < end;) {
      const int64_t count =
          split.inner == 1 ? 1 : std::min({kTogether, split.inner - i % split.inner, end - i});
      const int64_t first = split.at(i);
      std::array<double, kTogether> sums{};
      for (int64_t k = 0; k < split.size; ++k) {
        const int64_t at = first + k * split.inner;
        const T s = scale[vectors.channel(k)];
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) {
          sums[static_cast<size_t>(j)] +=
              static_cast<double>(s * dy[at + j]) * static_cast<double>(x[at + j]);
        }
      }
      std::array<T, kTogether> factors{}, shares{};
      for (int64_t j = 0; j < count; ++j) {
        const double inverse = inverse_norm[i + j];
        factors[static_cast<size_t>(j)] = static_cast<T>(inverse);
        shares[static_cast<size_t>(j)] =
            static_cast<T>(sums[static_cast<size_t>(j)] * inverse * inverse * inverse);
      }
      for (int64_t k = 0; k < split.size; ++k) {
        const int64_t at = first + k * split.inner;
        const T s = scale[vectors.channel(k)];
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) {
          const auto n = static_cast<size_t>(j);
          dx[at + j] = s * dy[at + j] * factors[n] - x[at + j] * shares[n];
        }
      }
      i += count;
    }
  }
};

class NormalizeLayer : public TwoSidedLayer {
 public:
  explicit NormalizeLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const float eps = settings().eps();
    if (!(eps >= 0 && std::isfinite(eps)))
      throw Error("eps ", eps, " is not at least 0; it is added to the squared norm");
  }

  void setup(Blobs bottom, Blobs) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() < 2)
      throw Error("normalizes the channels, axis 1, of each sample, but the bottom is ",
                  shape.str());
    add_param(
        settings().channel_shared() ? Shape{} : Shape{shape[1]},
        settings().has_scale_filler() ? Filler(settings().scale_filler()) : Filler::constant(1));
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (!settings().channel_shared() && params()[0]->shape() != Shape{shape[1]})
      throw Error("the scales, ", params()[0]->shape().str(),
                  ", do not fit a bottom that has become ", shape.str());
    inverse_norm_.reshape(
        Shape{settings().across_spatial() ? shape[0] : shape[0] * shape.count(2)});
    top[0]->reshape(shape);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return without_blocks(same_format_options(bottom, top, dtype(), false));
  }

  void prepare_reference(Blobs bottom, Blobs) override {
    const Shape& shape = bottom[0]->shape();
    const bool last = bottom[0]->data.format() == Format::channels_last;
    const bool across = settings().across_spatial(), shared = settings().channel_shared();
    const int64_t inner = shape.count(2);
    vectors_.split.outer = across || !last ? shape[0] : shape[0] * inner;
    vectors_.split.size = across ? shape.count(1) : shape[1];
    vectors_.split.inner = across || last ? 1 : inner;
    vectors_.block = across && !last ? std::max<int64_t>(inner, 1) : 1;
    vectors_.channels = shared ? 1 : std::max<int64_t>(shape[1], 1);
    const int64_t below = shape.count() + 1;
    vectors_.by_sample = FastDivision(vectors_.split.size * vectors_.split.inner, below);
    vectors_.by_inner = FastDivision(vectors_.split.inner, below);
    view_ = shared ? ChannelView{1, 1, shape.count()}
            : last ? ChannelView{shape[0] * inner, shape[1], 1}
                   : ChannelView{shape[0], shape[1], inner};
  }
  void prepare_device(Blobs bottom, Blobs top) override {
    prepare_reference(bottom, top);
    const auto bytes = [&](const ChannelMaps& maps) {
      return channels::sums_scratch_bytes(context(), maps);
    };
    scratch_bytes_ = settings().across_spatial()
                         ? std::max(bytes(samples()), bytes(gains_of(bottom[0]->data)))
                         : bytes({view_});
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  size_t kept_bytes() const override { return inverse_norm_.bytes() + factors_.bytes(); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 8 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (bottom[0]->count() == 0) return;
    const double eps = static_cast<double>(settings().eps());
    double* const inverse_norm = device.overwrite<double>(inverse_norm_);
    if (!device.on_host()) {
      if (settings().across_spatial()) {
        return dispatch_float(dtype(), [&]<class T>(T) {
          samples_forward_on<T>(device, bottom[0]->data, top[0]->data);
        });
      }
      return dispatch_any_float(bottom[0]->data.dtype(), [&]<class S>(S) {
        const S* const x = device.read<S>(bottom[0]->data);
        S* const y = device.overwrite<S>(top[0]->data);
        for_each_vector(device, vectors_.split, kVector<S>,
                        DeviceForward<S>{vectors_, eps, are_aligned(x, y), x,
                                         device.read<Wide<S>>(params()[0]->data), inverse_norm,
                                         factors<Wide<S>>(device, true).centre, y});
      });
    }
    dispatch_float(dtype(), [&]<class T>(T) {
      on_host(Forward<T>{vectors_, eps, device.read<T>(bottom[0]->data),
                         device.read<T>(params()[0]->data), inverse_norm,
                         device.overwrite<T>(top[0]->data)});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (bottom[0]->count() == 0) return;
    if (!device.on_host()) {
      if (settings().across_spatial()) {
        return dispatch_float(dtype(), [&]<class T>(T) {
          samples_backward_on<T>(device, top[0]->diff, propagate[0], *bottom[0]);
        });
      }
      return dispatch_any_float(bottom[0]->data.dtype(), [&]<class S>(S) {
        backward_on<S>(device, top, propagate, bottom);
      });
    }
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *x = device.read<T>(bottom[0]->data), *dy = device.read<T>(top[0]->diff);
      const double* inverse_norm = device.read<double>(inverse_norm_);
      if (T* gradient = gradient_of<T>(device, params()[0].get())) {
        channel_sums(HostSide(), view_, kPassGrain, ScaleTerm<T>{vectors_, x, dy, inverse_norm},
                     AddToGradient<T>{gradient});
      }
      if (!propagate[0]) return;
      on_host(Backward<T>{vectors_, x, dy, device.read<T>(params()[0]->data), inverse_norm,
                          device.overwrite<T>(bottom[0]->diff)});
    });
  }

  bool stores_16_bits() const override { return true; }

 protected:
  BackwardReads reference_backward_reads() const override { return {true, false}; }

 private:
  const NormalizeParameter& settings() const { return param().norm_param(); }

  template <class Body>
  void on_host(const Body& body) const {
    parallel_for(vectors_.split.positions(), kPassGrain / vectors_.split.size + 1,
                 [&](int64_t begin, int64_t end) { body.on_host(begin, end); });
  }

  /// Rounded inverses of the norms, on a device.
  template <class W>
  channels::Coefficients<W> factors(const ComputeDevice& device, bool written) {
    return channels::coefficients_in<W>(device, inverse_norm_.count(), 1, written, factors_);
  }

  /// Whether rows of values that lie side by side are read in vectors.
  template <class S>
  bool are_aligned(const S* a, const S* b) const {
    return vectors_.split.size % kVector<S> == 0 && is_aligned(a) && is_aligned(b);
  }

  template <class S>
  void backward_on(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                   Blobs bottom) {
    using W = Wide<S>;
    const Tensor &of_x = bottom[0]->data, &of_dy = top[0]->diff;
    const S *const x = device.read<S>(of_x), *const dy = device.read<S>(of_dy);
    const double* const inverse_norm = device.read<double>(inverse_norm_);
    if (const auto to = channels::gradients_of<W>(device, nullptr, params()[0].get())) {
      const ScaleTerm<S> term{vectors_, x, dy, inverse_norm};
      if (view_.channels == 1) {
        sum(DeviceSide(device), of_x.count(), kPassGrain, term, 1,
            device.overwrite<double>(total_));
        for_each(DeviceSide(device), 1, 1, AddTotal<W>{device.read<double>(total_), to});
      } else if (view_.inner == 1) {
        channels::add_column_sums<W>(device, view_.outer, view_.channels, of_dy, of_x,
                                     {.gain = factors<W>(device, false).centre}, to);
      } else {
        const channels::AddSums<W> first{to.of_second, nullptr, to.second_overwrites};
        channel_sums(DeviceSide(device), view_, kPassGrain, term, first);
      }
    }
    if (!propagate[0]) return;
    S* const dx = device.overwrite<S>(bottom[0]->diff);
    for_each_vector(device, vectors_.split, kVector<S>,
                    DeviceBackward<S>{vectors_, are_aligned(x, dy) && is_aligned(dx), x, dy,
                                      device.read<W>(params()[0]->data), inverse_norm, dx});
  }

  /// Whole samples, as channels.
  ChannelMaps samples() const { return {{1, vectors_.split.outer, vectors_.split.size}}; }
  /// The channels that have a factor of their own where whole samples are normalized.
  ChannelMaps gains_of(const Tensor& tensor) const {
    return settings().channel_shared() ? samples() : channels::channels_of_samples(tensor);
  }

  template <class T>
  void samples_forward_on(const ComputeDevice& device, const Tensor& x, Tensor& y) {
    double* const inverse_norm = device.overwrite<double>(inverse_norm_);
    channels::finish_sums(device, channels::gradient_sums<T>(device, samples(), {&x, &x}, {}),
                          SetInverse{static_cast<double>(settings().eps()), inverse_norm});
    const ChannelMaps maps = gains_of(x);
    const channels::Coefficients<T> to =
        channels::coefficients_in<T>(device, maps.count(), 2, true, factors_);
    for_each(DeviceSide(device), maps.count(), kPassGrain,
             SetGain<T>{maps.count() / x.shape()[0], device.read<T>(params()[0]->data),
                        inverse_norm, to.gain});
    channels::map_affine<T>(device, maps, x, nullptr, {.gain = to.gain}, false, y);
  }

  template <class T>
  void samples_backward_on(const ComputeDevice& device, const Tensor& dy, bool propagates,
                           Blob& bottom) {
    const auto gradient = channels::gradients_of<T>(device, nullptr, params()[0].get());
    if (!propagates && !gradient) return;
    const channels::GradientOperands from{&dy, &bottom.data};
    const ChannelMaps maps = gains_of(dy);
    const int64_t batch = dy.shape()[0], each = maps.count() / batch;
    const double* const inverse_norm = device.read<double>(inverse_norm_);
    const SumPair* const sums =
        channels::total_sums(device, channels::gradient_sums<T>(device, maps, from, {})).sums;
    if (gradient) {
      for_each_block(device, each, batch, 0,
                     AddScale<T>{each, batch, sums, inverse_norm, gradient});
    }
    if (!propagates) return;
    const channels::Coefficients<T> to =
        channels::coefficients_in<T>(device, maps.count(), 4, true, factors_);
    for_each_block(
        device, batch, each, 0,
        SetSampleGradient<T>{each, sums, device.read<T>(params()[0]->data), inverse_norm, to});
    channels::map_gradient<T>(device, maps, from, {.gain = to.gain, .slope = to.slope},
                              &bottom.diff, nullptr);
  }

  Vectors vectors_;
  ChannelView view_;                           // of the scales
  Tensor inverse_norm_{Shape{0}, DType::f64};  // one a position
  Tensor factors_{Shape{0}};                   // the same, rounded, or what maps take; on a device
  Tensor total_{Shape{1}, DType::f64};         // the gradient of one scale for all, on a device
  size_t scratch_bytes_ = 0;                   // on a device
};

}  // namespace

void register_normalize(Registry& registry) {
  add_two_sided<NormalizeLayer>(registry, "Normalize");
}

}  // namespace crema
