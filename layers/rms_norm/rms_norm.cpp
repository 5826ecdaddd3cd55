// RMSNorm: divides by the root of the mean of squares over the last axes. See README.md.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "core/simd.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Sums of single precision end after so many elements, and go on in double.
constexpr int64_t kRmsChunk = 2048;

/// sum += the sum of a * b.
template <class T>
[[gnu::always_inline]] inline void rms_products(const T* a, const T* b, int64_t n, double* sum) {
  for (int64_t begin = 0; begin < n; begin += kRmsChunk) {
    const int64_t end = begin + kRmsChunk < n ? begin + kRmsChunk : n;
    T part{0};
#pragma omp simd reduction(+ : part)
    for (int64_t j = begin; j < end; ++j) part += a[j] * b[j];
    *sum += static_cast<double>(part);
  }
}
/// The same of a * b * scale.
template <class T>
[[gnu::always_inline]] inline void rms_scaled_products(const T* a, const T* b, const T* scale,
                                                       int64_t n, double* sum) {
  for (int64_t begin = 0; begin < n; begin += kRmsChunk) {
    const int64_t end = begin + kRmsChunk < n ? begin + kRmsChunk : n;
    T part{0};
#pragma omp simd reduction(+ : part)
    for (int64_t j = begin; j < end; ++j) part += a[j] * b[j] * scale[j];
    *sum += static_cast<double>(part);
  }
}
/// y = a * x * scale - b * z; `scale` and `z` may be null.
template <class T>
[[gnu::always_inline]] inline void rms_combine(const T* x, T a, const T* scale, const T* z, T b,
                                               int64_t n, T* y) {
  if (scale != nullptr && z != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = a * x[j] * scale[j] - b * z[j];
  } else if (scale != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = a * x[j] * scale[j];
  } else if (z != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = a * x[j] - b * z[j];
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = a * x[j];
  }
}
/// sums += dy * x * inverse, of one row.
template <class T>
[[gnu::always_inline]] inline void rms_columns(const T* x, const T* dy, double inverse, int64_t n,
                                               double* sums) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    sums[j] += static_cast<double>(dy[j]) * static_cast<double>(x[j]) * inverse;
  }
}

/// Rows of `size` elements. `scale` may be null.
template <class T, class In, class Out>
struct RmsForward {
  int64_t size;
  double eps;
  In x;
  const T* scale;
  double* inverse;  // one a row
  Out y;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      const T* const from = x + row * size;
      double squares = 0;
      vectorized<rms_products<T>>(from, from, size, &squares);
      inverse[row] = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
      vectorized<rms_combine<T>>(from, static_cast<T>(inverse[row]), scale,
                                 static_cast<const T*>(nullptr), T{0}, size, y + row * size);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const int64_t first = row * size;
    double squares = 0;
    for (int64_t j = lanes.first; j < size; j += lanes.count) {
      const auto value = static_cast<double>(x[first + j]);
      squares += value * value;
    }
    squares = lanes.sum(squares);
    const double factor = 1 / sqrt(squares / static_cast<double>(size) + eps);
    if (lanes.first == 0) inverse[row] = factor;
    for (int64_t j = lanes.first; j < size; j += lanes.count) {
      const double gain = scale ? static_cast<double>(scale[j]) : 1;
      y[first + j] = static_cast<T>(static_cast<double>(x[first + j]) * factor * gain);
    }
  }
};

template <class T, class In, class Out>
struct RmsBackward {
  int64_t size;
  In x, dy;
  const T* scale;
  const double* inverse;
  Out dx;

  /// What x is multiplied by, given the sum of dy * x * scale.
  CREMA_FUNCTOR double of_x(int64_t row, double products) const {
    return inverse[row] * inverse[row] * inverse[row] * products / static_cast<double>(size);
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      const T *const from = x + row * size, *const g = dy + row * size;
      double products = 0;
      if (scale == nullptr) {
        vectorized<rms_products<T>>(from, g, size, &products);
      } else {
        vectorized<rms_scaled_products<T>>(from, g, scale, size, &products);
      }
      vectorized<rms_combine<T>>(g, static_cast<T>(inverse[row]), scale, from,
                                 static_cast<T>(of_x(row, products)), size, dx + row * size);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const int64_t first = row * size;
    double products = 0;
    for (int64_t j = lanes.first; j < size; j += lanes.count) {
      const double gain = scale ? static_cast<double>(scale[j]) : 1;
      products += static_cast<double>(x[first + j]) * static_cast<double>(dy[first + j]) * gain;
    }
    products = lanes.sum(products);
    const double less = of_x(row, products);
    for (int64_t j = lanes.first; j < size; j += lanes.count) {
      const double gain = scale ? static_cast<double>(scale[j]) : 1;
      dx[first + j] = static_cast<T>(inverse[row] * static_cast<double>(dy[first + j]) * gain -
                                     less * static_cast<double>(x[first + j]));
    }
  }
};

