// Reduce: one number from all values along axes. See README.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "core/simd.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/spread.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using ReduceOp = ReduceParameter::Operation;

// How values are joined, beside AddUp. NaN goes through all of them.

struct TakeGreatest {
  CREMA_FUNCTOR static double first() { return -std::numeric_limits<double>::infinity(); }
  CREMA_FUNCTOR static double join(double a, double b) {
    const double greatest = a > b ? a : b;
    return a != a ? a : greatest;
  }
  template <class Lanes>
  CREMA_FUNCTOR static double over(const Lanes& lanes, double value) {
    // The greatest of a warp leaves NaN out.
    const double nans = lanes.sum(value != value ? 1.0 : 0.0);
    const double greatest = lanes.max(value != value ? first() : value);
    return nans > 0 ? std::numeric_limits<double>::quiet_NaN() : greatest;
  }
};

struct MultiplyUp {
  CREMA_FUNCTOR static double first() { return 1; }
  CREMA_FUNCTOR static double join(double a, double b) { return a * b; }
  // Of one lane: see run_forward().
  template <class Lanes>
  CREMA_FUNCTOR static double over(const Lanes&, double value) {
    return value;
  }
};

// Operations: what is joined, of x and the number `m` of its result; the result of all `n` of it;
// and the derivative of the result y with respect to x. kReadsX and kReadsY: what that needs.

struct ReduceSum {
  using Fold = AddUp;
  static constexpr bool kReadsX = false, kReadsY = false, kMean = false;
  CREMA_FUNCTOR static double term(double x, double /*m*/) { return x; }
  CREMA_FUNCTOR static double result(double all, double /*m*/) { return all; }
  CREMA_FUNCTOR static double slope(double /*x*/, double /*y*/) { return 1; }
};
struct ReduceMean : ReduceSum {
  static constexpr bool kMean = true;
};
struct ReduceMax : ReduceSum {
  using Fold = TakeGreatest;
  static constexpr bool kReadsX = true, kReadsY = true;
  /// Before it is divided by their number.
  CREMA_FUNCTOR static double slope(double x, double y) { return x == y ? 1 : 0; }
};
struct ReduceMin : ReduceMax {
  CREMA_FUNCTOR static double term(double x, double /*m*/) { return -x; }
  CREMA_FUNCTOR static double result(double all, double /*m*/) { return -all; }
};
struct ReduceProd : ReduceSum {
  using Fold = MultiplyUp;
  static constexpr bool kReadsX = true, kReadsY = true;
  // Where no value is 0.
  CREMA_FUNCTOR static double slope(double x, double y) { return y / x; }
};
struct ReduceL1 : ReduceSum {
  static constexpr bool kReadsX = true;
  CREMA_FUNCTOR static double term(double x, double /*m*/) { return abs(x); }
  CREMA_FUNCTOR static double slope(double x, double /*y*/) {
    return static_cast<double>(x > 0) - static_cast<double>(x < 0);
  }
};
struct ReduceSumSquare : ReduceSum {
  static constexpr bool kReadsX = true;
  CREMA_FUNCTOR static double term(double x, double /*m*/) { return x * x; }
  CREMA_FUNCTOR static double slope(double x, double /*y*/) { return 2 * x; }
};
struct ReduceL2 : ReduceSumSquare {
  static constexpr bool kReadsY = true;
  CREMA_FUNCTOR static double result(double all, double /*m*/) { return sqrt(all); }
  /// 0 at the origin, where there is none.
  CREMA_FUNCTOR static double slope(double x, double y) { return y == 0 ? 0 : x / y; }
};
struct ReduceLogSum : ReduceSum {
  static constexpr bool kReadsY = true;
  CREMA_FUNCTOR static double result(double all, double /*m*/) { return log(all); }
  CREMA_FUNCTOR static double slope(double /*x*/, double y) { return exp(-y); }
};
struct ReduceLogSumExp : ReduceSum {
  static constexpr bool kReadsX = true, kReadsY = true;
  /// What exponents are lessened by: the greatest value, unless that is infinite.
  CREMA_FUNCTOR static double base(double m) { return m - m == 0 ? m : 0; }
  CREMA_FUNCTOR static double term(double x, double m) { return exp(x - base(m)); }
  CREMA_FUNCTOR static double result(double all, double m) { return base(m) + log(all); }
  CREMA_FUNCTOR static double slope(double x, double y) {
    return x == y ? 1 : exp(x - y);  // of infinite ones, too
  }
};

