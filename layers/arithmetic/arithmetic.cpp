// Arithmetic: an operation on the elements of two bottoms, which broadcast. See README.md.
#include <cmath>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "core/simd.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/spread.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

#define CREMA_ALWAYS_INLINE [[gnu::always_inline]] CREMA_FUNCTOR

namespace crema {
namespace {

// Operations: value(a, b); its derivatives, times g, in `slope_a` and `slope_b`; and which of the
// bottoms these read. What a slope does not read may be anything.

struct AddOf {
  static constexpr bool kReadsA[2] = {false, false}, kReadsB[2] = {false, false};
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    return a + b;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_a(T, T, T g) {
    return g;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T, T, T g) {
    return g;
  }
};

struct SubOf : AddOf {
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    return a - b;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T, T, T g) {
    return -g;
  }
};

struct MulOf {
  static constexpr bool kReadsA[2] = {false, true}, kReadsB[2] = {true, false};
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    return a * b;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_a(T, T b, T g) {
    return g * b;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T a, T, T g) {
    return g * a;
  }
};

struct DivOf {
  static constexpr bool kReadsA[2] = {false, true}, kReadsB[2] = {true, true};
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    return a / b;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_a(T, T b, T g) {
    return g / b;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T a, T b, T g) {
    return -g * (a / b) / b;
  }
};

struct PowOf {
  static constexpr bool kReadsA[2] = {true, true}, kReadsB[2] = {true, true};
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    return b == T{2} ? a * a : std::pow(a, b);
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_a(T a, T b, T g) {
    // Of a^0 = 1 at a = 0, too.
    return b == T{0} ? T{0} : g * b * value(a, b - T{1});
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T a, T b, T g) {
    return a > T{0} ? g * std::pow(a, b) * std::log(a) : T{0};
  }
};

// Of equal values, each gets half of the gradient. NaN goes through.
struct MinOf {
  static constexpr bool kReadsA[2] = {true, true}, kReadsB[2] = {true, true};
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    const T least = a < b ? a : b;
    return a != a ? a : least;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_a(T a, T b, T g) {
    const T share = a == b ? g / T{2} : g;
    return a > b ? T{0} : share;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T a, T b, T g) {
    return slope_a(b, a, g);
  }
};

struct MaxOf {
  static constexpr bool kReadsA[2] = {true, true}, kReadsB[2] = {true, true};
  template <class T>
  CREMA_ALWAYS_INLINE static T value(T a, T b) {
    const T greatest = a > b ? a : b;
    return a != a ? a : greatest;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_a(T a, T b, T g) {
    const T share = a == b ? g / T{2} : g;
    return a < b ? T{0} : share;
  }
  template <class T>
  CREMA_ALWAYS_INLINE static T slope_b(T a, T b, T g) {
    return slope_a(b, a, g);
  }
};

/// y = f(a, b), a run of which steps by 1 or 0 in each operand.
template <class Op, class T, int kStepA, int kStepB>
[[gnu::always_inline]] inline void apply_run(const T* a, const T* b, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = Op::template value<T>(a[kStepA * i], b[kStepB * i]);
}

/// The values of the top.
template <class Op, class T, class In>
struct Values {
  using Value = T;
  In a, b;

  CREMA_FUNCTOR T operator()(const Spread<2>::Places& at) const {
    return Op::template value<T>(a[at.of[0]], b[at.of[1]]);
  }
  void run(const Spread<2>& spread, const Spread<2>::Places& at, int64_t n, T* to) const {
    const T *const x = a + at.of[0], *const y = b + at.of[1];
    if (spread.step(0) == 0) {
      vectorized<apply_run<Op, T, 0, 1>>(x, y, to, n);
    } else if (spread.step(1) == 0) {
      vectorized<apply_run<Op, T, 1, 0>>(x, y, to, n);
    } else {
      vectorized<apply_run<Op, T, 1, 1>>(x, y, to, n);
    }
  }
};

/// Of operand kOf: what its slope does not read is null.
template <class Op, int kOf, class T>
CREMA_ALWAYS_INLINE T slope_of(T a, T b, T g) {
  if constexpr (kOf == 0) return Op::template slope_a<T>(a, b, g);
  return Op::template slope_b<T>(a, b, g);
}

template <class Op, int kOf, class T, int kStepA, int kStepB>
[[gnu::always_inline]] inline void slope_run(const T* a, const T* b, const T* dy, T* to,
                                             int64_t n) {
  constexpr bool kA = Op::kReadsA[kOf], kB = Op::kReadsB[kOf];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    to[i] = slope_of<Op, kOf, T>(kA ? a[kStepA * i] : T{0}, kB ? b[kStepB * i] : T{0}, dy[i]);
  }
}

/// The gradient of operand kOf, at each place of the top.
template <class Op, int kOf, class T, class In>
struct Slopes {
  using Value = T;
  static constexpr bool kA = Op::kReadsA[kOf], kB = Op::kReadsB[kOf];
  In a, b, dy;

