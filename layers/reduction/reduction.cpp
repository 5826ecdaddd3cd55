// Reduction: one number from all values behind an axis. See README.md.
#include <cmath>
#include <optional>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/position_sums.hpp"
#include "layer_support/sums.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// What is added up: f(x), and f'(x).
struct Plain {
  CREMA_FUNCTOR static double term(double x) { return x; }
  template <class T>
  CREMA_FUNCTOR static T slope(T /*x*/) {
    return T{1};
  }
};
struct Absolute {
  CREMA_FUNCTOR static double term(double x) { return abs(x); }
  template <class T>
  CREMA_FUNCTOR static T slope(T x) {
    return static_cast<T>((x > T{0}) - (x < T{0}));
  }
};
struct Square {
  CREMA_FUNCTOR static double term(double x) { return x * x; }
  template <class T>
  CREMA_FUNCTOR static T slope(T x) {
    return T{2} * x;
  }
};

/// `In` and `Out` are pointers, or ValuesIn<T> and ValuesOut<T> (core/float_values.hpp).
template <class Of, class In>
struct Term {
  In x;
  CREMA_FUNCTOR double operator()(int64_t place) const {
    return Of::term(static_cast<double>(x[place]));
  }
};

/// Position i is part i % parts of row i / parts; x is null where slopes do not depend on it.
template <class Of, class T, class In, class Out>
struct Gradient {
  int64_t size, parts;
  T factor;
  const T* dy;
  In x;
  Out dx;

  /// The first place of part i of all rows.
  CREMA_FUNCTOR int64_t first(int64_t i) const {
    return i / parts * size + i % parts * size / parts;
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const T g = factor * dy[i / parts];
      const int64_t from = first(i), count = first(i + 1) - from;
      if (!x) {
        std::fill_n(dx + from, count, g);
      } else {
        multiply(g, x + from, dx + from, count);
      }
    }
  }
  static void multiply(T g, const T* from, T* to, int64_t count) {
#pragma omp simd
    for (int64_t k = 0; k < count; ++k) to[k] = g * Of::slope(from[k]);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const T g = factor * dy[i / parts];
    for (int64_t k = first(i) + lanes.first; k < first(i + 1); k += lanes.count) {
      const T value = x ? x[k] : T{0};
      dx[k] = g * Of::slope(value);
    }
  }
};

class ReductionLayer : public TwoSidedLayer {
 public:
  using Operation = ReductionParameter::ReductionOp;

  explicit ReductionLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        operation_(init.param.reduction_param().operation()),
        coeff_(static_cast<double>(init.param.reduction_param().coeff())) {
    if (!std::isfinite(coeff_)) throw Error("coeff ", coeff_, " is not finite; give a number");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const int given = param().reduction_param().axis();
    // A scalar is its own sum.
    const int axis = shape.rank() == 0 && given == 0 ? 0 : shape.canonical_axis(given);
    of_batch_ = axis == 0;
    rows_.outer = shape.count(0, axis);
    rows_.size = shape.count(axis);
    top[0]->reshape(Shape(std::vector<int64_t>(shape.dims().begin(), shape.dims().begin() + axis)));
  }
  std::optional<MeanUnits> mean_over(int, int64_t) const override {
    if (!of_batch_ || operation_ == ReductionParameter::MEAN) return std::nullopt;
    return MeanUnits{.is_sum = true};
  }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {operation_ == ReductionParameter::SUMSQ ? 2 * n : n, reads_x() ? 2 * n : 0};
  }

  /// The bottom may; the sums, which are few, do not.
  bool stores_16_bits() const override { return true; }
  bool is_exact_top(int /*i*/) const override { return true; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch([&]<class Of, class T>(Of, T) {
      T* const y = device.overwrite<T>(top[0]->data);
      const auto run = [&]<class Side, class In>(Side side, In x) {
        // Few long rows are shared out among threads one by one.
        if (rows_.outer <= kFewRows && rows_.size >= kLongRow) {
          for (int64_t i = 0; i < rows_.outer; ++i) {
            sum(side, rows_.size, kPassGrain, Term<Of, In>{x + i * rows_.size}, factor(), y + i);
          }
          return;
        }
        position_sums(side, rows_, Term<Of, In>{x}, StoreSum<T>{factor(), y});
      };
      const Tensor& x = bottom[0]->data;
      device.on_host() ? run(HostSide(), device.read<T>(x))
                       : run(DeviceSide(device), values_in<T>(device, x));
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    if (rows_.size == 0) return;
    // Long rows are shared out among threads too.
    const int64_t parts = std::max<int64_t>(rows_.size / kElementGrain, 1);
    AxisSplit pieces;
    pieces.outer = rows_.outer * parts;
    pieces.size = rows_.size / parts;
    dispatch([&]<class Of, class T>(Of, T) {
      const Tensor& x = bottom[0]->data;
      Tensor& diff = bottom[0]->diff;
      const T* const dy = device.read<T>(top[0]->diff);
      const auto run = [&]<class Side, class In, class Out>(Side side, In values, Out dx) {
        for_each_position(
            side, pieces, kElementGrain,
            Gradient<Of, T, In, Out>{rows_.size, parts, static_cast<T>(factor()), dy, values, dx});
      };
      if (device.on_host()) {
        return run(HostSide(), reads_x() ? device.read<T>(x) : nullptr, device.overwrite<T>(diff));
      }
      run(DeviceSide(device), reads_x() ? values_in<T>(device, x) : ValuesIn<T>(),
          values_out<T>(device, diff));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {reads_x(), false}; }

 private:
  static constexpr int64_t kFewRows = 64, kLongRow = 65536;

  bool reads_x() const {
    return operation_ == ReductionParameter::ASUM || operation_ == ReductionParameter::SUMSQ;
  }
  /// What sums are multiplied by. The mean of no values is 0.
  double factor() const {
    const bool mean = operation_ == ReductionParameter::MEAN;
    return mean ? coeff_ / static_cast<double>(std::max<int64_t>(rows_.size, 1)) : coeff_;
  }
  /// Calls body(Plain{}, float{}), or the like.
  template <class Body>
  void dispatch(const Body& body) const {
    dispatch_float(dtype(), [&]<class T>(T zero) {
      switch (operation_) {
        case ReductionParameter::ASUM:
          return body(Absolute(), zero);
        case ReductionParameter::SUMSQ:
          return body(Square(), zero);
        case ReductionParameter::SUM:
        case ReductionParameter::MEAN:
          return body(Plain(), zero);
      }
    });
  }

  Operation operation_;
  double coeff_;
  AxisSplit rows_;         // (outer, size); inner is 1
  bool of_batch_ = false;  // the first axis goes into the sum
};

}  // namespace

void register_reduction(Registry& registry) {
  add_two_sided<ReductionLayer>(registry, "Reduction");
}

}  // namespace crema