/// Of each element of the scale.
template <class T, class In>
struct RmsScaleGradient {
  static constexpr int64_t kTogether = 128;
  int64_t rows, size;
  In x, dy;
  const double* inverse;
  T* of_scale;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t c = begin; c < end; c += kTogether) {
      const int64_t count = std::min(kTogether, end - c);
      std::array<double, kTogether> sums{};
      for (int64_t row = 0; row < rows; ++row) {
        vectorized<rms_columns<T>>(x + row * size + c, dy + row * size + c, inverse[row], count,
                                   sums.data());
      }
      for (int64_t j = 0; j < count; ++j)
        of_scale[c + j] += static_cast<T>(sums[static_cast<size_t>(j)]);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t c, const Lanes& lanes = {}) const {
    double sum = 0;
    for (int64_t row = lanes.first; row < rows; row += lanes.count) {
      const int64_t i = row * size + c;
      sum += static_cast<double>(dy[i]) * static_cast<double>(x[i]) * inverse[row];
    }
    sum = lanes.sum(sum);
    if (lanes.first == 0) of_scale[c] += static_cast<T>(sum);
  }
};

class RMSNormLayer : public TwoSidedLayer {
 public:
  explicit RMSNormLayer(const LayerInit& init)
      : TwoSidedLayer(init), eps_(static_cast<double>(init.param.rms_norm_param().eps())) {
    if (!(eps_ >= 0 && std::isfinite(eps_)))
      throw Error("eps ", eps_, " is not at least 0; it is added to the mean of squares");
  }

  void setup(Blobs bottom, Blobs) override {
    if (param().rms_norm_param().affine())
      scale_ = &add_param(normalized(bottom[0]->shape()), Filler::constant(1));
  }
  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const Shape inner = normalized(shape);
    if (scale_ != nullptr && scale_->shape() != inner)
      throw Error("the scale, of shape ", scale_->shape().str(),
                  ", does not fit a bottom that has become ", shape.str());
    rows_.size = inner.count();
    rows_.outer = shape.count(0, shape.rank() - inner.rank());
    inverse_.reshape(Shape{rows_.outer});
    top[0]->reshape(shape);
  }
  bool stores_16_bits() const override { return true; }
  size_t kept_bytes() const override { return inverse_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 9 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (bottom[0]->count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In x, Out y) {
        for_each_position(
            side, rows_, kPassGrain,
            RmsForward<T, In, Out>{rows_.size, eps_, x, read_parameter<T>(device, scale_),
                                   device.overwrite<double>(inverse_), y});
      };
      const Tensor& x = bottom[0]->data;
      Tensor& y = top[0]->data;
      device.on_host() ? run(HostSide(), device.read<T>(x), device.overwrite<T>(y))
                       : run(DeviceSide(device), values_in<T>(device, x), values_out<T>(device, y));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (bottom[0]->count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const double* const inverse = device.read<double>(inverse_);
      const auto run = [&]<class Side, class In>(Side side, In x, In dy, const auto& find_dx) {
        if (T* const of_scale = gradient_of<T>(device, scale_)) {
          AxisSplit columns;
          columns.size = rows_.outer;
          columns.inner = rows_.size;
          for_each_position(
              side, columns, kPassGrain,
              RmsScaleGradient<T, In>{rows_.outer, rows_.size, x, dy, inverse, of_scale});
        }
        if (propagate[0]) find_dx(side, x, dy);
      };
      const auto gradient = [&]<class In, class Out>(const auto& side, In x, In dy, Out dx) {
        for_each_position(side, rows_, kPassGrain,
                          RmsBackward<T, In, Out>{rows_.size, x, dy,
                                                  read_parameter<T>(device, scale_), inverse, dx});
      };
      const Tensor &x = bottom[0]->data, &dy = top[0]->diff;
      Tensor& dx = bottom[0]->diff;
      if (device.on_host()) {
        return run(HostSide(), device.read<T>(x), device.read<T>(dy),
                   [&](const auto& side, const T* values, const T* g) {
                     gradient(side, values, g, device.overwrite<T>(dx));
                   });
      }
      run(DeviceSide(device), values_in<T>(device, x), values_in<T>(device, dy),
          [&](const auto& side, ValuesIn<T> values, ValuesIn<T> g) {
            gradient(side, values, g, values_out<T>(device, dx));
          });
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {true, false}; }

 private:
  /// The axes that the mean is over.
  Shape normalized(const Shape& shape) const {
    const int axis = shape.canonical_axis(param().rms_norm_param().axis());
    return Shape(std::vector<int64_t>(shape.dims().begin() + axis, shape.dims().end()));
  }

  double eps_;
  AxisSplit rows_;  // (rows, size)
  Parameter* scale_ = nullptr;
  Tensor inverse_{Shape{0}, DType::f64};  // 1 / the root, one a row
};

}  // namespace

void register_rms_norm(Registry& registry) { add_two_sided<RMSNormLayer>(registry, "RMSNorm"); }

}  // namespace crema
