// Where: takes each element of one of two bottoms, as a third one says. See README.md.
#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "core/simd.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/spread.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {
namespace {

/// Of one operand alone, or of all: steps are 1 or 0.
template <class T, int kStepC, int kStepX, int kStepY>
[[gnu::always_inline]] inline void choose_run(const T* c, const T* x, const T* y, T* to,
                                              int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T yes = x[kStepX * i], no = y[kStepY * i];
    to[i] = c[kStepC * i] != T{0} ? yes : no;
  }
}

template <class T, int kStepC, int kStepX>
void choose_y(int64_t step_y, const T* c, const T* x, const T* y, T* to, int64_t n) {
  step_y == 0 ? vectorized<choose_run<T, kStepC, kStepX, 0>>(c, x, y, to, n)
              : vectorized<choose_run<T, kStepC, kStepX, 1>>(c, x, y, to, n);
}

/// The values of the top.
template <class T, class In>
struct Chosen {
  using Value = T;
  In c, x, y;

  CREMA_FUNCTOR T operator()(const Spread<3>::Places& at) const {
    const bool yes = c[at.of[0]] != T{0};
    return yes ? x[at.of[1]] : y[at.of[2]];
  }
  void run(const Spread<3>& spread, const Spread<3>::Places& at, int64_t n, T* to) const {
    const T *const condition = c + at.of[0], *const yes = x + at.of[1], *const no = y + at.of[2];
    const int64_t step = spread.step(2);
    if (spread.step(0) == 0) {
      spread.step(1) == 0 ? choose_y<T, 0, 0>(step, condition, yes, no, to, n)
                          : choose_y<T, 0, 1>(step, condition, yes, no, to, n);
    } else {
      spread.step(1) == 0 ? choose_y<T, 1, 0>(step, condition, yes, no, to, n)
                          : choose_y<T, 1, 1>(step, condition, yes, no, to, n);
    }
  }
};

template <class T, int kStepC>
[[gnu::always_inline]] inline void keep_run(const T* c, const T* dy, bool of_yes, T* to,
                                            int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = (c[kStepC * i] != T{0}) == of_yes ? dy[i] : T{0};
}

/// The gradient of x, or that of y, at each place of the top.
template <class T, class In>
struct Kept {
  using Value = T;
  In c, dy;
  bool of_yes;

  CREMA_FUNCTOR T operator()(const Spread<4>::Places& at) const {
    const bool yes = c[at.of[0]] != T{0};
    return yes == of_yes ? dy[at.of[3]] : T{0};
  }
  void run(const Spread<4>& spread, const Spread<4>::Places& at, int64_t n, T* to) const {
    const T *const condition = c + at.of[0], *const g = dy + at.of[3];
    spread.step(0) == 0 ? vectorized<keep_run<T, 0>>(condition, g, of_yes, to, n)
                        : vectorized<keep_run<T, 1>>(condition, g, of_yes, to, n);
  }
};

class WhereLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 3}; }
  bool can_propagate(int bottom) const override { return bottom != 0; }
  bool takes_constants(int bottom) const override { return bottom == 0; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape whole = broadcast_shape(bottom);
    const Shape &c = bottom[0]->shape(), &x = bottom[1]->shape(), &y = bottom[2]->shape();
    forward_ = spread_of<3>(whole, {c, x, y});
    backward_ = spread_of<4>(whole, {c, x, y, whole});
    top[0]->reshape(whole);
  }

  bool stores_16_bits() const override { return true; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const Tensor &c = bottom[0]->data, &x = bottom[1]->data, &y = bottom[2]->data;
      if (device.on_host()) {
        const Chosen<T, const T*> term{device.read<T>(c), device.read<T>(x), device.read<T>(y)};
        return spread_apply(HostSide(), forward_, term, device.overwrite<T>(top[0]->data));
      }
      const Chosen<T, ValuesIn<T>> term{values_in<T>(device, c), values_in<T>(device, x),
                                        values_in<T>(device, y)};
      spread_apply(DeviceSide(device), forward_, term, values_out<T>(device, top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const Tensor &c = bottom[0]->data, &dy = top[0]->diff;
      for (const int of : {1, 2}) {
        if (!propagate[static_cast<size_t>(of)]) continue;
        Tensor& to = bottom[static_cast<size_t>(of)]->diff;
        const auto run = [&]<class Side, class Term, class Out>(Side side, Term term, Out out) {
          if (to.count() == dy.count()) return spread_apply(side, backward_, term, out);
          spread_sums(side, SpreadSplit<4>(backward_, of), term, StoreSpreadSum<T, Out>{out});
        };
        if (device.on_host()) {
          run(HostSide(), Kept<T, const T*>{device.read<T>(c), device.read<T>(dy), of == 1},
              device.overwrite<T>(to));
        } else {
          run(DeviceSide(device),
              Kept<T, ValuesIn<T>>{values_in<T>(device, c), values_in<T>(device, dy), of == 1},
              values_out<T>(device, to));
        }
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }

 private:
  Spread<3> forward_;
  Spread<4> backward_;  // of the bottoms and the top
};

}  // namespace

void register_where(Registry& registry) { add_two_sided<WhereLayer>(registry, "Where"); }

}  // namespace crema
