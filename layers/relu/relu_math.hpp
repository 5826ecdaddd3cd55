#include "backend/relu_math.hpp"

struct Math : ReLUMath {
  static constexpr const char* type = "ReLU";
  static constexpr bool keeps_zero = true;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {{param.relu_param().negative_slope()}};
  }
  /// As a step of the tail of the layer before it, which has no x to keep.
  std::optional<TailStep> tail_step() const {
    if (reads_x()) return std::nullopt;
    return TailStep{.kind = TailStep::Kind::relu, .slope = slope};
  }
};
