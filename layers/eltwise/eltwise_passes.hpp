// Eltwise as passes over elements, for devices (backend/device_passes.hpp).
#pragma once

#include "backend/device_passes.hpp"
#include "layers/eltwise/eltwise.hpp"
#include "layers/eltwise/eltwise_math.hpp"
#include "layers/relu/relu.hpp"

namespace crema {
namespace eltwise_passes {

/// Pointers travel to the kernel as arguments, whose room is limited.
constexpr int kMaximumOperands = 16;

template <class T>
struct Operands {
  const T* x[kMaximumOperands];  // one a bottom; null where they are not read
  T* dx[kMaximumOperands];       // null where no diff is wanted
  T coefficient[kMaximumOperands];
  int count;
};

// A thread reads its element of all operands before it writes any, so results may lie in the memory
// of operands.

template <class T>
struct Sum {
  Operands<T> in;
  ReLUMath relu;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T sum = in.coefficient[0] * in.x[0][i];
    for (int k = 1; k < in.count; ++k) sum += in.coefficient[k] * in.x[k][i];
    y[i] = relu.forward(sum);
  }
};

template <class T>
struct Product {
  Operands<T> in;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T product = in.x[0][i];
    for (int k = 1; k < in.count; ++k) product *= in.x[k][i];
    y[i] = product;
  }
};

/// `which` may be null.
template <class T>
struct Maximum {
  Operands<T> in;
  T* y;
  uint8_t* which;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    EltwiseMaximum<T> maximum(in.x[0][i]);
    for (int k = 1; k < in.count; ++k) maximum.add(in.x[k][i], static_cast<uint8_t>(k));
    y[i] = maximum.value;
    if (which) which[i] = maximum.bottom;
  }
};

/// y is given where a ReLU was absorbed.
template <class T>
struct SumGradient {
  Operands<T> in;
  ReLUMath relu;
  const T* dy;
  const T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T g = y ? relu.backward(dy[i], T{0}, y[i]) : dy[i];
    for (int k = 0; k < in.count; ++k) {
      if (in.dx[k]) in.dx[k][i] = in.coefficient[k] * g;
    }
  }
};

/// y is given where the quotient y / x is to be taken for the product of the others.
template <class T>
struct ProductGradient {
  Operands<T> in;
  const T* dy;
  const T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T g = dy[i];
    for (int k = 0; k < in.count; ++k) {
      if (!in.dx[k]) continue;
      T factor = 1;
      if (y) {
        factor = y[i] / in.x[k][i];
      } else {
        for (int j = 0; j < in.count; ++j) {
          if (j != k) factor *= in.x[j][i];
        }
      }
      in.dx[k][i] = g * factor;
    }
  }
};

template <class T>
struct MaximumGradient {
  Operands<T> in;
  const T* dy;
  const uint8_t* which;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T g = dy[i];
    for (int k = 0; k < in.count; ++k) {
      if (in.dx[k]) in.dx[k][i] = which[i] == k ? g : T{0};
    }
  }
};

class Passes {
  using Operation = EltwiseLayer::Operation;

 public:
  static constexpr bool kAnyOrder = true;

  static std::string refusal(Blobs bottom) {
    if (bottom.size() <= kMaximumOperands) return {};
    return concat("it takes at most ", kMaximumOperands, " bottoms, not ", bottom.size());
  }

  template <class Pass>
  void forward(const Pass& pass, EltwiseLayer& layer, Blobs bottom, Blobs top) {
    using T = typename Pass::Element;
    const Operands<T> in = operands(pass, layer, bottom, true);
    T* y = pass.write(top[0]->data);
    const int64_t count = top[0]->data.storage();
    switch (layer.operation()) {
      case Operation::sum:
        return pass.each(count, Sum<T>{in, {layer.relu_slope().value_or(1)}, y});
      case Operation::product:
        return pass.each(count, Product<T>{in, y});
      case Operation::maximum:
        return pass.each(
            count,
            Maximum<T>{in, y,
                       layer.trains() ? pass.template write<uint8_t>(maximum_of_) : nullptr});
    }
  }

  template <class Pass>
  void backward(const Pass& pass, EltwiseLayer& layer, Blobs top,
                const std::vector<bool>& propagate, Blobs bottom) {
    using T = typename Pass::Element;
    const BackwardReads reads = layer.backward_reads();
    Operands<T> in = operands(pass, layer, bottom, reads.bottom_data);
    const T* dy = pass.read(top[0]->diff);
    const T* y = reads.top_data ? pass.read(top[0]->data) : nullptr;
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (propagate[k]) in.dx[k] = pass.write(bottom[k]->diff);
    }
    const int64_t count = top[0]->diff.storage();
    switch (layer.operation()) {
      case Operation::sum:
        return pass.each(count, SumGradient<T>{in, {layer.relu_slope().value_or(1)}, dy, y});
      case Operation::product:
        return pass.each(count, ProductGradient<T>{in, dy, y});
      case Operation::maximum:
        return pass.each(count,
                         MaximumGradient<T>{in, dy, pass.template read<uint8_t>(maximum_of_)});
    }
  }

  size_t extra_bytes() const { return maximum_of_.bytes(); }

  void make_room(const EltwiseLayer& layer, Blobs /*bottom*/, Blobs top) {
    if (layer.operation() != Operation::maximum || !layer.trains()) return;
    maximum_of_.reshape(top[0]->shape());
    maximum_of_.set_layout(DType::u8, top[0]->data.format());
  }

 private:
  template <class Pass>
  static auto operands(const Pass& pass, const EltwiseLayer& layer, Blobs bottom, Which reads_x) {
    using T = typename Pass::Element;
    Operands<T> in{};
    in.count = static_cast<int>(bottom.size());
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (reads_x[k]) in.x[k] = pass.read(bottom[k]->data);
      in.coefficient[k] = static_cast<T>(layer.coefficient(k));
    }
    return in;
  }

  Tensor maximum_of_;  // which bottom each element came from; laid out like the top
};

}  // namespace eltwise_passes
}  // namespace crema