template <class Op, class T>
[[gnu::always_inline]] inline void reduce_run(const T* x, int64_t step, double m, double* to,
                                              int64_t n) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = Op::term(static_cast<double>(x[i]), m);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = Op::term(static_cast<double>(x[i * step]), m);
  }
}

/// What is joined. Operands: the numbers of the top, and x. `m` may be null.
template <class Op, class T, class In>
struct ReduceTerms {
  using Value = double;
  const T* m;
  In x;

  CREMA_FUNCTOR double operator()(const Spread<2>::Places& at) const {
    return Op::term(static_cast<double>(x[at.of[1]]), m ? static_cast<double>(m[at.of[0]]) : 0);
  }
  void run(const Spread<2>& spread, const Spread<2>::Places& at, int64_t n, double* to) const {
    const T* const from = x + at.of[1];
    if (m == nullptr || spread.step(0) == 0) {
      const double of_all = m == nullptr ? 0 : static_cast<double>(m[at.of[0]]);
      return vectorized<reduce_run<Op, T>>(from, spread.step(1), of_all, to, n);
    }
    for (int64_t i = 0; i < n; ++i) {
      to[i] = Op::term(static_cast<double>(from[i * spread.step(1)]),
                       static_cast<double>(m[at.of[0] + i * spread.step(0)]));
    }
  }
};

template <class Op, class T>
struct StoreReduced {
  double factor;
  const T* m;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i, double all) const {
    y[i] = static_cast<T>(factor * Op::result(all, m ? static_cast<double>(m[i]) : 0));
  }
};

/// How many values of a result are equal to it.
template <class T, class In>
struct CountEqual {
  using Value = double;
  const T* y;
  In x;
  CREMA_FUNCTOR double operator()(const Spread<2>::Places& at) const {
    const T value = x[at.of[1]];
    return value == y[at.of[0]] ? 1 : 0;
  }
  void run(const Spread<2>& spread, const Spread<2>::Places& at, int64_t n, double* to) const {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = x[at.of[1] + i * spread.step(1)] == y[at.of[0] + i * spread.step(0)] ? 1 : 0;
    }
  }
};

/// Of a product: the number of zeros.
template <class T, class In>
struct CountZeros {
  using Value = double;
  In x;
  CREMA_FUNCTOR double operator()(const Spread<2>::Places& at) const {
    const T value = x[at.of[1]];
    return value == T{0} ? 1 : 0;
  }
  void run(const Spread<2>& spread, const Spread<2>::Places& at, int64_t n, double* to) const {
    for (int64_t i = 0; i < n; ++i) to[i] = x[at.of[1] + i * spread.step(1)] == T{0} ? 1 : 0;
  }
};
/// The product of the others.
template <class T, class In>
struct NotZero {
  using Value = double;
  In x;
  CREMA_FUNCTOR double operator()(const Spread<2>::Places& at) const {
    const auto value = static_cast<double>(x[at.of[1]]);
    return value == 0 ? 1 : value;
  }
  void run(const Spread<2>& spread, const Spread<2>::Places& at, int64_t n, double* to) const {
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(x[at.of[1] + i * spread.step(1)]);
      to[i] = value == 0 ? 1 : value;
    }
  }
};

/// The gradient of x. Operands: the numbers of the top, and x. What the operation does not read is
/// null.
template <class Op, class T, class In>
struct ReduceGradient {
  using Value = T;
  double factor;
  const T *dy, *y;
  const double *count, *product;  // MAX, MIN: of equal values; PROD: of zeros, and without them
  In x;

  CREMA_FUNCTOR double factor_at(int64_t i) const {
    const double g = factor * static_cast<double>(dy[i]);
    if constexpr (std::is_base_of_v<ReduceMax, Op>) return count[i] > 0 ? g / count[i] : 0;
    return g;
  }
  CREMA_FUNCTOR double slope_at(int64_t i, double value) const {
    if constexpr (std::is_same_v<Op, ReduceProd>) {
      // With one zero, the product of the others is its slope.
      if (count[i] > 1) return 0;
      if (count[i] == 1) return value == 0 ? product[i] : 0;
      return product[i] / value;
    }
    return Op::slope(value, Op::kReadsY ? static_cast<double>(y[i]) : 0);
  }
  CREMA_FUNCTOR T operator()(const Spread<2>::Places& at) const {
    double value = 0;
    if constexpr (Op::kReadsX) value = static_cast<double>(x[at.of[1]]);
    return static_cast<T>(factor_at(at.of[0]) * slope_at(at.of[0], value));
  }
  void run(const Spread<2>& spread, const Spread<2>::Places& at, int64_t n, T* to) const {
    const int64_t step = spread.step(0);
    if (step == 0 && !Op::kReadsX) {
      std::fill_n(to, n, (*this)(at));
      return;
    }
    if (step == 0) {
      const double g = factor_at(at.of[0]);
      for (int64_t i = 0; i < n; ++i) {
        to[i] = static_cast<T>(g * slope_at(at.of[0], static_cast<double>(x[at.of[1] + i])));
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      double value = 0;
      if constexpr (Op::kReadsX) value = static_cast<double>(x[at.of[1] + i]);
      to[i] = static_cast<T>(factor_at(at.of[0] + i) * slope_at(at.of[0] + i, value));
    }
  }
};

class ReduceLayer : public TwoSidedLayer {
 public:
  explicit ReduceLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        operation_(init.param.reduce_param().operation()),
        greatest_(Shape{0}, init.dtype) {}

