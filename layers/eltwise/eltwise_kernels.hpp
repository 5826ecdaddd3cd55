// What passes of Eltwise work on, and those of f32 on the CPU by Highway.
#pragma once

#include <algorithm>
#include <cstdint>

namespace crema {

enum class EltwiseOperation : uint8_t { product, sum, maximum };

/// One operand a bottom.
struct EltwiseOperands {
  const void* const* x;  // null where they are not read
  void* const* dx;       // null where no diff is wanted
  const float* coefficient;
  int count;
};

/// Up to N operands that lie side by side: in registers, or in the arguments of a kernel.
template <int N>
struct FewOperands {
  const void* x[N] = {};
  void* dx[N] = {};
  float coefficient[N] = {};
  int count;

  explicit FewOperands(const EltwiseOperands& all) : count(all.count) {
    std::copy_n(all.x, count, x);
    std::copy_n(all.dx, count, dx);
    std::copy_n(all.coefficient, count, coefficient);
  }
};

/// `Out` and `In` are what elements are stored to and loaded from: pointers here.
template <class Out>
struct EltwiseForwardTo {
  float slope;  // of the ReLU at the end; 1 without one
  Out y;
  uint8_t* which;  // which bottom each element of a maximum came from; may be null
};
template <class In>
struct EltwiseBackwardFrom {
  float slope;
  In dy;
  In y;  // null where it is not read
  const uint8_t* which;
};
using EltwiseForward = EltwiseForwardTo<void*>;
using EltwiseBackward = EltwiseBackwardFrom<const void*>;

/// Elements [begin, end).
void eltwise_elements(EltwiseOperation operation, const EltwiseOperands& in,
                      const EltwiseForward& w, int64_t begin, int64_t end);
void eltwise_elements(EltwiseOperation operation, const EltwiseOperands& in,
                      const EltwiseBackward& w, int64_t begin, int64_t end);

}  // namespace crema
