#include "backend/gelu_math.hpp"

struct Math : GELUMath {
  static constexpr const char* type = "GELU";
  static constexpr bool keeps_zero = true;

  template <class Parameter>
  static Math of(const Parameter& param) {
    const auto& settings = param.gelu_param();
    return {{settings.approximate() == settings.TANH}};
  }

  CREMA_FUNCTOR bool reads_x() const { return true; }
  CREMA_FUNCTOR bool reads_y() const { return false; }

  /// As a step of the tail of the layer before it.
  std::optional<TailStep> tail_step() const {
    return TailStep{.kind = by_tanh ? TailStep::Kind::gelu_by_tanh : TailStep::Kind::gelu};
  }
};