  CREMA_FUNCTOR T operator()(const Spread<3>::Places& at) const {
    T x{0}, y{0};
    if constexpr (kA) x = a[at.of[0]];
    if constexpr (kB) y = b[at.of[1]];
    return slope_of<Op, kOf, T>(x, y, dy[at.of[2]]);
  }
  void run(const Spread<3>& spread, const Spread<3>::Places& at, int64_t n, T* to) const {
    const T* const x = kA ? a + at.of[0] : nullptr;
    const T* const y = kB ? b + at.of[1] : nullptr;
    const T* const g = dy + at.of[2];
    if (spread.step(0) == 0) {
      vectorized<slope_run<Op, kOf, T, 0, 1>>(x, y, g, to, n);
    } else if (spread.step(1) == 0) {
      vectorized<slope_run<Op, kOf, T, 1, 0>>(x, y, g, to, n);
    } else {
      vectorized<slope_run<Op, kOf, T, 1, 1>>(x, y, g, to, n);
    }
  }
};

class ArithmeticLayer : public TwoSidedLayer {
 public:
  explicit ArithmeticLayer(const LayerInit& init)
      : TwoSidedLayer(init), operation_(init.param.arithmetic_param().operation()) {}

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape whole = broadcast_shape(bottom);
    const Shape &a = bottom[0]->shape(), &b = bottom[1]->shape();
    forward_ = spread_of<2>(whole, {a, b});
    backward_ = spread_of<3>(whole, {a, b, whole});
    fills_ = whole == a;
    top[0]->reshape(whole);
  }

  bool stores_16_bits() const override { return true; }

  Flops flops(Blobs, Blobs top) const override {
    const double n = static_cast<double>(top[0]->count());
    return {n, (propagates(0) ? 2 * n : 0) + (propagates(1) ? 2 * n : 0)};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch([&]<class Op, class T>(Op, T) {
      // What is read comes first: the top may lie in bottom 0.
      const Tensor &a = bottom[0]->data, &b = bottom[1]->data;
      if (device.on_host()) {
        const Values<Op, T, const T*> term{device.read<T>(a), device.read<T>(b)};
        return spread_apply(HostSide(), forward_, term, device.overwrite<T>(top[0]->data));
      }
      const Values<Op, T, ValuesIn<T>> term{values_in<T>(device, a), values_in<T>(device, b)};
      spread_apply(DeviceSide(device), forward_, term, values_out<T>(device, top[0]->data));
    });
  }

  /// Bottom 1 first: the gradient of bottom 0 may lie in that of the top.
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch([&]<class Op, class T>(Op, T) {
      if (propagate[1]) find_gradient<Op, 1, T>(device, bottom, *top[0]);
      if (propagate[0]) find_gradient<Op, 0, T>(device, bottom, *top[0]);
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return dispatch([&]<class Op, class T>(Op, T) -> BackwardReads {
      const bool of_a = propagates(0), of_b = propagates(1);
      const bool a = (of_a && Op::kReadsA[0]) || (of_b && Op::kReadsA[1]);
      const bool b = (of_a && Op::kReadsB[0]) || (of_b && Op::kReadsB[1]);
      return {a && b ? IndexSet{0, 1} : a ? IndexSet{0} : b ? IndexSet{1} : IndexSet(false), false};
    });
  }
  InPlace reference_in_place() const override {
    return fills_ ? InPlace::overwrite : InPlace::never;
  }

 private:
  template <class Op, int kOf, class T>
  void find_gradient(const ComputeDevice& device, Blobs bottom, const Blob& top) const {
    constexpr bool kA = Op::kReadsA[kOf], kB = Op::kReadsB[kOf];
    Tensor& to = bottom[kOf]->diff;
    const auto run = [&]<class Side, class Term, class Out>(Side side, Term term, Out out) {
      if (to.count() == top.count()) return spread_apply(side, backward_, term, out);
      spread_sums(side, SpreadSplit<3>(backward_, kOf), term, StoreSpreadSum<T, Out>{out});
    };
    const Tensor &a = bottom[0]->data, &b = bottom[1]->data;
    if (device.on_host()) {
      const Slopes<Op, kOf, T, const T*> term{kA ? device.read<T>(a) : nullptr,
                                              kB ? device.read<T>(b) : nullptr,
                                              device.read<T>(top.diff)};
      return run(HostSide(), term, device.overwrite<T>(to));
    }
    const Slopes<Op, kOf, T, ValuesIn<T>> term{kA ? values_in<T>(device, a) : ValuesIn<T>(),
                                               kB ? values_in<T>(device, b) : ValuesIn<T>(),
                                               values_in<T>(device, top.diff)};
    run(DeviceSide(device), term, values_out<T>(device, to));
  }

  /// Returns body(AddOf{}, float{}), or the like.
  template <class Body>
  std::invoke_result_t<Body, AddOf, float> dispatch(const Body& body) const {
    return dispatch_float(dtype(), [&]<class T>(T zero) {
      switch (operation_) {
        case ArithmeticParameter::SUB:
          return body(SubOf(), zero);
        case ArithmeticParameter::MUL:
          return body(MulOf(), zero);
        case ArithmeticParameter::DIV:
          return body(DivOf(), zero);
        case ArithmeticParameter::POW:
          return body(PowOf(), zero);
        case ArithmeticParameter::MIN:
          return body(MinOf(), zero);
        case ArithmeticParameter::MAX:
          return body(MaxOf(), zero);
        case ArithmeticParameter::ADD:
          break;
      }
      return body(AddOf(), zero);
    });
  }

  ArithmeticParameter::Operation operation_;
  Spread<2> forward_;
  Spread<3> backward_;  // of both bottoms and the top
  bool fills_ = false;  // bottom 0 has the shape of the top
};

}  // namespace

void register_arithmetic(Registry& registry) {
  add_two_sided<ArithmeticLayer>(registry, "Arithmetic");
}

}  // namespace crema
