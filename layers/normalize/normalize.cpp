// Normalize: divides by the L2 norm, then scales. See README.md.
#include <array>
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/channel_passes.hpp"
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
    view_ = shared ? ChannelView{1, 1, shape.count()}
            : last ? ChannelView{shape[0] * inner, shape[1], 1}
                   : ChannelView{shape[0], shape[1], inner};
  }
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
      return dispatch_any_float(bottom[0]->data.dtype(), [&]<class S>(S) {
        backward_on<S>(device, top, propagate, bottom);
      });
    }
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *x = device.read<T>(bottom[0]->data), *dy = device.read<T>(top[0]->diff);
      const double* inverse_norm = device.read<double>(inverse_norm_);
      if (T* gradient = gradient_of<T>(device, params()[0].get())) {
        channel_sums(device, view_, kPassGrain, ScaleTerm<T>{vectors_, x, dy, inverse_norm},
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
    if (W* const gradient = gradient_of<W>(device, params()[0].get())) {
      if (view_.inner == 1 && vectors_.split.inner == 1 && vectors_.split.size == view_.channels) {
        channels::add_column_sums<W>(device, view_.outer, view_.channels, of_dy, of_x,
                                     {.gain = factors<W>(device, false).centre},
                                     {.of_second = gradient});
      } else {
        channel_sums(device, view_, kPassGrain, ScaleTerm<S>{vectors_, x, dy, inverse_norm},
                     AddToGradient<W>{gradient});
      }
    }
    if (!propagate[0]) return;
    S* const dx = device.overwrite<S>(bottom[0]->diff);
    for_each_vector(device, vectors_.split, kVector<S>,
                    DeviceBackward<S>{vectors_, are_aligned(x, dy) && is_aligned(dx), x, dy,
                                      device.read<W>(params()[0]->data), inverse_norm, dx});
  }

  Vectors vectors_;
  ChannelView view_;                           // of the scales
  Tensor inverse_norm_{Shape{0}, DType::f64};  // one a position
  Tensor factors_{Shape{0}};                   // the same, rounded, on a device
};

}  // namespace

void register_normalize(Registry& registry) {
  add_two_sided<NormalizeLayer>(registry, "Normalize");
}

}  // namespace crema
