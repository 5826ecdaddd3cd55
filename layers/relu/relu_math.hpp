#include "backend/relu_math.hpp"

struct Math : ReLUMath {
  static constexpr const char* type = "ReLU";
  static constexpr bool keeps_zero = true;

  template <class Parameter>
  static Math of(const Parameter& param) {
    return {{param.relu_param().negative_slope()}};
  }
  // A layer that takes it over has no x to keep.
  std::optional<Activation> activation() const {
    if (reads_x()) return std::nullopt;
    return Activation{Activation::Kind::relu, slope};
  }
};