  void reshape(Blobs bottom, Blobs top) override {
    const ReduceParameter& s = param().reduce_param();
    const Shape& from = bottom[0]->shape();
    std::vector<bool> goes(static_cast<size_t>(from.rank()), s.axis_size() == 0);
    for (const int given : s.axis()) {
      const auto axis = static_cast<size_t>(from.canonical_axis(given));
      if (goes[axis])
        throw Error("axis ", given, " of '", bottom[0]->name, "' (", from.str(),
                    ") is named twice; name each axis once");
      goes[axis] = true;
    }
    std::vector<int64_t> kept, dims;
    for (int a = 0; a < from.rank(); ++a) {
      const bool gone = goes[static_cast<size_t>(a)];
      kept.push_back(gone ? 1 : from[a]);
      if (!gone || s.keep_dims()) dims.push_back(kept.back());
    }
    const Shape spread(std::move(kept));
    // Of axes that are walked through together, either all go or none.
    const Spread<2> both = spread_of<2>(from, {spread, from});
    spread_ = both;
    split_ = SpreadSplit<2>(both, 0);
    size_ = 1;
    for (int a = 0; a < from.rank(); ++a) {
      if (goes[static_cast<size_t>(a)]) size_ *= from[a];
    }
    of_batch_ = !goes.empty() && goes[0];
    top[0]->reshape(Shape(std::move(dims)));
    if (size_ == 0 && top[0]->count() > 0 &&
        (operation_ == ReduceParameter::MAX || operation_ == ReduceParameter::MIN))
      throw Error("there is no value of '", bottom[0]->name, "' (", from.str(), ") to take the ",
                  operation_ == ReduceParameter::MAX ? "greatest" : "least", " of");
    const bool counts = operation_ == ReduceParameter::MAX || operation_ == ReduceParameter::MIN;
    const bool multiplies = operation_ == ReduceParameter::PROD;
    const Shape none{0}, each = top[0]->shape();
    greatest_.reshape(operation_ == ReduceParameter::LOG_SUM_EXP ? each : none);
    count_.reshape(trains() && (counts || multiplies) ? each : none);
    product_.reshape(trains() && multiplies ? each : none);
  }

