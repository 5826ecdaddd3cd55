#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/recurrent/cells.cpp"
#include "layers/recurrent/cells.hpp"

#include <algorithm>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

#include "layers/recurrent/cells-inl.hpp"

using Floats = hn::ScalableTag<float>;

/// Vectors, of which all lanes or the first ones are elements.
template <class Lanes>
struct VectorAccess {
  using Value = crema::HWY_NAMESPACE::Value<Floats>;
  Lanes lanes;
  HWY_INLINE Value load(const float* from) const {
    return Value(HWY_NAMESPACE::load(Floats(), lanes, from));
  }
  HWY_INLINE void store(Value value, float* to) const {
    HWY_NAMESPACE::store(Floats(), lanes, value.raw, to);
  }
};

template <class Cell, class Step>
HWY_INLINE void each_row(const Step& step, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t n = begin / step.units, first = begin % step.units;
    const int64_t count = std::min(step.units - first, end - begin);
    each_vector(Floats(), count, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      Cell::compute(step, n, first + i, VectorAccess<decltype(lanes)>{lanes});
    });
    begin += count;
  }
}

template <class Step>
HWY_INLINE void each_row_of(CellKind cell, const Step& step, int64_t begin, int64_t end) {
  switch (cell) {
    case CellKind::lstm:
      return each_row<LstmCell>(step, begin, end);
    case CellKind::rnn:
      return each_row<RnnCell>(step, begin, end);
    case CellKind::gru:
      return each_row<GruCell>(step, begin, end);
    case CellKind::gru_gates:
      return each_row<GruGatesCell>(step, begin, end);
    case CellKind::gru_candidate:
      return each_row<GruCandidateCell>(step, begin, end);
  }
}

HWY_FLATTEN void cells_forward(CellKind cell, const ForwardStep<float>& step, int64_t begin,
                               int64_t end) {
  each_row_of(cell, step, begin, end);
}
HWY_FLATTEN void cells_backward(CellKind cell, const BackwardStep<float>& step, int64_t begin,
                                int64_t end) {
  each_row_of(cell, step, begin, end);
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(cells_forward);
HWY_EXPORT(cells_backward);

}  // namespace

void compute_on_vectors(CellKind cell, const ForwardStep<float>& step, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(cells_forward)(cell, step, begin, end);
}
void compute_on_vectors(CellKind cell, const BackwardStep<float>& step, int64_t begin,
                        int64_t end) {
  HWY_DYNAMIC_DISPATCH(cells_backward)(cell, step, begin, end);
}

}  // namespace crema
#endif
