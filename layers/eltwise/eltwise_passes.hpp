// Eltwise as passes over elements, for devices (backend/device_passes.hpp).
#pragma once

#include "backend/device_passes.hpp"
#include "layers/eltwise/eltwise.hpp"

namespace crema {
namespace eltwise_passes {

#include "layers/eltwise/eltwise_math.hpp"

/// Pointers travel to the kernel as arguments, whose room is limited.
constexpr int kMaximumOperands = 16;

struct Operands {                   // one a bottom
  const void* x[kMaximumOperands];  // null where they are not read
  void* dx[kMaximumOperands];       // null where no diff is wanted
  float coefficient[kMaximumOperands];
  int count;
};

/// One element after the other: `Of` is Sum, Product or Maximum, W an EltwiseForward or an
/// EltwiseBackward.
template <class T, class Of, class W>
struct Each {
  Operands in;
  W w;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    if constexpr (std::is_same_v<W, EltwiseForward>) {
      Of::run(Number<T>{i}, in, w);
    } else {
      for (int k = in.count; k-- > 0;) {
        if (in.dx[k]) Of::run(Number<T>{i}, in, w, k);
      }
    }
  }
};

class Passes {
 public:
  static constexpr bool kAnyOrder = true;

  static std::string refusal(Blobs bottom) {
    if (bottom.size() <= kMaximumOperands) return {};
    return concat("it takes at most ", kMaximumOperands, " bottoms, not ", bottom.size());
  }

  template <class Pass>
  void forward(const Pass& pass, EltwiseLayer& layer, Blobs bottom, Blobs top) {
    const bool marks = layer.operation() == EltwiseLayer::Operation::maximum && layer.trains();
    run(pass, layer, top[0]->data.storage(), operands(pass, layer, bottom, true),
        EltwiseForward{layer.relu_slope().value_or(1), pass.write(top[0]->data),
                       marks ? pass.template write<uint8_t>(maximum_of_) : nullptr});
  }

  template <class Pass>
  void backward(const Pass& pass, EltwiseLayer& layer, Blobs top,
                const std::vector<bool>& propagate, Blobs bottom) {
    const BackwardReads reads = layer.backward_reads();
    Operands in = operands(pass, layer, bottom, reads.bottom_data);
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (propagate[k]) in.dx[k] = pass.write(bottom[k]->diff);
    }
    const bool marks = layer.operation() == EltwiseLayer::Operation::maximum;
    run(pass, layer, top[0]->diff.storage(), in,
        EltwiseBackward{layer.relu_slope().value_or(1), pass.read(top[0]->diff),
                        reads.top_data ? pass.read(top[0]->data) : nullptr,
                        marks ? pass.template read<uint8_t>(maximum_of_) : nullptr});
  }

  size_t extra_bytes() const { return maximum_of_.bytes(); }

  void make_room(const EltwiseLayer& layer, Blobs /*bottom*/, Blobs top) {
    if (layer.operation() != EltwiseLayer::Operation::maximum || !layer.trains()) return;
    maximum_of_.reshape(top[0]->shape());
    maximum_of_.set_layout(DType::u8, top[0]->data.format());
  }

 private:
  template <class Pass, class W>
  static void run(const Pass& pass, const EltwiseLayer& layer, int64_t count, const Operands& in,
                  const W& w) {
    with_operation(layer.operation(), [&](auto of) {
      pass.each(count, Each<typename Pass::Element, decltype(of), W>{in, w});
    });
  }

  template <class Pass>
  static Operands operands(const Pass& pass, const EltwiseLayer& layer, Blobs bottom,
                           Which reads_x) {
    Operands in{};
    in.count = static_cast<int>(bottom.size());
    for (size_t k = 0; k < bottom.size(); ++k) {
      if (reads_x[k]) in.x[k] = pass.read(bottom[k]->data);
      in.coefficient[k] = layer.coefficient(k);
    }
    return in;
  }

  Tensor maximum_of_;  // which bottom each element came from; laid out like the top
};

}  // namespace eltwise_passes
}  // namespace crema