  std::optional<MeanUnits> mean_over(int, int64_t) const override {
    const bool adds = operation_ == ReduceParameter::SUM || operation_ == ReduceParameter::L1 ||
                      operation_ == ReduceParameter::SUM_SQUARE;
    if (!of_batch_ || !adds) return std::nullopt;
    return MeanUnits{.is_sum = true};
  }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {2 * n, 2 * n};
  }
  size_t kept_bytes() const override {
    return greatest_.bytes() + count_.bytes() + product_.bytes();
  }
  /// The bottom may; the results, which are few, do not.
  bool stores_16_bits() const override { return true; }
  bool is_exact_top(int /*i*/) const override { return true; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch([&]<class Op, class T>(Op, T) {
      const auto run = [&]<class Side, class In>(Side side, In x) {
        T* const y = device.overwrite<T>(top[0]->data);
        const T* m = nullptr;
        if constexpr (std::is_same_v<Op, ReduceLogSumExp>) {
          T* const greatest = device.overwrite<T>(greatest_);
          fold<ReduceMax, T>(side, x, static_cast<const T*>(nullptr), 1.0, greatest);
          m = greatest;
        }
        fold<Op, T>(side, x, m, factor(Op::kMean), y);
      };
      const Tensor& x = bottom[0]->data;
      device.on_host() ? run(HostSide(), device.read<T>(x))
                       : run(DeviceSide(device), values_in<T>(device, x));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    if (bottom[0]->count() == 0) return;
    dispatch([&]<class Op, class T>(Op, T) {
      const Tensor& x = bottom[0]->data;
      const T* const dy = device.read<T>(top[0]->diff);
      const T* const y = Op::kReadsY ? device.read<T>(top[0]->data) : nullptr;
      const auto run = [&]<class Side, class In, class Out>(Side side, In values, Out dx) {
        const double *count = nullptr, *product = nullptr;
        if constexpr (std::is_base_of_v<ReduceMax, Op>) {
          double* const equal = device.overwrite<double>(count_);
          spread_sums(side, split_, CountEqual<T, In>{y, values},
                      StoreSpreadSum<double, double*>{equal});
          count = equal;
        }
        if constexpr (std::is_same_v<Op, ReduceProd>) {
          double* const zeros = device.overwrite<double>(count_);
          double* const others = device.overwrite<double>(product_);
          spread_sums(side, split_, CountZeros<T, In>{values},
                      StoreSpreadSum<double, double*>{zeros});
          multiply_up(side, NotZero<T, In>{values}, StoreSpreadSum<double, double*>{others});
          count = zeros;
          product = others;
        }
        spread_apply(side, spread_,
                     ReduceGradient<Op, T, In>{factor(Op::kMean), dy, y, count, product, values},
                     dx);
      };
      Tensor& dx = bottom[0]->diff;
      if (device.on_host())
        return run(HostSide(), Op::kReadsX ? device.read<T>(x) : static_cast<const T*>(nullptr),
                   device.overwrite<T>(dx));
      run(DeviceSide(device), Op::kReadsX ? values_in<T>(device, x) : ValuesIn<T>(),
          values_out<T>(device, dx));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return dispatch([&]<class Op, class T>(Op, T) -> BackwardReads {
      return {Op::kReadsX, Op::kReadsY};
    });
  }

 private:
  /// The mean of no values is NaN, as 0 / 0.
  double factor(bool mean) const { return mean ? 1 / static_cast<double>(size_) : 1; }

  template <class Op, class T, class Side, class In>
  void fold(const Side& side, In x, const T* m, double factor, T* y) const {
    const ReduceTerms<Op, T, In> terms{m, x};
    const StoreReduced<Op, T> store{factor, m, y};
    if constexpr (std::is_same_v<typename Op::Fold, MultiplyUp>) {
      multiply_up(side, terms, store);
    } else {
      spread_sums<typename Op::Fold>(side, split_, terms, store);
    }
  }
  /// Lanes of a warp cannot be multiplied: a thread takes each product.
  template <class Side, class Term, class Finish>
  void multiply_up(const Side& side, const Term& term, const Finish& finish) const {
    for_each(side, split_.kept.count(), kPassGrain / std::max<int64_t>(size_, 1) + 1,
             SpreadSums<2, MultiplyUp, Term, Finish>{split_, split_.rest.count(), term, finish});
  }

  /// Returns body(ReduceSum{}, float{}), or the like.
  template <class Body>
  std::invoke_result_t<Body, ReduceSum, float> dispatch(const Body& body) const {
    return dispatch_float(dtype(), [&]<class T>(T zero) {
      switch (operation_) {
        case ReduceParameter::MEAN:
          return body(ReduceMean(), zero);
        case ReduceParameter::MAX:
          return body(ReduceMax(), zero);
        case ReduceParameter::MIN:
          return body(ReduceMin(), zero);
        case ReduceParameter::PROD:
          return body(ReduceProd(), zero);
        case ReduceParameter::L1:
          return body(ReduceL1(), zero);
        case ReduceParameter::L2:
          return body(ReduceL2(), zero);
        case ReduceParameter::SUM_SQUARE:
          return body(ReduceSumSquare(), zero);
        case ReduceParameter::LOG_SUM:
          return body(ReduceLogSum(), zero);
        case ReduceParameter::LOG_SUM_EXP:
          return body(ReduceLogSumExp(), zero);
        case ReduceParameter::SUM:
          break;
      }
      return body(ReduceSum(), zero);
    });
  }

  ReduceOp operation_;
  Spread<2> spread_;      // the top, with the axes that go, and the bottom
  SpreadSplit<2> split_;  // kept axes, and those that go
  int64_t size_ = 1;      // values of a result
  bool of_batch_ = false;
  Tensor greatest_;                                                     // LOG_SUM_EXP
  Tensor count_{Shape{0}, DType::f64}, product_{Shape{0}, DType::f64};  // see ReduceGradient
};

}  // namespace

void register_reduce(Registry& registry) { add_two_sided<ReduceLayer>(registry, "Reduce"); }

}  // namespace crema
