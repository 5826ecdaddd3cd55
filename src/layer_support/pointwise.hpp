// Pointwise layers: each element of the top is a function of one element of the bottom, y = f(x).
//
// The folder of such a layer has NAME_math.hpp, NAME.proto and README.md. NAME_math.hpp has the
// mathematics, written once for numbers (CUDA, f64) and for vectors (f32 on the CPU). If there is
// no NAME.cpp, CMake makes the layer, its registration, its loops and its CUDA kernels from this
// file. Example, layers/sigmoid:
//
//   struct Math {
//     static constexpr const char* type = "Sigmoid";     // the layer's type
//     static constexpr bool keeps_zero = false;           // f(0) = 0: blocked padding stays zero
//     CREMA_FUNCTOR bool reads_x() const { ... }          // backward reads x
//     CREMA_FUNCTOR bool reads_y() const { ... }
//     template <class V> CREMA_FUNCTOR V forward(V x) const;
//     template <class V> CREMA_FUNCTOR V backward(V dy, V x, V y) const;   // dx
//
//     // If the layer has settings: sets them as members.
//     template <class Parameter> static Math of(const Parameter& param);
//     // If there is no gradient (Layer::can_propagate).
//     static constexpr bool differentiable = false;
//     // If a layer in front may apply the function as a step of its tail.
//     std::optional<TailStep> tail_step() const;
//   };
//
// The file has no include guard and no namespace, because it is included once for each kind of V.
// V(number) makes a V from a number; core/functor.hpp lists the other functions. Use `if` for
// conditions on members of Math, and select(condition, yes, no) for conditions on a V.
#pragma once

#include <optional>

#include "core/dispatch.hpp"
#include "core/functor.hpp"
#include "core/parallel.hpp"
#include "crema/layer.hpp"
#include "layer_support/options.hpp"

namespace crema {

/// Math with the settings of the layer.
template <class Math>
Math math_of(const LayerParameter& param) {
  if constexpr (requires { Math::of(param); }) {
    return Math::of(param);
  } else {
    return {};
  }
}

template <class M>
class PointwiseLayer : public Layer {
 public:
  using Math = M;

  PointwiseLayer(const LayerInit& init, Math math) : Layer(init), math_(math) {}

  const Math& math() const { return math_; }

  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {n, n};
  }

  bool can_propagate(int /*bottom*/) const override {
    if constexpr (requires { Math::differentiable; }) return Math::differentiable;
    return true;
  }
  bool is_exact_bottom(int /*bottom*/) const override { return false; }

  std::optional<TailStep> as_tail_step() const override {
    if constexpr (requires { math_.tail_step(); }) return math_.tail_step();
    return std::nullopt;
  }

  void forward_cpu(Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = bottom[0]->data.template read<T>();
      T* y = top[0]->data.template overwrite<T>();
      parallel_for(bottom[0]->data.storage(), kElementGrain, [=, this](int64_t begin, int64_t end) {
        run_forward(x + begin, y + begin, end - begin);
      });
    });
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* dy = top[0]->diff.template read<T>();
      // The memory of values that backward does not read may be reused; dy is passed instead.
      const T* x = math_.reads_x() ? bottom[0]->data.template read<T>() : dy;
      const T* y = math_.reads_y() ? top[0]->data.template read<T>() : dy;
      T* dx = bottom[0]->diff.template overwrite<T>();
      parallel_for(bottom[0]->diff.storage(), kElementGrain, [=, this](int64_t begin, int64_t end) {
        run_backward(dy + begin, x + begin, y + begin, dx + begin, end - begin);
      });
    });
  }

 protected:
  /// The loops in f32, on vectors. y may be x, and dx any of the others.
  virtual void run_forward(const float* x, float* y, int64_t n) const = 0;
  virtual void run_backward(const float* dy, const float* x, const float* y, float* dx,
                            int64_t n) const = 0;

  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = math_.reads_x(), .top_data = math_.reads_y()};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return same_format_options(bottom, top, dtype(), Math::keeps_zero);
  }

 private:
  void run_forward(const double* x, double* y, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) y[i] = math_.template forward<double>(x[i]);
  }
  void run_backward(const double* dy, const double* x, const double* y, double* dx,
                    int64_t n) const {
    for (int64_t i = 0; i < n; ++i) dx[i] = math_.template backward<double>(dy[i], x[i], y[i]);
  }

  Math math_;
};

}  // namespace crema
